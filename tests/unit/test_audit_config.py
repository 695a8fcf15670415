# SPDX-License-Identifier: Apache-2.0
"""``check --config``: a kernel's configuration alone, the fragment, and files that mean harm."""

from __future__ import annotations

import gzip
import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import Run
from rtgauge.audit.kconfig import (
    CONFIG_CHECKS,
    ConfigAudit,
    KernelConfig,
    audit_config,
    read_config,
)
from rtgauge.errors import RtgaugeError, UsageError

RT = """#
# Automatically generated file; DO NOT EDIT.
# Linux/x86 6.12.48 Kernel Configuration
#
CONFIG_SMP=y
CONFIG_EXPERT=y
CONFIG_ARCH_SUPPORTS_RT=y
# CONFIG_PREEMPT_NONE is not set
CONFIG_PREEMPT_RT=y
CONFIG_HIGH_RES_TIMERS=y
CONFIG_NO_HZ_FULL=y
CONFIG_RCU_NOCB_CPU=y
CONFIG_CPU_ISOLATION=y
CONFIG_CPUSETS=y
CONFIG_HZ_250=y
CONFIG_HZ=250
CONFIG_CPU_FREQ=y
CONFIG_CPU_FREQ_DEFAULT_GOV_PERFORMANCE=y
CONFIG_FTRACE=y
CONFIG_FUNCTION_TRACER=y
CONFIG_DYNAMIC_FTRACE=y
CONFIG_OSNOISE_TRACER=y
CONFIG_TIMERLAT_TRACER=y
CONFIG_HWLAT_TRACER=y
CONFIG_LOCALVERSION="-rt"
"""
STOCK = RT.replace("# CONFIG_PREEMPT_NONE is not set", "CONFIG_PREEMPT_VOLUNTARY=y").replace(
    "CONFIG_PREEMPT_RT=y", "CONFIG_PREEMPT_DYNAMIC=y\n# CONFIG_PREEMPT_RT is not set"
)


def parse(tmp_path: Path, text: str | bytes) -> KernelConfig:
    file = tmp_path / "config"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_config(file)


def levels(audited: ConfigAudit) -> dict[str, str]:
    return {finding.check: finding.level for finding in audited.findings}


def merged(config: KernelConfig, fragment: str) -> KernelConfig:
    """What scripts/kconfig/merge_config.sh does: lines of the two forms, and nothing else."""
    options = dict(config.options)
    for line in fragment.splitlines():
        if match := re.match(r"# (?:CONFIG_)(\w+) is not set$", line):
            options[match[1]] = "n"
        elif match := re.match(r"CONFIG_(\w+)=(.*)$", line):
            options[match[1]] = match[2]
        else:
            assert line.startswith("#"), line
    return KernelConfig(options, config.architecture, config.version)


@pytest.mark.study(9, lacks="building and installing the kernel")
def test_a_kernel_as_real_time_wants_it(tmp_path: Path) -> None:
    config = parse(tmp_path, RT)
    assert (config.architecture, config.version, config.release) == ("x86", (6, 12), "6.12.48")
    assert config["LOCALVERSION"] == "-rt"
    audited = audit_config(config)
    assert levels(audited) == dict.fromkeys(CONFIG_CHECKS, "ok")
    assert audited.fragment == ""
    assert audited.model == "preempt_rt"


def test_preempt_rt_where_the_sources_have_it(tmp_path: Path) -> None:
    audited = audit_config(parse(tmp_path, STOCK))
    assert levels(audited)["preemption"] == "error"
    assert audited.model == "voluntary"
    lines = audited.fragment.splitlines()
    assert "CONFIG_EXPERT=y" in lines
    assert "CONFIG_PREEMPT_RT=y" in lines
    # one choice with PREEMPT_RT until 6.12, and without PREEMPT_DYNAMIC
    assert "# CONFIG_PREEMPT_VOLUNTARY is not set" in lines
    assert "# CONFIG_PREEMPT_DYNAMIC is not set" in lines
    later = audit_config(parse(tmp_path, STOCK.replace("6.12.48", "6.18.0"))).fragment
    assert "CONFIG_PREEMPT=y" in later.splitlines()
    assert "DYNAMIC" not in later


