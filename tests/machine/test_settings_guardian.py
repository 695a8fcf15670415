# SPDX-License-Identifier: Apache-2.0
"""Settings come back whichever process is killed, and nothing is left behind.

A small C driver (agent/tests/settings_driver.c) changes settings as the agent does; plain files
stand for them, so most of this needs no privilege. It is killed before every single system call
that matters, alone and together with its guardian, and at random moments; the guardian is killed
while it restores things. ``undo`` (what the agent's every start does) waits for a guardian that
is at work, so no test waits for a time of its own choosing.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from drivers import compile_driver
from rtgauge.target.local import find_agent
from waiting import until

SOURCES: Final = (
    "base/cpulist",
    "base/message",
    "base/option",
    "base/procstat",
    "base/schedule",
    "base/value",
    "system/guardian",
    "system/irq_priority",
    "system/journal",
    "system/prepare",
    "system/settings",
    "system/undo",
)
WRAPPED: Final = ("write", "fdatasync", "ftruncate", "unlinkat", "fsync")
TIMEOUT_S: Final = 60
NOBODY: Final = 65534
RR_TIMESLICE: Final = Path("/proc/sys/kernel/sched_rr_timeslice_ms")
RT_RUNTIME: Final = Path("/proc/sys/kernel/sched_rt_runtime_us")
IS_ROOT: Final = os.geteuid() == 0


@pytest.fixture(scope="session")
def driver(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compile_driver(tmp_path_factory.mktemp("driver"), "settings_driver", SOURCES, WRAPPED)


@pytest.fixture(autouse=True)
def watchdog() -> Iterator[None]:
    """A test that waits for what never comes fails."""

    def bark(number: int, frame: object) -> None:
        raise TimeoutError("waited for too long")

    before = signal.signal(signal.SIGALRM, bark)
    signal.alarm(2 * TIMEOUT_S)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def state_of(pid: int) -> str:
    """As in proc(5); "X" once it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "X"


def running(pid: int) -> bool:
    """Whether a process runs; a zombie, which waits for the machine's init, does not."""
    return state_of(pid) not in "ZX"


def wait_for_state(pid: int, states: str) -> None:
    until(lambda: state_of(pid) in states)


def wait_until_gone(pid: int) -> None:
    """A guardian frees its locks a moment before it is gone."""
    wait_for_state(pid, "ZX")


def session_of(pid: int) -> int:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return -1


