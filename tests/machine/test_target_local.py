# SPDX-License-Identifier: Apache-2.0
"""The target ``local``, with small scripts in the agent's place."""

from __future__ import annotations

import contextlib
import os
import platform
import random
import signal
import subprocess
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rtgauge.errors import TargetError, UsageError
from rtgauge.target import local, open_target
from rtgauge.target.local import LocalAgent, LocalTarget, find_agent

Script = Callable[..., Path]


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Script:
    """Puts a shell script in the agent's place."""

    def write(text: str, *, by_sudo: bool = False) -> Path:
        path = Path("agent").absolute()
        path.write_text("#!/bin/sh\n" + textwrap.dedent(text))
        path.chmod(0o755)
        monkeypatch.setenv("RTGAUGE_AGENT", str(path))
        if not by_sudo:
            monkeypatch.setattr(local, "_raise_words", lambda _: [])
        return path

    return write


@contextlib.contextmanager
def running(*arguments: str) -> Iterator[LocalAgent]:
    agent = LocalTarget().start(["run", *arguments])
    try:
        yield agent
    finally:
        agent.close()


def everything(agent: LocalAgent) -> bytes:
    data = b""
    while (piece := agent.read(5.0)) != b"":
        assert piece is not None, "the agent said nothing for 5 s"
        data += piece
    return data


def test_the_agent_that_is_named_is_taken(script: Script) -> None:
    path = script("exit 0")
    assert find_agent() == path


def test_a_named_agent_that_is_not_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RTGAUGE_AGENT", "/no/such/agent")
    with pytest.raises(TargetError, match="no agent at /no/such/agent") as caught:
        open_target("local")
    assert "RTGAUGE_AGENT" in caught.value.remedy