@pytest.mark.parametrize(("architecture", "release"), [("x86", "6.1.0"), ("arm", "4.19.5")])
def test_preempt_rt_where_the_sources_lack_it(
    tmp_path: Path, architecture: str, release: str
) -> None:
    text = STOCK.replace("CONFIG_ARCH_SUPPORTS_RT=y\n", "")
    text = text.replace("Linux/x86 6.12.48", f"Linux/{architecture} {release}")
    audited = audit_config(parse(tmp_path, text))
    finding = audited.findings[0]
    assert finding.level == "error"
    assert f"for {architecture}" in finding.remedy
    assert f"patches for {'.'.join(release.split('.')[:2])}" in finding.remedy
    assert "PREEMPT_RT" not in audited.fragment
    assert "CONFIG_PREEMPT=y" in audited.fragment.splitlines()


def test_patched_kernels_of_old_call_it_otherwise(tmp_path: Path) -> None:
    text = RT.replace("CONFIG_PREEMPT_RT=y", "CONFIG_PREEMPT_RT_FULL=y").replace("6.12.48", "4.9.1")
    audited = audit_config(parse(tmp_path, text))
    assert levels(audited)["preemption"] == "ok"


def test_kernels_before_timerlat_are_not_said_to_have_it(tmp_path: Path) -> None:
    old = re.sub(r"CONFIG_(OSNOISE|TIMERLAT)_TRACER=y\n", "", RT).replace("6.12.48", "5.10.1")
    for text, found in ((RT, "timerlat, osnoise and hwlat"), (old, "hwlat")):
        audited = audit_config(parse(tmp_path, text))
        assert [one.found for one in audited.findings if one.check == "tracers"] == [found]


@pytest.mark.study(10)
@pytest.mark.parametrize(
    ("check", "level", "line", "wanted"),
    [
        ("debugging", "warning", "CONFIG_PROVE_LOCKING=y", "# CONFIG_PROVE_LOCKING is not set"),
        ("debugging", "warning", "# CONFIG_DYNAMIC_FTRACE is not set", "CONFIG_DYNAMIC_FTRACE=y"),
        ("debugging", "note", "CONFIG_DEBUG_LIST=y", "#? CONFIG_DEBUG_LIST is not set"),
        ("tracers", "note", "# CONFIG_OSNOISE_TRACER is not set", "#? CONFIG_OSNOISE_TRACER=y"),
        ("timers", "error", "# CONFIG_HIGH_RES_TIMERS is not set", "CONFIG_HIGH_RES_TIMERS=y"),
        ("tick", "note", "CONFIG_HZ=1000", "#? CONFIG_HZ_250=y"),
        ("frequency", "note", "# CONFIG_CPU_FREQ_DEFAULT_GOV_PERFORMANCE is not set",
         "#? CONFIG_CPU_FREQ_DEFAULT_GOV_PERFORMANCE=y"),
        ("control-groups", "warning", "CONFIG_RT_GROUP_SCHED=y",
         "# CONFIG_RT_GROUP_SCHED is not set"),
        ("isolation", "note", "# CONFIG_RCU_NOCB_CPU is not set", "#? CONFIG_RCU_NOCB_CPU=y"),
        ("numa-balancing", "warning", "CONFIG_NUMA_BALANCING_DEFAULT_ENABLED=y",
         "# CONFIG_NUMA_BALANCING_DEFAULT_ENABLED is not set"),
    ],
)  # fmt: skip
def test_each_check(tmp_path: Path, check: str, level: str, line: str, wanted: str) -> None:
    option = re.search(r"CONFIG_\w+", line)
    assert option is not None
    text = re.sub(rf"^(# )?{option[0]}[= ].*\n", "", RT, flags=re.M) + line + "\n"
    audited = audit_config(parse(tmp_path, text))
    assert levels(audited) == dict.fromkeys(CONFIG_CHECKS, "ok") | {check: level}
    assert wanted in audited.fragment.splitlines()
    found = next(finding for finding in audited.findings if finding.check == check)
    assert found.remedy