class Holder:
    """A driver that holds settings; its answers are read line by line."""

    def __init__(
        self, command: Sequence[str], environment: Mapping[str, str], **options: Any
    ) -> None:
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, **environment},
            text=True,
            **options,
        )
        self.lines: list[dict[str, Any]] = []

    def read(self) -> dict[str, Any] | None:
        assert self.process.stdout
        line = self.process.stdout.readline()
        if not line.endswith("\n"):
            return None
        self.lines.append(json.loads(line))
        return self.lines[-1]

    def read_until(self, key: str) -> dict[str, Any]:
        while (line := self.read()) is not None:
            if key in line:
                return line
        raise AssertionError(f"no '{key}' in {self.lines}")

    def tell(self, word: str) -> None:
        assert self.process.stdin
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def verify(self) -> dict[str, Any]:
        self.tell("verify")
        return self.read_until("changed")

    def find(self, key: str) -> Any:
        return next((line[key] for line in self.lines if key in line), None)

    @property
    def guardian(self) -> int:
        return int(self.find("guardian"))

    def kill(self) -> None:
        self.process.kill()
        self.wait()

    def kill_guardian(self) -> None:
        os.kill(self.guardian, signal.SIGKILL)

    def wait(self) -> None:
        while self.read() is not None:
            pass
        self.process.wait(TIMEOUT_S)

    def end(self, killed: str = "nobody") -> Any:
        """End it in order, or kill the processes named. Returns what it reports as remaining."""
        if killed == "nobody":
            self.tell("close")
        if killed == "agent and guardian":
            self.kill_guardian()
        if killed != "nobody":
            self.process.kill()
        self.wait()
        return self.find("remaining")

    def close(self) -> None:
        """Whatever became of the test, its processes end."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(TIMEOUT_S)
        if group := self.find("group"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        if (guardian := self.find("guardian")) and session_of(guardian) == guardian:
            os.kill(guardian, signal.SIGKILL)
        for stream in (self.process.stdin, self.process.stdout):
            if stream:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()


class Bench:
    """A folder of plain files that stand for settings, a state folder, and drivers on them."""

    def __init__(self, driver: Path, folder: Path) -> None:
        self.driver = driver
        self.files = folder / "files"
        self.state = folder / "state"
        self.files.mkdir()
        self.before: dict[str, str] = {}
        self.holders: list[Holder] = []
        for number in range(20):
            self.write(str(number), f"value {number} that was here before\n")
        self.before = self.values()

    def write(self, name: str, text: str) -> None:
        (self.files / name).write_text(text)

    def values(self) -> dict[str, str]:
        return {path.name: path.read_text() for path in self.files.iterdir()}

    def hold(self, *steps: str, crash: Mapping[str, str] | None = None, **options: Any) -> Holder:
        environment = {"RTGAUGE_STATE": str(self.state), **(crash or {})}
        command = options.pop("command", [str(self.driver)])
        self.holders.append(Holder([*command, "hold", *steps], environment, **options))
        return self.holders[-1]

    def held(self, *steps: str, **options: Any) -> Holder:
        """The same, with everything set."""
        holder = self.hold(*steps, **options)
        holder.read_until("ready")
        return holder

    def step(self, name: str, value: str) -> str:
        return f"{self.files / name}={value}"

    def undo(self, prefix: Sequence[str] = ()) -> dict[str, Any]:
        done = subprocess.run(
            [*prefix, str(self.driver), "undo"],
            env={**os.environ, "RTGAUGE_STATE": str(self.state)},
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        answer: dict[str, Any] = json.loads(done.stdout)
        return answer

    def journals(self) -> list[str]:
        return sorted(path.name for path in self.state.iterdir())

    def check_clean(self, holder: Holder) -> None:
        """After the next start: values as before, no journal, no process."""
        answer = self.undo()
        assert answer.get("text") == "", answer
        assert self.values() == self.before
        assert self.journals() == []
        if holder.find("guardian"):
            wait_until_gone(holder.guardian)

    def close(self) -> None:
        for holder in self.holders:
            holder.close()


@pytest.fixture
def bench(driver: Path, tmp_path: Path) -> Iterator[Bench]:
    made = Bench(driver, tmp_path)
    yield made
    made.close()


@pytest.mark.slow
def test_an_orderly_end_puts_everything_back(bench: Bench) -> None:
    holder = bench.hold(bench.step("0", "new"), bench.step("@", "all"), bench.step("1", "again"))
    records = holder.read_until("ready")["ready"]
    assert [record["effective"] for record in records] == ["new", *["all"] * 20, "again"]
    assert records[0]["before"] == "value 0 that was here before"
    assert records[1]["before"] == "new"
    assert {record["reason"] for record in records} == {""}
    assert bench.values() == {**dict.fromkeys(bench.before, "all\n"), "1": "again\n"}
    assert holder.verify() == {"changed": [], "count": 0}
    assert holder.end() == [0, 0]
    assert holder.process.returncode == 0
    assert bench.values() == bench.before
    assert bench.journals() == []
    assert not running(holder.guardian)


@pytest.mark.parametrize("who", ["agent", "agent and guardian", "guardian first"])
def test_killed_while_it_holds(bench: Bench, who: str) -> None:
    holder = bench.held(bench.step("@", "changed"), bench.step("3", "twice"))
    if who == "guardian first":
        holder.kill_guardian()
        wait_until_gone(holder.guardian)
        assert holder.verify() == {"changed": [["guardian", "running", "gone"]], "count": 0}
        assert holder.verify() == {"changed": [], "count": 0}
    if who == "agent and guardian":
        # stopped, it cannot begin before it is killed too
        os.kill(holder.guardian, signal.SIGSTOP)
    holder.kill()
    if who == "agent and guardian":
        assert bench.values()["3"] == "twice\n"
        holder.kill_guardian()
    answer = bench.undo()
    assert answer == {"undone": 0 if who == "agent" else 20, "text": ""}
    bench.check_clean(holder)


def test_the_agent_outlives_its_guardian(bench: Bench) -> None:
    holder = bench.held(bench.step("@", "changed"))
    holder.kill_guardian()
    wait_until_gone(holder.guardian)
    assert holder.end() == [0, 0]
    assert holder.process.returncode == 0
    assert bench.values() == bench.before
    assert bench.journals() == []


def crash(bench: Bench, **at: str) -> Holder:
    """Set and restored, killed as asked; the driver stops by itself if it survives."""
    # long values: restoring then takes two calls, with a mixture of both values in between
    steps = (
        bench.step("0", "new"),
        bench.step("@", "a value longer than all that were there"),
        bench.step("1", "again, and longer still than what was there before"),
    )
    holder = bench.hold(*steps, crash=at)
    holder.wait()
    return holder


def count_calls(bench: Bench) -> int:
    holder = crash(bench, CRASH_AT="1000000")
    assert holder.process.returncode == 0
    assert bench.values() == bench.before
    calls = int(holder.find("calls"))
    assert calls > 40, "the calls are not counted"
    return calls


@pytest.mark.parametrize("guardian_too", [False, True])
def test_killed_before_every_call(bench: Bench, guardian_too: bool) -> None:
    extra = {"CRASH_GUARDIAN": "yes"} if guardian_too else {}
    undone = 0
    calls = count_calls(bench)
    for number in range(1, calls + 1):
        holder = crash(bench, CRASH_AT=str(number), **extra)
        assert holder.process.returncode == -signal.SIGKILL, number
        if guardian_too:
            undone += bench.undo()["undone"]
        bench.check_clean(holder)
    assert (undone > 0) == guardian_too


def test_guardian_killed_before_every_call(bench: Bench) -> None:
    """The agent is killed with everything set, its guardian while restoring. The rest is undone."""
    middle = str(count_calls(bench) // 2)
    undone = []
    for number in range(1, 1000):
        holder = crash(bench, CRASH_AT=middle, CRASH_GUARDIAN_AT=str(number))
        undone.append(bench.undo()["undone"])
        bench.check_clean(holder)
        if len(undone) > 1 and undone[-1] == undone[-2] == 0:
            break
    assert undone[0] > 0, "the guardian was not killed"
    assert undone[-1] == 0, "the guardian never ends"
    assert undone[0] > undone[len(undone) // 2] > 0, "it was not killed in between"


def test_killed_at_random_moments(bench: Bench) -> None:
    draw = random.Random(20)
    for _ in range(60):
        steps = [bench.step("@", str(draw.random())) for _ in range(8)]
        holder = bench.hold(*steps)
        holder.read_until("guardian")
        time.sleep(draw.random() * 0.004)
        who = draw.choice(["agent", "both", "guardian first"])
        if who == "guardian first":
            holder.kill_guardian()
            time.sleep(draw.random() * 0.002)
        holder.kill()
        if who == "both":
            holder.kill_guardian()
        bench.check_clean(holder)


def test_a_kill_of_its_group_and_ctrl_c_spare_the_guardian(bench: Bench) -> None:
    holder = bench.held(bench.step("@", "changed"), start_new_session=True)
    for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}:
        os.kill(holder.guardian, number)
    assert running(holder.guardian)
    os.killpg(holder.process.pid, signal.SIGKILL)
    holder.wait()
    assert bench.undo() == {"undone": 0, "text": ""}
    bench.check_clean(holder)


def test_the_guardian_holds_nothing_of_the_agent(bench: Bench) -> None:
    holder = bench.held(bench.step("0", "changed"))
    process = Path(f"/proc/{holder.guardian}")
    assert (process / "comm").read_text() == "rtgauge-guard\n"
    assert os.getsid(holder.guardian) == holder.guardian
    opened = [os.readlink(entry) for entry in (process / "fd").iterdir()]
    assert opened.count("/dev/null") == 3
    assert sum(entry.startswith("pipe:") for entry in opened) == 1
    assert sum(entry.startswith(str(bench.state)) for entry in opened) == 2
    assert len(opened) == 6
    # stopped, it is surely alive when the host sees the end of the agent's output
    os.kill(holder.guardian, signal.SIGSTOP)
    holder.process.kill()
    assert holder.read() is None
    holder.process.wait(TIMEOUT_S)
    assert running(holder.guardian)
    assert bench.values()["0"] == "changed\n"
    os.kill(holder.guardian, signal.SIGCONT)
    bench.check_clean(holder)


def test_the_guardian_sleeps(bench: Bench) -> None:
    holder = bench.held(bench.step("0", "changed"))
    status = Path(f"/proc/{holder.guardian}/status")

    def switches() -> list[str]:
        return [line for line in status.read_text().splitlines() if "ctxt_switches" in line]

    wait_for_state(holder.guardian, "S")
    before = switches()
    for _ in range(20):
        holder.verify()
    assert switches() == before
    holder.kill()
    bench.check_clean(holder)


@pytest.mark.parametrize("who", ["agent", "agent and guardian"])
def test_loads_die_with_the_agent(bench: Bench, who: str) -> None:
    holder = bench.held("group", bench.step("0", "changed"))
    group = int(holder.find("group"))
    members = [
        int(entry.name)
        for entry in Path("/proc").iterdir()
        if entry.name.isdigit() and running(int(entry.name)) and group_of(int(entry.name)) == group
    ]
    assert group in members
    if who == "agent and guardian":
        holder.kill_guardian()
    holder.kill()
    bench.check_clean(holder)
    for member in members:
        wait_until_gone(member)


def group_of(pid: int) -> int:
    try:
        return os.getpgid(pid)
    except ProcessLookupError:
        return -1


def test_one_agent_at_a_time(bench: Bench) -> None:
    first = bench.held(bench.step("0", "first"))
    second = bench.hold(bench.step("0", "second"))
    answer = second.read_until("error")
    assert str(first.process.pid) in answer["text"]
    assert f"kill {first.process.pid}" in answer["remedy"]
    assert "error" in bench.undo()
    assert bench.values()["0"] == "first\n"
    first.end()
    third = bench.hold(bench.step("0", "third"))
    assert third.read_until("guardian")["undone"] == 0
    third.read_until("ready")
    third.end()
    bench.check_clean(third)


def test_a_start_waits_for_the_guardian_of_a_killed_agent(bench: Bench) -> None:
    first = bench.held(bench.step("@", "first"))
    os.kill(first.guardian, signal.SIGSTOP)
    first.kill()
    second = bench.hold(bench.step("0", "second"))
    os.kill(first.guardian, signal.SIGCONT)
    record = second.read_until("ready")["ready"][0]
    assert record["before"] == "value 0 that was here before"
    second.end()
    bench.check_clean(second)


def test_the_next_start_undoes_and_goes_on(bench: Bench) -> None:
    first = bench.held(bench.step("@", "first"))
    first.kill_guardian()
    first.kill()
    bench.write("5", "someone else's\n")
    second = bench.hold(bench.step("0", "second"))
    opened = second.read_until("guardian")
    assert opened["undone"] == 19
    assert str(bench.files / "5") in opened["note"]
    assert second.read_until("ready")["ready"][0]["before"] == "value 0 that was here before"
    second.end()
    assert bench.values() == {**bench.before, "5": "someone else's\n"}
    assert bench.journals() == []


def test_a_journal_that_cannot_be_written_changes_nothing(bench: Bench) -> None:
    def small_files() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (400, 400))

    holder = bench.hold(bench.step("@", "changed"), preexec_fn=small_files, restore_signals=False)
    answer = holder.read_until("error")
    assert answer["error"] < 0
    assert "journal" in answer["text"]
    assert "RTGAUGE_STATE" in answer["remedy"]
    assert bench.values() == bench.before
    holder.wait()
    bench.check_clean(holder)


def restore(user: int, agent: Path, **variables: str) -> subprocess.CompletedProcess[str]:
    """Look for journals, as a user."""
    who: dict[str, Any] = {"user": user, "group": user, "extra_groups": []} if IS_ROOT else {}
    return subprocess.run(
        [agent, "restore"],
        capture_output=True, text=True, timeout=60, check=False, env=variables, **who,
    )  # fmt: skip


def test_a_state_folder_that_others_could_lock_is_refused(tmp_path: Path) -> None:
    """To read a folder is enough to open and lock it."""
    state = tmp_path / "state"
    state.mkdir(mode=0o755)
    state.chmod(0o755)
    done = restore(os.geteuid(), find_agent(), RTGAUGE_STATE=str(state))
    assert done.returncode != 0
    assert f"state folder {state} is open to other users" in done.stderr
    assert "chmod 700" in done.stderr
    state.chmod(0o700)
    assert restore(os.geteuid(), find_agent(), RTGAUGE_STATE=str(state)).returncode == 0


@pytest.mark.skipif(not IS_ROOT, reason="only root can be another user")
def test_a_folder_that_another_user_took_is_named_and_not_needed() -> None:
    """Any user may make /tmp/rtgauge-UID; the user's own runtime folder is private."""
    user = 62_000 + os.getpid() % 3000
    taken = Path(f"/tmp/rtgauge-{user}")
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        folder = Path(name)
        folder.chmod(0o755)
        agent = Path(shutil.copy(find_agent(), folder / "agent"))
        runtime = folder / "runtime"
        runtime.mkdir(mode=0o700)
        taken.mkdir(mode=0o755)
        try:
            done = restore(user, agent)
            assert done.returncode != 0
            assert f"state folder {taken} belongs to another user" in done.stderr
            assert "RTGAUGE_STATE" in done.stderr
            # nor is a runtime folder taken that is another user's
            done = restore(user, agent, XDG_RUNTIME_DIR=str(runtime))
            assert f"state folder {taken} belongs to another user" in done.stderr
            os.chown(runtime, user, user)
            assert restore(user, agent, XDG_RUNTIME_DIR=str(runtime)).returncode == 0
        finally:
            taken.rmdir()
        made = (runtime / "rtgauge").stat()
        assert (made.st_uid, made.st_mode & 0o777) == (user, 0o700)


