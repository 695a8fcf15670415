# SPDX-License-Identifier: Apache-2.0
"""The target ``ssh``, against a real sshd; small scripts in the agent's place."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

import waiting
from rtgauge.engine.watch import Limits
from rtgauge.errors import ExitCode, TargetError, UsageError
from rtgauge.target import open_target, ssh
from rtgauge.target.base import last_words, lost_of
from rtgauge.target.ssh import SshAgent, SshTarget, agent_for, connection, parse
from rtgauge.target.ssh.connection import KEEPER
from sshd import PATIENCE_S, Sshd, key, missing, user

Script = Callable[[str], Path]

#: The folders that the keeper names behind $TMPDIR.
OTHERS = '/tmp /dev/shm /run /var/tmp "$HOME"'
assert OTHERS in KEEPER


@pytest.fixture
def sshd(tmp_path: Path) -> Iterator[Sshd]:
    """A server that is not started yet."""
    if why := missing():
        pytest.skip(why)
    server = Sshd(tmp_path / "sshd")
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def board(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> Sshd:
    """A server that can be reached as ``ssh://board``."""
    sshd.start()
    sshd.client(monkeypatch)
    return sshd


@pytest.fixture
def script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Script:
    """Puts a shell script in the agent's place."""

    def write(text: str) -> Path:
        path = tmp_path / "script"
        path.write_text("#!/bin/sh\n" + textwrap.dedent(text))
        monkeypatch.setattr(ssh, "agent_for", lambda *_: path)
        return path

    return write


until = partial(waiting.until, patience_s=PATIENCE_S)


def everything(agent: SshAgent) -> bytes:
    data = b""
    while (piece := agent.read(PATIENCE_S)) != b"":
        assert piece is not None, "the agent said nothing"
        data += piece
    return data


@contextlib.contextmanager
def opened(name: str = "//board") -> Iterator[SshTarget]:
    """A target without spools: a script knows of none."""
    with contextlib.closing(SshTarget(name)) as target:
        target.reconnect_s = 0
        yield target


# --- names ---


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ("//board", ["--", "board"]),
        ("//me@board", ["-l", "me", "--", "board"]),
        ("//me@board:2222", ["-l", "me", "-p", "2222", "--", "board"]),
        ("//192.0.2.1:22/", ["-p", "22", "--", "192.0.2.1"]),
        ("//[2001:db8::1]:22", ["-p", "22", "--", "2001:db8::1"]),
    ],
)
def test_an_address(detail: str, words: list[str]) -> None:
    assert parse(detail).words() == words