def test_old_kernels_get_no_options_that_came_later(tmp_path: Path) -> None:
    text = RT.replace("6.12.48", "4.4.300")
    for option in ("CPU_ISOLATION", "OSNOISE_TRACER", "TIMERLAT_TRACER", "HWLAT_TRACER"):
        text = text.replace(f"CONFIG_{option}=y\n", "")
    audited = audit_config(parse(tmp_path, text))
    assert {check: levels(audited)[check] for check in ("isolation", "tracers")} == {
        "isolation": "ok", "tracers": "ok",
    }  # fmt: skip


AT91 = (
    RT.replace("Linux/x86 6.12.48", "Linux/arm 3.0.10")
    .replace("CONFIG_ARCH_SUPPORTS_RT=y\n", "")
    .replace("CONFIG_SMP=y", "CONFIG_ARCH_AT91=y\nCONFIG_ARCH_AT91SAM9G20=y")
)


@pytest.mark.study(11)
@pytest.mark.parametrize(
    ("text", "level", "wanted"),
    [
        (AT91, "error", {"CONFIG_ATMEL_TCB_CLKSRC=y", "CONFIG_ATMEL_TCLIB=y"}),
        (AT91.replace("3.0.10", "6.1.0"), "error", {"CONFIG_ATMEL_TCB_CLKSRC=y"}),
        (AT91 + "CONFIG_ATMEL_TCLIB=y\nCONFIG_ATMEL_TCB_CLKSRC=y\n", "ok", set()),
        (AT91 + "CONFIG_MICROCHIP_PIT64B=y\n", "ok", set()),
        (AT91.replace("AT91", "OMAP2PLUS") + "CONFIG_OMAP_32K_TIMER=y\n", "warning",
         {"# CONFIG_OMAP_32K_TIMER is not set"}),
        # one kernel for many boards: OMAP_32K_TIMER selects no timer from 3.10 on
        (AT91.replace("AT91", "OMAP2PLUS").replace("3.0.10", "5.10.0")
         + "CONFIG_OMAP_32K_TIMER=y\nCONFIG_ARM_ARCH_TIMER=y\n", "note", set()),
        (AT91.replace("AT91", "OMAP16XX").replace("3.0.10", "5.10.0")
         + "CONFIG_OMAP_32K_TIMER=y\n", "warning", {"# CONFIG_OMAP_32K_TIMER is not set"}),
        (AT91.replace("AT91", "PXA"), "note", set()),
        (AT91.replace("AT91", "VIRT") + "CONFIG_ARM_ARCH_TIMER=y\n", "note", set()),
    ],
)  # fmt: skip
def test_clock_sources_of_boards(tmp_path: Path, text: str, level: str, wanted: set[str]) -> None:
    config = parse(tmp_path, text)
    audited = audit_config(config)
    assert levels(audited)["clock-source"] == level
    assert (
        set(audited.fragment.splitlines())
        & {line for line in audited.fragment.splitlines() if "ATMEL" in line or "OMAP" in line}
        == wanted
    )
    if wanted:
        assert levels(audit_config(merged(config, audited.fragment)))["clock-source"] == "ok" or (
            level == "warning"
        )


@pytest.mark.parametrize(
    ("option", "model", "words", "remedy"),
    [
        ("XENOMAI", "cobalt", "Cobalt", "measure tasks of the core: rtgauge run timer --core"),
        ("EVL", "evl", "EVL", "read rtgauge's figures as figures of Linux tasks"),
        ("IPIPE", "voluntary", "I-pipe", "measure with Xenomai's latency -h, and import"),
        ("DOVETAIL", "voluntary", "Dovetail", "build the kernel with CONFIG_XENOMAI=y, then"),
    ],
)
def test_a_core_beside_linux_is_not_judged_as_linux(
    tmp_path: Path, option: str, model: str, words: str, remedy: str
) -> None:
    """A study of Xenomai switched PREEMPT, high resolution and NO_HZ off, and was right to."""
    text = STOCK.replace("CONFIG_HIGH_RES_TIMERS=y\n", "") + f"CONFIG_{option}=y\n"
    audited = audit_config(parse(tmp_path, text))
    first = audited.findings[0]
    assert (first.check, first.level) == ("preemption", "note")
    assert words in first.found
    assert first.remedy.startswith(remedy)
    assert levels(audited)["timers"] == "note"
    assert audited.model == model
    assert not [one for one in audited.findings if one.level == "error"]
    assert "PREEMPT" not in audited.fragment
    assert "\nCONFIG_HIGH_RES_TIMERS" not in audited.fragment
    module = audit_config(parse(tmp_path, STOCK + f"# CONFIG_{option} is not set\n"))
    assert levels(module)["preemption"] == "error"