def test_without_privilege_it_works_and_says_why(driver: Path) -> None:
    # below /tmp, where another user may reach it
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        (folder / "state").mkdir(mode=0o700)
        program = shutil.copy(driver, folder / "driver")
        (folder / "setting").write_text("before\n")
        (folder / "setting").chmod(0o444)
        user: dict[str, Any] = {}
        if IS_ROOT:
            os.chown(folder / "state", NOBODY, NOBODY)
            user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        environment = {"RTGAUGE_STATE": str(folder / "state")}
        steps = [f"{folder}/setting=after", "prepare"]
        holder = Holder([str(program), "hold", *steps], environment, **user)
        records = holder.read_until("ready")["ready"]
        assert records[0]["reason"] == "permission denied: run as root"
        assert records[0]["before"] == records[0]["effective"] == "before"
        for record in records[1:]:
            if record["effective"] != record["asked"]:
                assert record["reason"] == "permission denied: run as root"
        assert records[1]["name"] == str(RT_RUNTIME)
        assert records[-1]["name"] == "cpu_dma_latency"
        assert holder.end() == [0, 0]
        holder.close()
        assert (folder / "setting").read_text() == "before\n"
        assert list((folder / "state").iterdir()) == []


@pytest.mark.skipif(not os.access(RR_TIMESLICE, os.W_OK), reason="/proc/sys is not writable")
@pytest.mark.parametrize("who", ["nobody", "agent", "agent and guardian"])
def test_a_real_setting(bench: Bench, who: str) -> None:
    before = RR_TIMESLICE.read_text()
    holder = bench.hold(f"{RR_TIMESLICE}=60", "prepare")
    records = {record["name"]: record for record in holder.read_until("ready")["ready"]}
    assert records[str(RR_TIMESLICE)]["before"] == before.strip()
    for name, value in ((str(RT_RUNTIME), "-1"), ("cpu_dma_latency", "0")):
        assert records[name]["effective"] == value or records[name]["reason"]
    # the kernel rounds to its tick
    assert RR_TIMESLICE.read_text().strip() == records[str(RR_TIMESLICE)]["effective"] != "100"
    holder.end(who)
    assert bench.undo()["text"] == ""
    assert RR_TIMESLICE.read_text() == before
    if (runtime := records[str(RT_RUNTIME)]["before"]) != "-1":
        assert RT_RUNTIME.read_text().strip() == runtime
    bench.check_clean(holder)


