# SPDX-License-Identifier: Apache-2.0
"""The recorder counts instructions that cannot end a block early together with the next one. Which
those are is checked on the C libraries, as an independent disassembler shows them."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

SOURCE: Final = Path(__file__).resolve().parents[2] / "qemu" / "recorder.c"
LIMIT_S: Final = 120.0
# Reads instructions, a line of bytes in hexadecimal each, and prints 1 for one that may stop.
HARNESS: Final = """
int main(int argc, char **argv)
{
	char line[256];

	(void)argv;
	recorder.arm = argc > 1;
	while (fgets(line, sizeof(line), stdin)) {
		uint8_t code[32] = { 0 };
		unsigned int byte;
		size_t size = 0;

		while (size < sizeof(code) && sscanf(line + 2 * size, "%2x", &byte) == 1)
			code[size++] = byte;
		puts(may_stop(code, size) ? "1" : "0");
	}
	return 0;
}
"""
ROW: Final = re.compile(r"\s+[0-9a-f]+:\t([0-9a-f ]+)\t(.*)")
# What only computes, by its mnemonic: no access to memory, no exception.
X86: Final = re.compile(
    r"(?:(?:add|adc|sub|sbb|and|or|xor|cmp|test|mov|movabs|xchg|lea|inc|dec|neg|not|mul|imul"
    r"|sh[lr]|sa[lr]|ro[lr]|rc[lr]|bt|btc|btr|bts)[bwlq]?"
    r"|mov[sz][bwl]?[wlq]?|movslq|cmov\w+|set\w+|j\w+|nop[wlq]?)"
)
PREFIX: Final = re.compile(r"data16|cs|ds|bnd|rex\S*")
ARM: Final = re.compile(
    r"adcs?|adds?|adrp?|ands?|asr|bfi|bfxil|bics?|ccm[np]|cinc|cm[np]|cneg|csel|csetm?|csin[cv]"
    r"|csneg|eor|extr|lsl|lsr|madd|mneg|mov[kn]?|msub|mul|mvn|negs?|orn|orr|ror|sbcs?|[su]bfi?[xz]"
    r"|[su]m(?:add|sub|ul)l|[su]mulh|subs?|sxt[bhw]|tst"
)
LIBRARIES: Final = {
    "x86_64": ("objdump", Path("/lib/x86_64-linux-gnu/libc.so.6")),
    "aarch64": ("aarch64-linux-gnu-objdump", Path("/usr/aarch64-linux-gnu/lib/libc.so.6")),
}


def disassembled(program: str, path: Path) -> Iterator[tuple[str, str]]:
    """The bytes of each instruction in hexadecimal, as they are in memory, and its text."""
    words = [program, "--disassemble", "--wide", str(path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=LIMIT_S, check=True)
    for line in done.stdout.splitlines():
        if found := ROW.fullmatch(line):
            code, text = found[1].strip(), found[2].strip()
            if program.startswith("aarch64"):
                code = bytes.fromhex(code)[::-1].hex()  # printed as a word
            yield code.replace(" ", ""), text


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if shutil.which("gcc") is None:
        pytest.skip("there is no gcc on this machine")
    program = tmp_path_factory.mktemp("recorder") / "may_stop"
    words = ["gcc", "-std=gnu11", "-O1", "-x", "c", "-", "-o", str(program), "-ldl"]
    words += ["-static", "-Wl,--unresolved-symbols=ignore-all"]  # nothing calls QEMU
    source = f'#include "{SOURCE}"\n{HARNESS}'
    subprocess.run(words, input=source.encode(), timeout=LIMIT_S, check=True)
    return program


def computes(processor: str, text: str) -> bool:
    """Whether an instruction only computes, by its text."""
    words = re.split("[<#]", text, maxsplit=1)[0].split()
    if processor == "aarch64":
        return bool(ARM.fullmatch(words[0]))
    name = next((word for word in words if not PREFIX.fullmatch(word)), "")
    memory = "(" in text or re.search(r"%[c-gs]s:|^movabs .*,0x", text)
    return bool(X86.fullmatch(name)) and (not memory or name.startswith(("lea", "nop")))


@pytest.mark.parametrize("processor", LIBRARIES)
@pytest.mark.slow
def test_only_instructions_that_compute_are_counted_together(asked: Path, processor: str) -> None:
    program, library = LIBRARIES[processor]
    if shutil.which(program) is None or not library.exists():
        pytest.skip(f"{program} or {library} is not on this machine")
    seen = dict(disassembled(program, library))
    assert len(seen) > 20_000
    words = [str(asked)] + (["arm"] if processor == "aarch64" else [])
    given = "\n".join(seen) + "\n"
    done = subprocess.run(
        words, input=given, capture_output=True, text=True, timeout=LIMIT_S, check=True
    )
    together = [code for code, stops in zip(seen, done.stdout.split(), strict=True) if stops == "0"]
    wrong = {seen[code] for code in together if not computes(processor, seen[code])}
    assert not wrong, sorted(wrong)[:40]
    # and it is worth it: most of those that only compute
    possible = sum(computes(processor, text) for text in seen.values())
    assert len(together) > 0.8 * possible