@pytest.mark.parametrize(
    "detail",
    ["", "//", "board", "//board:", "//board:0", "//board:65536", "//-oProxyCommand=x",
     "//-x@board", "//board/etc", "//a b", "//me@", "//board:22:22", "//$(id)", "//`id`@board",
     "//a;b", "//a|b", "//'a'"],
)  # fmt: skip
def test_no_address(detail: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse(detail)
    assert caught.value.remedy


def test_no_password_in_an_address() -> None:
    with pytest.raises(UsageError, match="cannot contain a password") as caught:
        open_target("ssh://me:secret@board")
    assert "secret" not in caught.value.message
    assert "ssh-copy-id" in caught.value.remedy


def test_a_machine_without_an_agent() -> None:
    with pytest.raises(TargetError, match="'alpha'") as caught:
        agent_for("alpha")
    assert "x86-64" in caught.value.remedy


def test_no_ssh_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(TargetError, match="ssh is not installed"):
        SshTarget("//board")


# --- the connection ---


def test_what_an_agent_answers(board: Sshd, script: Script) -> None:
    script("""
        case "$1" in
        describe) echo '{"what": "catalogue"}' ;;
        environment) printf 'a stream' ;;
        esac
    """)
    with opened() as target:
        assert target.name == "ssh://board"
        assert target.describe() == '{"what": "catalogue"}\n'
        assert target.environment() == b"a stream"
        assert len(board.left()) == 1
    assert board.left() == []


def test_a_stream_a_stop_and_what_was_said(board: Sshd, script: Script) -> None:
    script("""
        echo "$@"
        echo one >&2
        read -r order
        echo "told $order"
        exit 4
    """)
    with opened() as target:
        agent = target.start(["run", "timer", "--label", "it's $HOME"])
        with contextlib.closing(agent):
            first = agent.read(PATIENCE_S)
            assert first == b"run timer --label it's $HOME --output - --control\n"
            assert agent.wait(0.05) is None
            agent.stop()
            assert everything(agent) == b"told stop\n"
            assert agent.wait(PATIENCE_S) == 4
            assert agent.messages() == "one\n"


def test_the_end_of_an_agent_that_says_much(board: Sshd, script: Script) -> None:
    script("""
        head -c 200000 /dev/zero | tr '\\0' '\\n' >&2
        echo "rtgauge-agent: ended 3" >&2
        while read -r order && [ "$order" != end ]; do :; done
        exit 1
    """)
    with (
        contextlib.closing(SshTarget("//board")) as target,
        contextlib.closing(target.start(["run"])) as agent,
    ):
        assert everything(agent) == b""
        assert agent.wait(PATIENCE_S) == 3


def test_bytes_come_as_they_were_sent(board: Sshd, script: Script) -> None:
    script('cat "$0" "$0"; cat "$0" >&2')
    with opened() as target, contextlib.closing(target.start(["run"])) as agent:
        assert everything(agent) == b'#!/bin/sh\ncat "$0" "$0"; cat "$0" >&2' * 2
        assert agent.wait(PATIENCE_S) == 0


def test_a_large_agent_and_the_rate_of_the_link(board: Sshd, script: Script) -> None:
    path = script("exit 0")
    path.write_bytes(path.read_bytes() + b"\n#" + os.urandom(700_000))
    with opened() as target:
        [folder] = board.left()
        there = board.temporary / folder / "agent"
        assert there.read_bytes() == path.read_bytes()
        assert there.stat().st_mode & 0o7777 == 0o700
        assert there.parent.stat().st_mode & 0o7777 == 0o700
        assert target.bandwidth > 0
        said = target.connection
        assert said["folder"] == str(there.parent)
        assert said["machine"] == os.uname().machine
        assert all(isinstance(text, str) for text in said.values())


@pytest.mark.parametrize("number", [9, 11])
def test_an_agent_that_is_killed_there(board: Sshd, script: Script, number: int) -> None:
    script(f"kill -{number} $$")
    with opened() as target, contextlib.closing(target.start(["run"])) as agent:
        assert agent.wait(PATIENCE_S) == -number


def test_an_agent_is_killed_from_here(board: Sshd, script: Script) -> None:
    script('trap "" TERM INT HUP; echo "$$"; while :; do read -r x || sleep 1; done')
    with opened() as target, contextlib.closing(target.start(["run"])) as agent:
        pid = int(agent.read(PATIENCE_S) or b"0")
        agent.kill()
        assert agent.wait(PATIENCE_S) == -9
        assert not Path(f"/proc/{pid}").exists()


def test_closing_ends_an_agent_that_ignores_its_input(board: Sshd, script: Script) -> None:
    script('trap "" TERM INT HUP; echo "$$"; while :; do sleep 1; done')
    with opened() as target:
        agent = target.start(["run"])
        pid = int(agent.read(PATIENCE_S) or b"0")
        agent.close()
        until(lambda: not Path(f"/proc/{pid}").exists())
    assert board.left() == []


@pytest.mark.slow
def test_a_folder_that_is_made_after_the_end_of_the_connection(
    sshd: Sshd, script: Script, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    script("exit 0")
    begun, go, made = (tmp_path / name for name in ("begun", "go", "made"))
    programs, real = tmp_path / "programs", shutil.which("mkdir")
    programs.mkdir()
    (programs / "mkdir").write_text(
        f'#!/bin/sh\ncase "$1" in */rtgauge-*) ;; *) exec {real} "$@";; esac\n'
        f": >{begun}; until [ -e {go} ]; do sleep 0.1; done\n"
        f'{real} "$@"; code=$?; : >{made}; exit $code\n'
    )
    (programs / "mkdir").chmod(0o755)
    sshd.start(environment={"PATH": f"{programs}:{os.defpath}"})
    sshd.client(monkeypatch)

    def interrupted(*_: object) -> None:
        if begun.exists():
            raise KeyboardInterrupt

    monkeypatch.setattr(connection, "_check_time", interrupted)
    with pytest.raises(KeyboardInterrupt):
        SshTarget("//board")
    go.touch()
    until(made.exists)
    until(lambda: sshd.left() == [])


def test_the_agent_is_gone(board: Sshd, script: Script) -> None:
    script("exit 0")
    with opened() as target:
        shutil.rmtree(board.temporary / board.left()[0])
        with contextlib.closing(target.start(["run"])) as agent:
            assert agent.wait(PATIENCE_S) == 127
            assert "ssh://board can no longer be started" in agent.messages()


def test_a_connection_that_is_cut(board: Sshd, script: Script) -> None:
    script('echo samples; cat >/dev/null; echo "$1 ended in order" >"$TMPDIR/ended"')
    with opened() as target:
        agent = target.start(["run"])
        with contextlib.closing(agent):
            assert agent.read(PATIENCE_S) == b"samples\n"
            assert lost_of(target) == ""
            board.cut()
            assert everything(agent) == b""
            assert agent.wait(PATIENCE_S) == ExitCode.INTERRUPTED
            message, remedy = agent.messages().splitlines()
            assert "the connection to ssh://board was lost" in message
            assert remedy
        assert lost_of(target)
        with pytest.raises(TargetError, match="is lost"):
            target.start(["run"])
    until(lambda: board.left() == ["ended"])


@pytest.mark.slow
def test_a_connection_that_falls_silent(
    board: Sshd, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert Limits().silence_s > connection.ALIVE_S * (connection.ALIVE_COUNT + 1)
    monkeypatch.setattr(connection, "ALIVE_S", 2)
    monkeypatch.setattr(connection, "ALIVE_COUNT", 1)
    script("echo samples; cat >/dev/null")
    with opened() as target, contextlib.closing(target.start(["run"])) as agent:
        assert agent.read(PATIENCE_S) == b"samples\n"
        for pid in board.sessions():
            os.kill(pid, signal.SIGSTOP)
        assert agent.wait(PATIENCE_S) == ExitCode.INTERRUPTED
        assert "not responding" in agent.messages()


def test_a_lost_connection_is_made_anew_for_the_next_run(board: Sshd, script: Script) -> None:
    script('[ "$1" = environment ] && printf there')
    with opened() as target:
        board.cut()
        until(lambda: lost_of(target))
        assert target.environment() == b"there"
        assert lost_of(target) == ""
        until(lambda: len(board.left()) == 1)
    until(lambda: board.left() == [])


def test_each_run_records_its_own_reconnections(board: Sshd, script: Script) -> None:
    script('echo "$1"')
    with opened() as target:
        target.begin_repeat(0)
        target.returned(3.0)
        assert (target.connection["reconnected"], target.connection["away_s"]) == ("1", "3.0")
        target.environment()
        assert target.connection["reconnected"] == "1"
        target.begin_repeat(1)
        assert not {"reconnected", "away_s"} & target.connection.keys()
        target.returned(1.0)
        assert (target.connection["reconnected"], target.connection["away_s"]) == ("1", "1.0")


def test_the_message_of_an_agent_follows_warnings_of_sudo(board: Sshd, script: Script) -> None:
    script("""
        echo "sudo: unable to resolve host board: Name or service not known" >&2
        echo "rtgauge-agent: the file is missing" >&2
        echo "remedy: write it" >&2
        exit 1
    """)
    with opened() as target:
        with pytest.raises(TargetError, match=r"ended with code 1 on ssh://board: the file is mis"):
            target.environment()
        with contextlib.closing(target.start(["run"])) as agent:
            assert everything(agent) == b""
            assert agent.wait(PATIENCE_S) == 1
            assert last_words(agent.messages()) == ("the file is missing", "write it")


def test_a_board_that_stays_away_from_several_runs(board: Sshd, script: Script) -> None:
    script("exit 0")
    with opened() as target:
        board.stop()
        until(lambda: lost_of(target))
        for _ in range(2):
            with pytest.raises(TargetError, match="cannot be reached"):
                target.environment()


@pytest.mark.parametrize(("uid", "asked"), [(0, False), (65534, True)])
def test_the_keeper_asks_sudo_for_others_than_root_alone(
    tmp_path: Path, uid: int, asked: bool
) -> None:
    """sudo logs each call, and can mail root about users that sudoers does not list."""
    words = ["sh", "-c", KEEPER, "rtgauge", "token"]
    if uid != os.geteuid():
        if os.geteuid():
            pytest.skip("only root can become another user")
        words = ["setpriv", f"--reuid={uid}", "--clear-groups", *words]
    for folder in (tmp_path, *tmp_path.parents):
        if not folder.stat().st_mode & 0o001:
            folder.chmod(0o755)
    sudo = tmp_path / "sudo"
    sudo.write_text('#!/bin/sh\necho "$@" >&2; [ "$*" = "-n true" ]\n')
    sudo.chmod(0o755)
    # the keeper does not show what sudo says, so its answer tells that it was asked
    done = subprocess.run(
        words, input="end\n", capture_output=True, text=True, timeout=PATIENCE_S, check=False,
        env={**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"},
    )  # fmt: skip
    told = done.stdout.split("rtgauge-keeper\n")[1]
    assert f"Uid:\t{uid}\t{uid}\t" in told
    assert told.endswith("\nsudo\n") == asked


@pytest.mark.parametrize("folder", ["/rtgauge-0123456789abcdef", "/x/rtgauge-0123456789abcdef"])
def test_the_keeper_removes_the_folder_wherever_it_is(folder: str) -> None:
    """The home folder of root may be /."""
    done = subprocess.run(
        ["sh", "-c", f'rm() {{ echo removed "$@"; }}; {KEEPER}', "rtgauge", "token"],
        input=f"{folder}\nend\n", capture_output=True, text=True, timeout=PATIENCE_S, check=True,
    )  # fmt: skip
    assert done.stdout.endswith(f"removed -rf {folder}\n")


def test_a_keeper_leaves_what_became_anothers(board: Sshd, script: Script) -> None:
    script("exit 0")
    with opened():
        folder = board.temporary / board.left()[0]
        (folder / "keeper").write_text("another\n")
    assert board.left() == [folder.name]


@pytest.mark.slow
def test_an_agent_to_which_no_way_leads_is_given_up(board: Sshd, script: Script) -> None:
    script('[ "$1" = attach ] || echo samples; exit 255')
    with opened() as target:
        target.reconnect_s = 1.0
        with contextlib.closing(target.start(["run"])) as agent:
            assert everything(agent) == b"samples\n"
            assert agent.wait(PATIENCE_S) == ExitCode.INTERRUPTED
            assert "the agent there sends nothing" in agent.messages()


def test_a_host_that_is_killed_leaves_nothing(board: Sshd, script: Script) -> None:
    path = script("exit 0")
    code = (
        "import time; from pathlib import Path; from rtgauge.target import ssh\n"
        f"ssh.agent_for = lambda *_: Path({str(path)!r})\n"
        "target = ssh.SshTarget('//board'); print('open', flush=True); time.sleep(600)"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(ssh.__file__).parents[3])}
    host = subprocess.Popen(
        [sys.executable, "-c", code],
        stdout=subprocess.PIPE, env=environment,
    )  # fmt: skip
    assert host.stdout is not None
    with host:
        try:
            assert host.stdout.readline() == b"open\n"
            assert len(board.left()) == 1
        finally:
            host.kill()
    until(lambda: board.left() == [])
    until(lambda: board.sessions() == [])


# --- what can be wrong ---


def fails(match: str, name: str = "//board") -> TargetError:
    with pytest.raises(TargetError, match=match) as caught:
        SshTarget(name)
    return caught.value


def test_another_host_key(board: Sshd) -> None:
    board.know(key(board.folder / "other"))
    error = fails("cannot be reached: Host key verification failed")
    assert "differs from the known one" in error.message
    assert "find out why" in error.remedy


def test_an_unknown_host_key(board: Sshd) -> None:
    board.know("")
    error = fails("cannot be reached: Host key verification failed")
    assert "differs" not in error.message
    assert "accepted once by hand" in error.remedy
    assert (board.folder / "known").read_text() == ""


def test_a_host_key_that_the_configuration_takes(
    board: Sshd, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    script("exit 0")
    board.know("")
    board.client(monkeypatch, "StrictHostKeyChecking accept-new")
    with opened():
        assert "ssh-ed25519" in (board.folder / "known").read_text()


def test_no_such_user(board: Sshd) -> None:
    error = fails("nobody-here@.*Permission denied", "//nobody-here@board")
    assert "ssh -o BatchMode=yes -l nobody-here board true" in error.remedy


def test_nobody_listens(board: Sshd) -> None:
    board.stop()
    fails("cannot be reached: .*refused")


def test_a_login_shell_that_talks(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    sshd.start('ForceCommand echo Welcome; eval "$SSH_ORIGINAL_COMMAND"')
    sshd.client(monkeypatch)
    error = fails("writes 'Welcome' before any command")
    assert "start-up files" in error.remedy


def test_a_server_that_allows_one_session(sshd: Sshd, monkeypatch: pytest.MonkeyPatch) -> None:
    sshd.start("MaxSessions 1")
    sshd.client(monkeypatch)
    error = fails("the connection to ssh://board failed: .*Session open refused by peer")
    assert "MaxSessions" in error.remedy
    until(lambda: sshd.left() == [])


def test_user_and_port_in_the_name(board: Sshd, script: Script) -> None:
    script("exit 0")
    with opened(f"//{user()}@127.0.0.1:{board.port}") as target:
        assert target.name == f"ssh://{user()}@127.0.0.1:{board.port}"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["a b", 'a"b', "a\nb", "a%hb", "${HOME}", "ä" * 40])
def test_an_odd_folder_for_temporary_files_here(
    board: Sshd,
    script: Script,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
) -> None:
    script('echo "$1"')
    odd = tmp_path_factory.mktemp("odd") / name
    odd.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(odd))
    with opened() as target:
        assert target.environment() == b"environment\n"
    assert list(odd.iterdir()) == []


def test_a_board_with_nothing_but_busybox(
    sshd: Sshd, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    busybox = shutil.which("busybox")
    if busybox is None:
        pytest.skip("needs busybox (Debian: busybox)")
    programs = sshd.folder / "applets"
    programs.mkdir()
    for name in ("sh", "mkdir", "cat", "chmod", "rm", "uname"):
        (programs / name).symlink_to(busybox)
    sshd.start(
        f'ForceCommand PATH={programs}; export PATH; exec {programs}/sh -c "$SSH_ORIGINAL_COMMAND"'
    )
    sshd.client(monkeypatch)
    script('[ "$1" = run ] && { read -r order; echo "told $order"; exit 4; }; echo "$1"')
    with opened() as target:
        assert target.environment() == b"environment\n"
        with contextlib.closing(target.start(["run"])) as agent:
            agent.stop()
            assert everything(agent) == b"told stop\n"
            assert agent.wait(PATIENCE_S) == 4
    assert sshd.left() == []


# --- the folder there ---


@pytest.fixture
def mounted(sshd: Sshd) -> Iterator[Callable[[str], None]]:
    """Mounts a file system of memory, with these options, where temporary files go there."""
    done = []

    def mount(options: str) -> None:
        words = ["mount", "-t", "tmpfs", "-o", options, "none", str(sshd.temporary)]
        if os.geteuid() != 0 or subprocess.run(words, capture_output=True, check=False).returncode:
            pytest.skip("nothing may be mounted here")
        done.append(True)

    yield mount
    if done:
        subprocess.run(["umount", str(sshd.temporary)], check=True)


@pytest.mark.parametrize(
    ("options", "why"), [("noexec", "noexec"), ("size=64k", "No space left"), ("ro", "Read-only")]
)
@pytest.mark.slow
def test_a_folder_that_cannot_be_used(
    sshd: Sshd,
    script: Script,
    mounted: Callable[[str], None],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    options: str,
    why: str,
) -> None:
    mounted(options)
    other = tmp_path / "other"
    other.mkdir()
    sshd.start()
    sshd.client(monkeypatch)
    path = script("echo there")
    path.write_bytes(path.read_bytes() + b"\nexit 0\n#" + os.urandom(300_000))
    monkeypatch.setattr(connection, "KEEPER", KEEPER.replace(OTHERS, str(other)))
    with opened() as target:
        said = capsys.readouterr().err
        assert why in said
        assert f"The agent is in {other}" in said
        assert sshd.left() == []
        assert len(list(other.iterdir())) == 1
        assert target.environment() == b"there\n"
    assert list(other.iterdir()) == []
    monkeypatch.setattr(connection, "KEEPER", KEEPER.replace(OTHERS, ""))
    error = fails("has no folder for the agent")
    assert why in error.message
    assert "TMPDIR" in error.remedy
    assert sshd.left() == []


def test_an_agent_that_does_not_arrive_as_it_was_sent(
    board: Sshd, script: Script, monkeypatch: pytest.MonkeyPatch
) -> None:
    script("exit 0")
    monkeypatch.setattr(ssh, "_PUT", 'cat >>"$1"; echo >>"$1"')
    monkeypatch.setattr(connection, "KEEPER", KEEPER.replace(OTHERS, ""))
    fails("differs from the one written")
    assert board.left() == []