class Thread:
    """A process whose policy stands for that of a kernel thread."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(["sleep", "1000"])
        self.tid = self.process.pid
        self.name = thread_name(self.tid)

    def policy(self) -> int:
        return os.sched_getscheduler(self.tid)


def thread_name(tid: int) -> str:
    """The name of the setting (agent/base/schedule.h)."""
    head, _, rest = Path(f"/proc/{tid}/stat").read_text().rpartition(")")
    return f"thread:{tid}:{rest.split()[19]}:{head.partition('(')[2]}"


@pytest.fixture
def thread() -> Iterator[Thread]:
    made = Thread()
    yield made
    made.process.kill()
    made.process.wait(TIMEOUT_S)


@pytest.mark.parametrize("who", ["nobody", "agent", "agent and guardian"])
def test_the_policy_of_a_thread(bench: Bench, thread: Thread, who: str) -> None:
    # two settings of ordinary threads, which no privilege is needed for
    holder = bench.hold(f"{thread.name}=batch 0", bench.step("0", "changed"))
    first, second = holder.read_until("ready")["ready"]
    assert first == {
        "name": thread.name, "asked": "batch 0", "before": "other 0", "effective": "batch 0",
        "reason": "",
    }  # fmt: skip
    assert second["effective"] == "changed"
    assert thread.policy() == os.SCHED_BATCH
    assert holder.verify() == {"changed": [], "count": 0}
    assert holder.end(who) == ([0, 0] if who == "nobody" else None)
    if who == "agent and guardian":
        assert thread.policy() == os.SCHED_BATCH
        assert bench.undo() == {"undone": 2, "text": ""}
    bench.check_clean(holder)
    assert thread.policy() == os.SCHED_OTHER


def test_the_policy_of_a_thread_that_another_program_changed_stays(
    bench: Bench, thread: Thread
) -> None:
    holder = bench.held(f"{thread.name}=batch 0")
    os.sched_setscheduler(thread.tid, os.SCHED_IDLE, os.sched_param(0))
    changed = [[thread.name, "batch 0", "idle 0"]]
    assert holder.verify() == {"changed": changed, "count": 1}
    assert holder.end()[0] == 1
    assert thread.policy() == os.SCHED_IDLE


def test_a_thread_that_ended_needs_nothing(bench: Bench, thread: Thread) -> None:
    holder = bench.held(f"{thread.name}=batch 0", bench.step("0", "changed"))
    thread.process.kill()
    thread.process.wait(TIMEOUT_S)
    assert holder.end() == [0, 0]
    bench.check_clean(holder)


@pytest.mark.parametrize(
    ("change", "value", "reason"),
    [
        (lambda name: name.replace(":sleep", "x:sleep"), "batch 0", "the kernel refused the value"),
        # a later thread of the same number
        (lambda name: name.replace(":sleep", "0:sleep"), "batch 0", "the thread has ended"),
        (lambda name: name, "batch 1", "the kernel refused the value"),
        (lambda name: name, "deadline 0", "the kernel refused the value"),
        (lambda name: name, "batch", "the kernel refused the value"),
        (lambda name: name, "batch 0 0", "the kernel refused the value"),
    ],
)
def test_what_cannot_be_a_policy(
    bench: Bench, thread: Thread, change: Callable[[str], str], value: str, reason: str
) -> None:
    holder = bench.hold(f"{change(thread.name)}={value}")
    (record,) = holder.read_until("ready")["ready"]
    assert record["effective"] in (None, "other 0")
    assert reason in record["reason"]
    assert thread.policy() == os.SCHED_OTHER
    holder.end()
    bench.check_clean(holder)


def interrupt_threads() -> dict[int, str]:
    """Kernel threads that handle interrupts: numbers and names."""
    found = {}
    for path in Path("/proc").glob("[1-9]*/comm"):
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            name = path.read_text().rstrip("\n")
            if name.startswith("irq/"):
                found[int(path.parent.name)] = name
    return found


@pytest.mark.skipif(
    not IS_ROOT or not interrupt_threads(), reason="needs root, and an interrupt with a thread"
)
@pytest.mark.parametrize("who", ["nobody", "agent", "agent and guardian"])
def test_priorities_of_interrupt_threads(bench: Bench, who: str) -> None:
    threads = interrupt_threads()
    before = {tid: priority_of(tid) for tid in threads}
    first = min(threads)
    number, name = threads[first].removeprefix("irq/").split("-", 1)
    rules = f"nothing-of-this-name=7,{number}=61,*{name[1:3]}?*=42,99999=8,{number}=62,33"
    holder = bench.hold(f"IRQ={rules}")
    records = {record["name"]: record for record in holder.read_until("ready")["ready"]}
    for missing in ("irq/nothing-of-this-name", "irq/99999"):
        assert "no thread of an interrupt has" in records.pop(missing)["reason"]
    assert "earlier parts match" in records.pop(f"irq/{number}")["reason"]
    assert records.keys() == {thread_name(tid) for tid in threads}
    for tid, full in threads.items():
        mine = full.removeprefix("irq/").split("-", 1)
        wanted = 61 if mine[0] == number else 42 if name[1:3] in mine[1][:-1] else 33
        assert priority_of(tid) == (os.SCHED_FIFO, wanted)
        assert records[thread_name(tid)]["effective"] == f"fifo {wanted}"
        assert records[thread_name(tid)]["reason"] == ""
    holder.end(who)
    bench.check_clean(holder)
    assert {tid: priority_of(tid) for tid in threads} == before


def priority_of(tid: int) -> tuple[int, int]:
    return os.sched_getscheduler(tid), os.sched_getparam(tid).sched_priority


def kernel_version() -> tuple[int, int]:
    major, minor = os.uname().release.split(".")[:2]
    return int(major), int("".join(filter(str.isdigit, minor)))


@pytest.mark.skipif(kernel_version() < (6, 12), reason="Linux has a fair server from 6.12 on")
@pytest.mark.parametrize("who", ["nobody", "agent", "agent and guardian"])
def test_fair_servers(bench: Bench, tmp_path: Path, who: str) -> None:
    """Plain files in the place of debugfs, in a mount namespace of the test's own."""
    debug = tmp_path / "debug"
    runtimes = [debug / f"sched/fair_server/cpu{cpu}/runtime" for cpu in (0, 1, 2, 10)]
    for runtime in runtimes:
        runtime.parent.mkdir(parents=True)
        runtime.write_text("50000000\n")
    unshare = ["unshare", "-m" if IS_ROOT else "-Urm", "sh", "-c"]
    script = 'mount --bind "$0" /sys/kernel/debug && exec "$@"'
    prefix = [*unshare, script, str(debug)]
    if subprocess.run(
        [*prefix, "true"], capture_output=True, timeout=TIMEOUT_S, check=False
    ).stderr:
        pytest.skip("mount namespaces are not permitted here")
    holder = bench.hold("prepare", command=[*prefix, str(bench.driver)])
    records = holder.read_until("ready")["ready"]
    assert [record["name"] for record in records[1:-1]] == [
        f"/sys/kernel/debug/sched/fair_server/cpu{cpu}/runtime" for cpu in (0, 1, 2, 10)
    ]
    for record in records[1:-1]:
        assert (record["before"], record["effective"]) == ("50000000", "0")
        assert record["reason"] == ""
    assert [runtime.read_text() for runtime in runtimes] == ["0\n"] * 4
    holder.end(who)
    assert bench.undo(prefix)["text"] == ""
    assert [runtime.read_text() for runtime in runtimes] == ["50000000\n"] * 4
    bench.check_clean(holder)


