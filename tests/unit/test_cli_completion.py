# SPDX-License-Identifier: Apache-2.0
"""What shells offer to complete a command line with."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from conftest import SOURCES, Run
from rtgauge.errors import StoreError
from rtgauge.store import Store

Offered = Callable[[str], list[str]]


@pytest.fixture
def offered(rtgauge: Run, monkeypatch: pytest.MonkeyPatch) -> Offered:
    """What bash is given for a line."""

    def of(line: str) -> list[str]:
        with monkeypatch.context() as patch:
            patch.setenv("_RTGAUGE_COMPLETE", "bash_complete")
            patch.setenv("COMP_WORDS", line)
            patch.setenv("COMP_BREAKS", " \t\n:=")
            done = rtgauge()
        assert done.err == ""
        return [text.partition(",")[2] for text in done.out.splitlines() if text]

    return of


@pytest.mark.parametrize(
    ("line", "some", "never"),
    [
        ("rtgauge ", {"evaluate", "run", "lab", "completion"}, {"timer"}),
        ("rtgauge re", {"report"}, {"run"}),
        ("rtgauge run ", {"timer", "mutex-chain", "timer-quick", "own.toml"}, {"sched", "--for"}),
        ("rtgauge run ti", {"timer", "timer-study"}, {"mutex-chain"}),
        ("rtgauge run --", {"--for", "--load", "--target"}, {"timer"}),
        ("rtgauge run timer --", {"--for", "--stop-above", "--store"}, {"--bobs", "timer"}),
        ("rtgauge run --target fake timer --m", {"--method", "--mark"}, {"--for"}),
        ("rtgauge run timer-quick --", {"--hours", "--interval"}, {"--thorough"}),
        ("rtgauge run timer --method nano", {"nanosleep"}, {"timerfd"}),
        ("rtgauge run timer --method nanosleep,timer", {"nanosleep,timerfd"}, {"timerfd"}),
        ("rtgauge run timer --load ", {"idle", "sched", "doload"}, {"timer-quick"}),
        ("rtgauge run timer --load sched,c", {"sched,cpu", "sched,copy"}, {"sched"}),
        ("rtgauge run timer --target l", {"local", "lab:x86_64-rt-6.1", "lab:arm64-rt"}, {"fake"}),
        ("rtgauge run timer --target lab:x86", {"x86_64-rt"}, {"arm64-rt", "lab:x86_64-rt"}),
        ("rtgauge run --target ssh://b", {"//board", "//bench.lan"}, {"//*.lan", "timer"}),
        ("rtgauge check --target f", {"fake"}, {"local"}),
        ("rtgauge log-host --answ", {"--answered-by"}, {"--priority"}),
        ("rtgauge lab run rt-", {"rt-vs-stock"}, {"timer"}),
        ("rtgauge evaluate --only timer,mut", {"timer,mutexes", "timer,mutex-chain"}, {"mutexes"}),
        ("rtgauge evaluate --s", {"--skip", "--samples", "--store"}, {"--for"}),
        ("rtgauge describe ", {"timer", "sched", "doload", "timer-quick", "own.toml"}, {"timr"}),
        ("rtgauge agent --arch arm", {"armv5te", "arm64"}, {"mips"}),
        ("rtgauge completion ", {"bash", "zsh", "fish"}, set()),
        ("rtgauge nonsense --", set(), {"--for"}),
    ],
)  # fmt: skip
def test_what_may_follow_is_offered(
    offered: Offered, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, some: set[str],
    never: set[str],
) -> None:  # fmt: skip
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / ".ssh").mkdir()
    (tmp_path / ".ssh/config").write_text("Host board *.lan\n  User root\nhost=bench.lan\n")
    Path("own.toml").write_text("")
    found = offered(line)
    assert some <= {*found}
    assert not never & {*found}


@pytest.mark.slow
def test_runs_are_offered_by_label_number_and_id(rtgauge: Run, offered: Offered) -> None:
    assert offered("rtgauge show ") == []
    assert rtgauge("run", "timer", "--target", "fake", "--for", "1s", "--label", "night").code == 0
    (row,) = rtgauge("runs", "--json").json()["runs"]
    for command in ("show", "report", "compare", "delete", "export", "evaluate --resume"):
        assert offered(f"rtgauge {command} ") == ["last", "night", "1", row["id"][:13]]
    assert offered("rtgauge show ni") == ["night"]
    assert offered("rtgauge trend ") == ["night"]
    words = ("--target", "fake", "--for", "1s", "--label", "before the update")
    assert rtgauge("run", "timer", *words).code == 0
    assert offered("rtgauge show bef") == [r"before\ the\ update"]
    assert offered('rtgauge show "before t') == ["before the update"]


def test_without_an_agent_nothing_is_offered_and_nothing_printed(
    offered: Offered, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RTGAUGE_AGENT", "/no/such/agent")
    assert offered("rtgauge run ") == []
    assert "--json" in offered("rtgauge runs --")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(rtgauge: Run, shell: str) -> None:
    done = rtgauge("completion", shell)
    assert done.code == 0
    assert f"_RTGAUGE_COMPLETE={shell}_complete" in done.out
    assert rtgauge("completion", "csh").code == 2


@pytest.mark.slow
def test_bash_offers_words_with_colons(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    program = tmp_path / "rtgauge"
    program.write_text(
        f'#!/bin/sh\nexec env PYTHONPATH={SOURCES} {sys.executable} -m rtgauge "$@"\n'
    )
    program.chmod(0o755)
    script = """
        eval "$(rtgauge completion bash)"
        COMP_LINE='rtgauge run timer --target lab:arm64-s'; COMP_POINT=${#COMP_LINE}
        _rtgauge_completion rtgauge
        printf '%s\n' "${COMPREPLY[@]}"
    """
    done = subprocess.run(
        [bash, "--norc", "-c", script],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin", "HOME": str(tmp_path)},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert "arm64-stock" in done.stdout.splitlines()


def test_a_store_that_cannot_be_used_completes_nothing(
    offered: Offered, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(_store: Store) -> None:
        raise StoreError("the index cannot be read", remedy="run `rtgauge runs`")

    monkeypatch.setattr(Store, "runs", fails)
    assert offered("rtgauge show ") == []