def test_the_agent_of_the_package(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("rtgauge.target.local.resources.files", lambda _: tmp_path)
    with pytest.raises(TargetError, match=platform.machine()) as caught:
        find_agent()
    assert "make setup" in caught.value.remedy
    folder = tmp_path / "agents"
    folder.mkdir()
    machine = platform.machine()
    (folder / "rtgauge-agent-vax-glibc").touch()
    with pytest.raises(TargetError):
        find_agent()
    for library in ("musl", "glibc"):
        (folder / f"rtgauge-agent-{machine}-{library}").touch()
    own = platform.libc_ver()[0] or "musl"
    assert find_agent().name == f"rtgauge-agent-{machine}-{own}"


def test_queries(script: Script) -> None:
    script('case "$1" in describe) echo "{}";; environment) printf "\\204\\000";; esac')
    target = LocalTarget()
    assert target.describe() == "{}\n"
    assert target.environment() == b"\x84\x00"
    target.close()


def test_why_a_line_is_wrong(script: Script) -> None:
    """An agent that cannot tell leaves it to the run."""
    script('echo "{\\"reason\\": \\"$*\\", \\"remedy\\": \\"no\\"}"')
    target = LocalTarget()
    assert target.wrong_line("net:7", asks=False) == ("line net:7", "no")
    assert target.wrong_line("net:7", asks=True) == ("line --asks net:7", "no")
    for unable in ("exit 2", "echo {}", "echo []", "echo", "echo {"):
        script(unable)
        assert LocalTarget().wrong_line("net:7", asks=True) == ("", "")


def test_a_query_that_fails_is_one_line_with_what_the_agent_said(script: Script) -> None:
    script("echo 'no room' >&2; echo 'second line' >&2; exit 3")
    with pytest.raises(TargetError, match=r"'describe' ended with code 3: no room$"):
        LocalTarget().describe()


def test_a_query_that_hangs(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    script("exec sleep 60")
    monkeypatch.setattr(local, "QUERY_TIMEOUT_S", 0.1)
    with pytest.raises(TargetError, match="did not answer 'environment'"):
        LocalTarget().environment()


def test_an_answer_without_end(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    script("exec cat /dev/zero")
    monkeypatch.setattr(local, "ANSWER_MAX", 3 << 20)
    with pytest.raises(TargetError, match="answer to 'describe' has more than 3 MiB"):
        LocalTarget().describe()
    script("exec yes >&2")
    with monkeypatch.context() as patience:
        patience.setattr(local, "QUERY_TIMEOUT_S", 0.2)
        with pytest.raises(TargetError, match="did not answer 'describe'"):
            LocalTarget().describe()
    script("head -c 3145728 /dev/zero; head -c 1000000 /dev/zero >&2")
    assert len(LocalTarget().describe()) == 3 << 20


@pytest.mark.parametrize(
    ("content", "mode", "part"),
    [(b"\x7fELFnonsense", 0o755, "not a program for"), (b"#!/none\n", 0o755, "started"),
     (b"#!/bin/sh\n", 0o644, "started")],
)  # fmt: skip
def test_an_agent_that_cannot_be_started(
    script: Script, content: bytes, mode: int, part: str
) -> None:
    path = script("")
    path.write_bytes(content)
    path.chmod(mode)
    for call in (LocalTarget().describe, lambda: LocalTarget().start(["run"])):
        with pytest.raises(TargetError, match=part):
            call()


def test_the_stream_arrives_whole_and_stderr_does_not_stop_it(script: Script) -> None:
    data = random.Random(1).randbytes(3_000_000)
    Path("data").write_bytes(data)
    script("cat data >&2; cat data; cat data >&2; exit 3")
    with running() as agent:
        assert everything(agent) == data
        assert agent.wait(5.0) == 3
        assert len(agent.messages().encode(errors="ignore")) <= 3 * local.MESSAGES_MAX
        assert agent.read(0.0) == b""


def test_nothing_is_lost_by_waiting_first(script: Script) -> None:
    data = random.Random(2).randbytes(3_000_000)
    Path("data").write_bytes(data)
    script("cat data; echo done >&2")
    with running() as agent:
        assert agent.wait(10.0) == 0
        assert everything(agent) == data
        assert agent.messages() == "done\n"


@pytest.mark.slow
def test_a_flood_while_waiting_for_the_end(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "PENDING_MAX", 1 << 20)
    script("exec head -c 30000000 /dev/zero")
    with contextlib.closing(LocalTarget().start([])) as agent:
        assert agent.wait(3.0) is None
        assert len(agent._pending) < 2 << 20
        size = 0
        while piece := agent.read(5.0):
            size += len(piece)
        assert (size, agent.wait(5.0)) == (30_000_000, 0)


def test_the_arguments_and_the_session(script: Script) -> None:
    script('echo "$*"; cut -d" " -f6 /proc/self/stat')
    with running("timer", "--for", "1s") as agent:
        arguments, session = everything(agent).decode().splitlines()
    assert arguments == "run timer --for 1s --output - --control"
    assert int(session) != os.getsid(0)


def test_stop_is_a_line_on_stdin(script: Script) -> None:
    script('read line; echo "got $line"; exit 4')
    with running() as agent:
        assert agent.read(0.0) is None
        assert agent.wait(0.01) is None
        agent.stop()
        assert everything(agent) == b"got stop\n"
        assert agent.wait(5.0) == 4
        agent.stop()  # without a reader: no error


def test_kill_ends_what_will_not_stop_even_when_others_hold_its_pipe(script: Script) -> None:
    script("trap '' TERM INT; sleep 60 & echo started; wait; wait")
    with running() as agent:
        try:
            assert agent.read(5.0) == b"started\n"
            agent.stop()
            agent.kill()
            assert agent.read(5.0) == b""
            assert agent.wait(5.0) == -signal.SIGKILL
            agent.kill()
        finally:
            os.killpg(agent._process.pid, signal.SIGKILL)


def test_close_leaves_no_agent_behind(script: Script) -> None:
    script("exec sleep 60")
    with running() as agent:
        pass
    assert agent._process.returncode == -signal.SIGKILL


def fake_sudo(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    folder = Path("bin").absolute()
    folder.mkdir()
    path = folder / "sudo"
    path.write_text("#!/bin/sh\n" + text)
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


@pytest.mark.parametrize(
    ("measures", "only_agent", "code"),
    [
        ("exec sleep 60", False, -signal.SIGKILL),
        # as with `user ALL=(root) NOPASSWD: AGENT` in sudoers: any other command is refused, also
        # kill, so the end of its input ends the agent
        ("read -r stop; exit 4", True, 4),
    ],
)
def test_the_agent_is_raised_by_sudo_where_that_asks_nothing(
    script: Script, monkeypatch: pytest.MonkeyPatch, measures: str, only_agent: bool, code: int
) -> None:
    script(f'echo "$RAISED"; [ "$1" = run ] || exit 0; {measures}', by_sudo=True)
    refused = f'[ "$1" = {os.environ["RTGAUGE_AGENT"]} ] || exit 1\n' if only_agent else ""
    fake_sudo(monkeypatch, '[ "$1" = -n ] || exit 1\nshift; [ "$1" != -k ] || shift\n'
              f'{refused}RAISED=yes exec "$@"\n')  # fmt: skip
    target = LocalTarget()
    assert target.environment() == b"yes\n"
    assert target.describe() == "\n"
    agent = target.start(["run"])
    try:
        assert agent.read(5.0) == b"yes\n"
        agent.kill()
        assert agent.wait(5.0) == code
    finally:
        agent.close()


def test_a_raised_query_that_hangs(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    """The user may not kill sudo, which is root's."""
    script('[ "$1" = version ] || exec sleep 600', by_sudo=True)
    fake_sudo(monkeypatch, 'shift; [ "$1" != -k ] || shift\nexec "$@"\n')
    monkeypatch.setattr(local, "QUERY_TIMEOUT_S", 0.2)

    def refused(_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(subprocess.Popen, "kill", refused)
    with pytest.raises(TargetError, match="did not answer 'environment' within"):
        LocalTarget().environment()


def test_without_rights_it_runs_without(script: Script, monkeypatch: pytest.MonkeyPatch) -> None:
    script('echo "plain"', by_sudo=True)
    fake_sudo(monkeypatch, "echo 'sudo: a password is required' >&2; exit 1\n")
    assert LocalTarget().environment() == b"plain\n"


def test_a_password_given_before_in_this_terminal_does_not_count(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    """sudo keeps it for the terminal's session alone, which agents do not belong to."""
    script('echo "plain"', by_sudo=True)
    known = f"sid=$(cut -d' ' -f6 /proc/$$/stat); [ $sid = {os.getsid(0)} ] || exit 1\n"
    fake_sudo(monkeypatch, f'shift; {known}[ "$1" != -k ] || exit 1; exec "$@"\n')
    assert LocalTarget().environment() == b"plain\n"


def test_sudo_tells_of_signals_as_a_shell_does(
    script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    script("exit 137")
    monkeypatch.setattr(local, "_raise_words", lambda _: ["env"])
    with running() as agent:
        assert everything(agent) == b""
        assert agent.wait(5.0) == -signal.SIGKILL


def test_names_of_targets() -> None:
    with pytest.raises(UsageError) as caught:
        open_target("locla")
    assert caught.value.remedy.startswith("write local, ssh://HOST for a board")
    with pytest.raises(UsageError, match="takes no options"):
        open_target("local:board")