@pytest.mark.skipif(not IS_ROOT, reason="only root gets as far as debugfs")
@pytest.mark.skipif(kernel_version() < (6, 12), reason="Linux has a fair server from 6.12 on")
@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (
            'umount "$0" 2>&-; exec setpriv --bounding-set -sys_admin "$@"',
            "debugfs is not mounted, and this process is not permitted to mount it: "
            "mount it at /sys/kernel/debug before the run",
        ),
        (
            'mount -t debugfs none "$0"; mount --bind "$0/sched" "$0" && exec "$@"',
            "not in debugfs: the kernel lacks CONFIG_SCHED_DEBUG",
        ),
    ],
    ids=["forbidden", "mounted"],
)
def test_why_fair_servers_cannot_be_reached(bench: Bench, script: str, reason: str) -> None:
    prefix = ["unshare", "-m", "sh", "-c", script, "/sys/kernel/debug"]
    holder = bench.hold("prepare", command=[*prefix, str(bench.driver)])
    records = holder.read_until("ready")["ready"]
    found = {record["name"]: record["reason"] for record in records}
    assert found["/sys/kernel/debug/sched/fair_server/cpu*/runtime"] == reason
    holder.end()
    bench.check_clean(holder)


class FakeTree:
    """Plain files in the place of those of /proc and /sys that ``--prepare`` changes, bound over
    the true ones in a mount namespace: four CPUs, two of them with one frequency."""

    MASK: Final = "0000000f"

    def __init__(self, folder: Path, interrupts: int = 300) -> None:
        self.folder = folder
        self.files = {
            "cpu/online": "0-3",
            "cpu/nohz_full": "",
            "workqueue/cpumask": self.MASK,
            "irq/default_smp_affinity": self.MASK,
            "mm/transparent_hugepage/enabled": "always [madvise] never",
            "mm/ksm/run": "1",
            "vm/stat_interval": "1",
            "vm/compaction_proactiveness": "20",
            "kernel/soft_watchdog": "1",
            "kernel/nmi_watchdog": "0",
            "kernel/numa_balancing": "1",
            "kernel/timer_migration": "1",
            "kernel/sched_rt_runtime_us": "950000",
        }
        for policy in (0, 2):
            place = f"cpu/cpufreq/policy{policy}"
            self.files[f"{place}/scaling_governor"] = "powersave"
            self.files[f"{place}/energy_performance_preference"] = "balance_performance"
        for number in range(interrupts):
            affinity = ("0-3", "0,1", "2", "3")[number % 4]
            self.files[f"irq/{number}/smp_affinity_list"] = affinity
        for name, text in self.files.items():
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text + "\n")
        # a plain file shows no choice: it keeps the word that was restored
        self.files["mm/transparent_hugepage/enabled"] = "madvise"
        for cpu in range(4):
            (folder / f"cpu/cpu{cpu}").mkdir()
            (folder / f"cpu/cpu{cpu}/cpufreq").symlink_to(f"../cpufreq/policy{cpu // 2 * 2}")
        self.prefix = [
            *("unshare", "-m" if IS_ROOT else "-Urm", "sh", "-c"),
            "for place in cpu:/sys/devices/system/cpu workqueue:/sys/devices/virtual/workqueue "
            "irq:/proc/irq mm:/sys/kernel/mm vm:/proc/sys/vm kernel:/proc/sys/kernel; do "
            'mount --bind "$0/${place%%:*}" "${place#*:}" || exit 9; done; exec "$@"',
            str(folder),
        ]

    def usable(self) -> bool:
        done = subprocess.run([*self.prefix, "true"], timeout=TIMEOUT_S, check=False)
        return done.returncode == 0

    def read(self, name: str) -> str:
        return (self.folder / name).read_text().strip()

    def values(self) -> dict[str, str]:
        return {name: self.read(name) for name in self.files}