def test_nohz_full_is_not_asked_for(tmp_path: Path) -> None:
    text = RT.replace("CONFIG_NO_HZ_FULL=y\nCONFIG_RCU_NOCB_CPU=y\n", "CONFIG_NO_HZ_IDLE=y\n")
    audited = audit_config(parse(tmp_path, text))
    assert levels(audited)["isolation"] == "note"
    assert {"#? CONFIG_RCU_NOCB_CPU=y", "#? CONFIG_RCU_EXPERT=y"} <= set(
        audited.fragment.splitlines()
    )
    assert "NO_HZ" not in audited.fragment


def test_huge_pages_only_without_preempt_rt(tmp_path: Path) -> None:
    always = "CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS=y\n"
    assert levels(audit_config(parse(tmp_path, RT + always)))["huge-pages"] == "ok"
    audited = audit_config(parse(tmp_path, STOCK + always))
    assert levels(audited)["huge-pages"] == "warning"
    assert "CONFIG_TRANSPARENT_HUGEPAGE_MADVISE=y" in audited.fragment.splitlines()


def test_the_fragment_mends_what_it_was_made_for(tmp_path: Path) -> None:
    worst = STOCK.replace("CONFIG_HIGH_RES_TIMERS=y", "").replace("HZ=250", "HZ=1000") + (
        "CONFIG_PROVE_LOCKING=y\nCONFIG_KASAN=y\nCONFIG_RT_GROUP_SCHED=y\nCONFIG_DEBUG_LIST=y\n"
        "CONFIG_TRANSPARENT_HUGEPAGE_ALWAYS=y\nCONFIG_NUMA_BALANCING_DEFAULT_ENABLED=y\n"
        "CONFIG_COMPILE_TEST=y\nCONFIG_DEBUG_KMEMLEAK=y\nCONFIG_HZ_1000=y\n"
    )
    config = parse(tmp_path, worst)
    audited = audit_config(config)
    assert set(levels(audited).values()) == {"ok", "note", "warning", "error"}
    again = audit_config(merged(config, audited.fragment))
    assert set(levels(again).values()) <= {"ok", "note"}
    # it contains no option twice
    active = re.findall(r"^(?:# )?CONFIG_(\w+)", audited.fragment, re.M)
    assert len(active) == len(set(active))


def test_packed_and_plain_are_the_same(tmp_path: Path) -> None:
    assert parse(tmp_path, gzip.compress(STOCK.encode())) == parse(tmp_path, STOCK)


def test_the_kernel_that_runs_here() -> None:
    for file in (Path("/proc/config.gz"), Path("/boot") / f"config-{os.uname().release}"):
        if file.exists():
            config = read_config(file)
            assert config.version is not None
            assert len(audit_config(config).findings) == len(CONFIG_CHECKS)
            return
    pytest.skip("the kernel here shows no configuration")


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no option is on"),
        (b"hello\n", "no option is on"),
        (b"CONFIG_A=y\n\0", "neither text"),
        (b"CONFIG_A=y\n\xff", "neither text"),
        (b"\x7fELF" + bytes(100), "neither text"),
        (b"\x1f\x8bnot gzip", "damaged"),
        (gzip.compress(STOCK.encode())[:-20], "cut short"),
        (gzip.compress(bytes(64 << 20)), "too large"),
        (gzip.compress(b"CONFIG_A=y\n" * (1 << 20)), "too large"),
        (b"CONFIG_A=y\n" * (1 << 19), "too large"),
    ],
)
def test_files_that_are_none(tmp_path: Path, content: bytes, says: str) -> None:
    with pytest.raises(RtgaugeError, match=says) as caught:
        parse(tmp_path, content)
    assert caught.value.remedy


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for place in (fifo, tmp_path, tmp_path / "missing", Path("/dev/zero")):
        with pytest.raises(UsageError):
            read_config(place)