@pytest.fixture
def tree(tmp_path: Path) -> FakeTree:
    made = FakeTree(tmp_path / "tree")
    if not made.usable():
        pytest.skip("mount namespaces are not permitted here")
    return made


@pytest.mark.study(60)
@pytest.mark.parametrize("who", ["nobody", "agent", "agent and guardian"])
def test_prepared(bench: Bench, tree: FakeTree, who: str) -> None:
    holder = bench.hold("CPUS=1-2", command=[*tree.prefix, str(bench.driver)])
    records = {record["name"]: record for record in holder.read_until("ready")["ready"]}
    for name, value in {
        "cpu/cpufreq/policy0/scaling_governor": "performance",
        "cpu/cpufreq/policy0/energy_performance_preference": "performance",
        "cpu/cpufreq/policy2/scaling_governor": "performance",
        "workqueue/cpumask": "00000009",
        "irq/default_smp_affinity": "00000009",
        "mm/transparent_hugepage/enabled": "never",
        "mm/ksm/run": "0",
        "vm/stat_interval": "120",
        "vm/compaction_proactiveness": "0",
        "kernel/soft_watchdog": "0",
        "kernel/numa_balancing": "0",
        "kernel/timer_migration": "0",
        "irq/0/smp_affinity_list": "0,3",
        "irq/1/smp_affinity_list": "0",
        "irq/2/smp_affinity_list": "0,3",
        "irq/3/smp_affinity_list": "3",
    }.items():
        assert tree.read(name) == value, name
    # equal places are reported once: those that were everywhere, on 0 and 1, on 2; not those on 3
    told = {name: record for name, record in records.items() if name.startswith("/proc/irq/{")}
    assert sorted(record["before"] for record in told.values()) == ["0,1", "0-3", "2"]
    (name,) = (name for name, record in told.items() if record["before"] == "2")
    numbers = ",".join(str(number) for number in range(2, 300, 4))
    assert name == f"/proc/irq/{{{numbers}}}/smp_affinity_list"
    assert {record["reason"] for record in records.values()} == {""}
    # another notation of the same places is not a change. Another place is, found within some looks
    (tree.folder / "irq/2/smp_affinity_list").write_text("0,3\n")
    (tree.folder / "irq/298/smp_affinity_list").write_text("3,0\n")
    (tree.folder / "irq/default_smp_affinity").write_text("9\n")
    changed = []
    for _ in range(12):
        changed += holder.verify()["changed"]
    assert changed == []
    (tree.folder / "irq/296/smp_affinity_list").write_text("1\n")
    for _ in range(12):
        answer = holder.verify()
        changed += answer["changed"]
    assert changed == [["/proc/irq/296/smp_affinity_list", "0,3", "1"]]
    assert answer["count"] == 1
    (tree.folder / "irq/296/smp_affinity_list").write_text("0,3\n")
    # a device that goes away is not restored
    (tree.folder / "irq/100/smp_affinity_list").unlink()
    del tree.files["irq/100/smp_affinity_list"]
    assert holder.end(who) == ([0, 0] if who == "nobody" else None)
    assert bench.undo(tree.prefix)["text"] == ""
    assert tree.values() == tree.files
    assert bench.journals() == []


def test_prepared_where_policies_have_no_folder(bench: Bench, tree: FakeTree) -> None:
    # as before Linux 4.4: the folder of a policy is that of a CPU, and the other CPUs have a link
    policies = tree.folder / "cpu/cpufreq"
    for cpu in range(4):
        (tree.folder / f"cpu/cpu{cpu}/cpufreq").unlink()
    for cpu in (0, 2):
        (policies / f"policy{cpu}").rename(tree.folder / f"cpu/cpu{cpu}/cpufreq")
        (tree.folder / f"cpu/cpu{cpu + 1}/cpufreq").symlink_to(f"../cpu{cpu}/cpufreq")
    policies.rmdir()
    holder = bench.hold("CPUS=1-2 governor", command=[*tree.prefix, str(bench.driver)])
    records = [record["name"] for record in holder.read_until("ready")["ready"]]
    governors = [f"cpu/cpu{cpu}/cpufreq/scaling_governor" for cpu in (0, 2)]
    assert [name for name in records if "governor" in name] == [
        f"/sys/devices/system/{name}" for name in governors
    ]
    assert [tree.read(name) for name in governors] == ["performance"] * 2
    assert tree.read("cpu/cpu0/cpufreq/energy_performance_preference") == "performance"
    holder.end()
    assert [tree.read(name) for name in governors] == ["powersave"] * 2