@pytest.mark.slow
@given(st.text(alphabet='# CONFIG_=ynm"\nPREEMPTHZis not set019/Linux.', max_size=400))
@settings(max_examples=100, deadline=None)
def test_any_text_is_read_or_refused(text: str) -> None:
    options = dict(re.findall(r"^CONFIG_(\w+)=(.*)$", text, re.M))
    audited = audit_config(KernelConfig(options))
    for finding in audited.findings:
        assert bool(finding.remedy) == (finding.level != "ok")
    merged(KernelConfig(options), audited.fragment)


def test_on_the_command_line(rtgauge: Run, tmp_path: Path) -> None:
    config, fragment = tmp_path / "config", tmp_path / "rt.config"
    config.write_text(STOCK)
    shown = rtgauge("check", "--config", str(config))
    assert shown.code == 0
    assert "\nCONFIG_PREEMPT_RT=y\n" in shown.out
    assert f"merge_config.sh -m {config} FRAGMENT && make" in shown.err
    there = rtgauge("check", "--config", str(config), "-o", str(tmp_path / "with a blank"))
    quoted = tmp_path / "with a blank"
    assert f"merge_config.sh -m {config} '{quoted}' && make" in there.err
    packed = tmp_path / "config.gz"
    packed.write_bytes(gzip.compress(STOCK.encode()))
    zipped = rtgauge("check", "--config", str(packed)).err
    assert f"zcat {packed} > .config && scripts/kconfig/merge_config.sh -m .config" in zipped
    written = rtgauge("check", "--config", str(config), "-o", str(fragment), "--strict", "--json")
    assert written.code == 3
    document = written.json()
    assert document["kernel"] == {"architecture": "x86", "release": "6.12.48"}
    assert document["realtime"] == "voluntary"
    assert document["fragment"] == fragment.read_text()
    assert "CONFIG_PREEMPT_RT=y" not in rtgauge("check", "--config", str(config), "-o",
                                                str(fragment)).out.splitlines()  # fmt: skip
    config.write_text(RT)
    assert rtgauge("check", "--config", str(config), "--strict").code == 0
    config.write_bytes(b"\0")
    assert rtgauge("check", "--config", str(config)).code == 1
    assert rtgauge("check", "--config", str(tmp_path / "none")).code == 2
    assert rtgauge("check", "-o", str(fragment)).code == 2
    assert rtgauge("check", "--config", str(config), "--target", "fake").code == 2


def test_a_defconfig_is_to_be_resolved_first(rtgauge: Run, tmp_path: Path) -> None:
    """It has no head line and a few options: what it does not name is not off."""
    config = parse(tmp_path, "CONFIG_SMP=y\nCONFIG_HIGH_RES_TIMERS=y\n")
    first = audit_config(config).findings[0]
    assert (first.check, first.level) == ("configuration", "warning")
    assert "make olddefconfig" in first.remedy and "2 options" in first.found
    (one, *_) = audit_config(KernelConfig({"SMP": "y"})).findings
    assert one.found.startswith("1 option, not resolved")
    shown = rtgauge("check", "--config", str(tmp_path / "config"))
    assert shown.code == 0 and "make olddefconfig" in " ".join(shown.out.split())
    for text in (STOCK, 'CONFIG_CC_VERSION_TEXT="gcc 12"\nCONFIG_SMP=y\n'):
        findings = audit_config(parse(tmp_path, text)).findings
        assert "configuration" not in {finding.check for finding in findings}


def test_the_last_line_about_an_option_decides(tmp_path: Path) -> None:
    """As the kernel reads it: a fragment appended to a configuration is in force."""
    config = parse(tmp_path, STOCK + audit_config(parse(tmp_path, STOCK)).fragment)
    assert config.realtime and config["PREEMPT_VOLUNTARY"] == "n"
    again = parse(tmp_path, "CONFIG_HZ=250\n# CONFIG_SMP is not set\nCONFIG_SMP=y\n")
    assert again["SMP"] == "y"