def test_prepared_in_part(bench: Bench, tree: FakeTree) -> None:
    before = tree.values()
    words = "CPUS=1-2 stat_interval,workqueue,ksm"
    holder = bench.hold(words, command=[*tree.prefix, str(bench.driver)])
    records = {record["name"]: record for record in holder.read_until("ready")["ready"]}
    changed = {name for name, value in tree.values().items() if value != before[name]}
    assert changed == {"vm/stat_interval", "workqueue/cpumask", "mm/ksm/run"}
    assert {name.rsplit("/", 2)[-2] for name in records} >= {"vm", "workqueue", "ksm"}
    assert not any("irq" in name or "scaling" in name for name in records)
    holder.end()
    assert tree.values() == before


def test_prepared_where_every_cpu_is_measured(bench: Bench, tree: FakeTree) -> None:
    holder = bench.hold("CPUS=0-3", command=[*tree.prefix, str(bench.driver)])
    records = {record["name"]: record for record in holder.read_until("ready")["ready"]}
    refused = records["/proc/irq/*/smp_affinity_list"]
    assert refused["effective"] is None and "every CPU is measured" in refused["reason"]
    assert tree.read("irq/0/smp_affinity_list") == "0-3"
    assert tree.read("workqueue/cpumask") == tree.MASK
    assert tree.read("vm/stat_interval") == "120"
    holder.end()
    assert tree.values() == tree.files


def test_prepared_keeps_timers_where_a_cpu_has_no_tick(bench: Bench, tree: FakeTree) -> None:
    (tree.folder / "cpu/nohz_full").write_text("2-3\n")
    holder = bench.held("CPUS=2", command=[*tree.prefix, str(bench.driver)])
    assert tree.read("kernel/timer_migration") == "1"
    assert tree.read("kernel/numa_balancing") == "0"
    holder.end()


def test_a_journal_of_another_boot_is_dropped(bench: Bench) -> None:
    holder = bench.held(bench.step("0", "changed"))
    holder.kill_guardian()
    holder.kill()
    (journal,) = bench.state.iterdir()
    boot_id = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    journal.write_text(journal.read_text().replace(boot_id, "another"))
    assert bench.undo() == {"undone": 0, "text": ""}
    assert bench.values()["0"] == "changed\n"
    assert bench.journals() == []
