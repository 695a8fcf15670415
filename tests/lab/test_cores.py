# SPDX-License-Identifier: Apache-2.0
"""A real Cobalt kernel on an emulated board. Each machine builds its own: the tests run where the
user has added it as ``lab:cobalt`` (docs/reference/cores.md, "On an emulated board")."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from numpy.typing import NDArray

from drivers import compiled
from rtgauge.cli import main
from rtgauge.lab import own
from rtgauge.lab.cache import cache_folder, locked
from rtgauge.lab.modules import Recipe
from rtgauge.lab.registry import own_names
from rtgauge.stream import (
    Header,
    Histogram,
    Record,
    Samples,
    SeriesInfo,
    StreamReader,
    Table,
    Verdict,
)
from rtgauge.target.lab import LabTarget

ROOT: Final = Path(__file__).resolve().parents[2]
BOARD: Final = "cobalt"
OTHER_BOARD: Final = "cobalt-arm64"
RULE: Final = "stays out-of-band"
METHODS: Final = ("clock_nanosleep", "nanosleep", "timer", "timerfd")
LOAD: Final = ("--load", "sched:groups=2:size=64KiB")
CONTEXTS: Final = ("--context", "irq,kernel,user")
# The numbers of the same in Xenomai's own program (-t).
XENOMAI_TESTS: Final = {"irq": 2, "kernel": 1, "user": 0}
# Xenomai's own program, if the board's overlay has it, and the difference that is allowed.
LATENCY: Final = "/usr/xenomai/bin/latency"
LIBCOBALT: Final = "/usr/xenomai/lib/libcobalt.so.2"
TIMERBENCH: Final = "/dev/rtdm/timerbench"
SMOKEY: Final = "/usr/xenomai/bin/smokey"
NEAR_NS: Final = 300.0
NEAR: Final = 0.1


@pytest.fixture(autouse=True)
def needs_board() -> None:
    if BOARD not in own_names():
        pytest.skip(f"no board lab:{BOARD}: build a kernel with Cobalt, and use rtgauge lab add")


@contextlib.contextmanager
def boot(*options: str, board: str = BOARD) -> Iterator[LabTarget]:
    with contextlib.closing(LabTarget(",".join((board, *options)))) as target:
        yield target


def timer(target: LabTarget, *words: str) -> list[Record]:
    done = target.execute(["/agent", "run", "timer", *words, "--output", "-"])
    assert done.code == 0, done.stderr.decode()
    return list(StreamReader().feed(done.stdout))


def samples(records: list[Record], method: str = "", context: str = "user") -> NDArray[np.int32]:
    series = next(
        one.series
        for one in records
        if isinstance(one, SeriesInfo)
        and one.context == context
        and method in ("", one.labels["method"])
        and one.companion is None
    )
    return np.concatenate(
        [one.values for one in records if isinstance(one, Samples) and one.series == series]
    )


def shell(target: LabTarget, script: str) -> str:
    done = target.execute(["/bin/busybox", "sh", "-c", script])
    return (done.stdout + done.stderr).decode(errors="replace")


def test_two_boots_are_equal_and_stay_on_the_core() -> None:
    boots = []
    for _ in range(2):
        with boot() as target:
            words = ("--core", "cobalt", "--method", ",".join(METHODS), "--samples", "500")
            records = timer(target, *words)
        header = records[0]
        assert isinstance(header, Header)
        assert (header.core, header.core_revision) == ("cobalt", 19)
        rules = {one.rule: one.result for one in records if isinstance(one, Verdict)}
        assert rules == {RULE: "pass"}
        table = next(one for one in records if isinstance(one, Table) and one.name == "modes")
        assert [row[1:3] for row in table.rows] == [(0, 0)] * len(METHODS)
        boots.append({method: samples(records, method).tolist() for method in METHODS})
        assert all(len(values) == 500 for values in boots[-1].values())
    assert boots[0] == boots[1]


@pytest.mark.study(29, lacks="tasks of Xenomai's native interface")
@pytest.mark.study(118)
@pytest.mark.parametrize("board", [BOARD, OTHER_BOARD])
def test_contexts_are_equal_in_two_boots_and_in_order(board: str) -> None:
    if board not in own_names():
        pytest.skip(f"no board lab:{board}: build its kernel, and use rtgauge lab add")
    boots = []
    for _ in range(2):
        with boot(board=board) as target:
            records = timer(target, *CONTEXTS, "--core", "cobalt", "--samples", "3000")
        rules = {one.rule: one.result for one in records if isinstance(one, Verdict)}
        assert rules == {RULE: "pass"}
        table = next(one for one in records if isinstance(one, Table) and one.name == "modes")
        assert [row[1:3] for row in table.rows] == [(0, 0)] * len(table.rows)
        boots.append({context: samples(records, "", context) for context in XENOMAI_TESTS})
        assert all(len(values) == 3000 for values in boots[-1].values())
    assert all(np.array_equal(boots[0][name], boots[1][name]) for name in boots[0])
    irq, kernel, user = (np.median(values) for values in boots[0].values())
    assert irq < kernel < user


def test_core_is_automatic_in_all_contexts() -> None:
    with boot() as target:
        records = timer(target, *CONTEXTS, "--samples", "50")
        shell(target, f"/bin/busybox rmmod rtgauge; /bin/busybox rm -f {TIMERBENCH}")
        without = timer(target, *CONTEXTS, "--core", "cobalt", "--samples", "50")
    header = records[0]
    assert isinstance(header, Header)
    assert header.core == "cobalt"
    assert {one.context for one in without if isinstance(one, SeriesInfo)} == {"user"}
    (skipped,) = [one for one in without if isinstance(one, Verdict) and one.rule != RULE]
    assert "the kernel module rtgauge is not loaded" in skipped.evidence
    assert "the kernel has no driver timerbench" in skipped.evidence


def test_driver_of_xenomai_agrees_with_module() -> None:
    """Without the module, the distributions are those of timerbench, next to a user task."""
    words = ("--core", "cobalt", "--dither", "no", "--samples", "2000")
    boots = []
    for _ in range(2):
        with boot() as target:
            if shell(target, f"ls {TIMERBENCH}").strip() != TIMERBENCH:
                pytest.skip(f"the kernel of lab:{BOARD} has no timerbench")
            of_module = timer(target, *CONTEXTS, *words)
            shell(target, "/bin/busybox rmmod rtgauge")
            of_driver = timer(target, *CONTEXTS, *words)
            tasks = shell(target, "/bin/busybox cat /proc/xenomai/sched/threads")
        assert isinstance(of_driver[0], Header)
        assert of_driver[0].core == "cobalt"
        contexts = {one.series: one.context for one in of_driver if isinstance(one, SeriesInfo)}
        found = {contexts[one.series]: one for one in of_driver if isinstance(one, Histogram)}
        assert "timerbench" not in tasks, "it has ended"
        for context in ("irq", "kernel"):
            theirs, ours = found[context], samples(of_module, "", context)
            assert theirs.count >= 2000
            near = max(NEAR_NS, NEAR * float(ours.mean()))
            assert abs(theirs.sum / theirs.count - float(ours.mean())) <= near, context
        assert len(samples(of_driver, "", "user")) == 2000
        rules = {one.rule: one.result for one in of_driver if isinstance(one, Verdict)}
        assert rules == {RULE: "pass"}
        boots.append([(one.count, one.sum) for one in found.values()])
    assert boots[0] == boots[1]


def test_cobalt_is_below_linux_under_load() -> None:
    with boot() as target:
        words = (*CONTEXTS, "--samples", "1000", *LOAD)
        on_cobalt = timer(target, "--core", "cobalt", *words)
        on_linux = timer(target, "--core", "linux", *words)
    assert [one.result for one in on_cobalt if isinstance(one, Verdict)] == ["pass"]
    for context in XENOMAI_TESTS:
        ours, linux = (samples(one, "", context) for one in (on_cobalt, on_linux))
        assert len(ours) == 1000
        assert ours.max() < linux.max()
        assert np.median(ours) < np.median(linux)


@pytest.mark.study(31, 32, 33, 50)
def test_latency_of_xenomai_agrees() -> None:
    """``latency -t0`` waits for a timerfd of the core, ``-t1`` is a task of its driver, which
    sleeps until its due times, ``-t2`` a handler of its timer."""
    theirs = {}
    with boot() as target:
        if shell(target, f"ls {LATENCY}").strip() != LATENCY:
            pytest.skip(f"the overlay of lab:{BOARD} has no {LATENCY}")
        words = ("--core", "cobalt", "--method", "timerfd", "--dither", "no", "--samples", "2000")
        records = timer(target, *CONTEXTS, *words)
        for context, number in XENOMAI_TESTS.items():
            said = shell(
                target,
                "echo '0i 0k 0u' > /proc/xenomai/clock/coreclk; "
                f"LD_LIBRARY_PATH=/usr/xenomai/lib {LATENCY} -t{number} -T2 -p1000",
            )
            found = re.search(r"^RTS\|\s*[\d.]+\|\s*([\d.]+)\|", said, re.MULTILINE)
            assert found, said
            theirs[context] = float(found[1]) * 1000
    for context, mean in theirs.items():
        ours = float(np.median(samples(records, "", context)))
        assert abs(ours - mean) <= max(NEAR_NS, NEAR * mean), context


# --- the answer to an event -----------------------------------------------------------------------

EVENTS: Final = 1000
PACE: Final = "--interval 500us"
DELAY_NS: Final = 5_000_000
DELAY_EVERY: Final = 100
# The chip of kmod/tests/wired.c: 0 is wired to 1, and 2 to 3.
WIRED: Final = "rtgauge-wired"
WIRED_SOURCES: Final = {"wired.c": "kmod/tests/wired.c", "compat.h": "kmod/compat.h"}


def wired(target: LabTarget, *parameters: str) -> None:
    """Gives the board a chip whose lines are wired to each other."""
    sources = {name: (ROOT / path).read_bytes() for name, path in WIRED_SOURCES.items()}
    given = own.read(target.board)
    unpacked = own.unpacked(cache_folder(), given, print)
    recipe = Recipe(given.machine, unpacked, {**sources, "Kbuild": b"obj-m := wired.o\n"})
    with locked(cache_folder(), ("images", "modules"), print):
        module = recipe.build(cache_folder(), print) / "wired.ko"
    target.put("/wired.ko", module.read_bytes())
    words = " ".join(("/bin/busybox insmod /wired.ko", *parameters))
    assert shell(target, f"{words} && echo loaded").strip() == "loaded"


def answered(
    target: LabTarget, context: str, *words: str, raised: str = f"--samples {EVENTS} {PACE}"
) -> dict[str, list[Record]]:
    """The streams of a log host, a Linux task, and of a board that answers, on one board."""
    script = (
        f"/agent run response --context {context} --line gpio:{WIRED}:2:1 {' '.join(words)} "
        "--output /board >/dev/null 2>/board.said & P=$!; /bin/busybox sleep 1; "
        f"/agent run log-host --keep-settings --priority 40 --line gpio:{WIRED}:0:3 "
        f"{raised} --answered-by {context} --output /host >/dev/null; "
        "echo $?; /bin/busybox kill -INT $P; wait $P; echo $?; /bin/busybox cat /board.said"
    )
    said = shell(target, script)
    assert said.split() == ["0", "0"], said
    return {
        side: list(StreamReader().feed(target.execute(["/bin/busybox", "cat", f"/{side}"]).stdout))
        for side in ("board", "host")
    }


def values(records: list[Record]) -> dict[str, list[int]]:
    """Series -> its samples."""
    names = {one.series: one.name for one in records if isinstance(one, SeriesInfo)}
    found: dict[str, list[int]] = {name: [] for name in names.values()}
    for one in records:
        if isinstance(one, Samples):
            found[names[one.series]] += one.values.tolist()
    return found


@pytest.mark.study(40, 41, 42)
@pytest.mark.study(43, lacks="Xenomai 2: the core is Cobalt of Xenomai 3")
@pytest.mark.parametrize("context", XENOMAI_TESTS)
def test_every_edge_is_answered_once_on_the_core(context: str) -> None:
    boots = []
    for _ in range(2):
        with boot() as target:
            wired(target)
            boots.append(answered(target, context, "--core", "cobalt"))
    header = boots[0]["board"][0]
    assert isinstance(header, Header)
    assert header.core == "cobalt"
    rules = {one.rule: one.result for one in boots[0]["board"] if isinstance(one, Verdict)}
    assert rules == {RULE: "pass"}
    table = next(
        one for one in boots[0]["board"] if isinstance(one, Table) and one.name == "events"
    )
    assert [tuple(row) for row in table.rows] == [(EVENTS, EVENTS, 0, 0)]
    first, again = ({side: values(one[side]) for side in one} for one in boots)
    assert first == again
    expected = {"irq": {"answer"}}.get(context, {"answer", "wake-up"})
    assert set(first["board"]) == expected
    assert all(len(one) == EVENTS for one in first["board"].values())
    # seen from outside: each answer once, and later than the board says
    assert len(first["host"]["response"]) == EVENTS
    assert min(first["host"]["response"]) > min(first["board"]["answer"]) > 0


def counts(records: list[Record], name: str) -> list[tuple[object, ...]]:
    table = next(one for one in records if isinstance(one, Table) and one.name == name)
    return [tuple(row) for row in table.rows]


def rules(records: list[Record]) -> dict[str, str]:
    return {one.rule: one.result for one in records if isinstance(one, Verdict)}


@pytest.mark.parametrize("context", XENOMAI_TESTS)
def test_delayed_answers_are_found_on_the_core(context: str) -> None:
    """Those that were delayed on purpose, no others, and no task leaves the core for it."""
    delay = ("--delay", f"{DELAY_NS}ns", "--delay-every", f"{DELAY_EVERY}")
    raised = f"--samples {EVENTS} --interval 8ms"
    with boot() as target:
        wired(target)
        streams = answered(target, context, "--core", "cobalt", *delay, raised=raised)
    assert counts(streams["board"], "events") == [(EVENTS, EVENTS, 0, 0)]
    assert rules(streams["board"])[RULE] == "pass"
    for side, name in (("board", "answer"), ("host", "response")):
        found = values(streams[side])[name]
        delayed = [place for place, one in enumerate(found) if one >= DELAY_NS]
        assert delayed == list(range(DELAY_EVERY - 1, EVENTS, DELAY_EVERY)), side


@pytest.mark.parametrize("context", XENOMAI_TESTS)
@pytest.mark.parametrize("edge", ["rising", "falling"])
def test_edges_of_one_direction_toggle_on_the_core(context: str, edge: str) -> None:
    with boot() as target:
        wired(target)
        raised = f"--samples {EVENTS} {PACE} --edge {edge}"
        streams = answered(target, context, "--core", "cobalt", "--edge", edge, raised=raised)
    # at its end the log host puts its output back to low, which is one more falling edge
    seen = EVENTS + (edge == "falling")
    assert counts(streams["board"], "events") == [(seen, seen, 0, 0)]
    assert rules(streams["board"]) == {RULE: "pass"}
    assert rules(streams["host"]) == {"every-event-answered": "pass"}
    assert len(values(streams["host"])["response"]) == EVENTS


@pytest.mark.parametrize("load", ["gpioirqbench", "find"])
def test_loads_of_the_gpio_plans_beside_the_core(load: str) -> None:
    """All edges are answered under the loads of the plans gpio-contexts and gpio-find."""
    medians = []
    with boot() as target:
        wired(target)
        for context in XENOMAI_TESTS:
            streams = answered(target, context, "--core", "cobalt", "--load", load)
            assert counts(streams["board"], "events") == [(EVENTS, EVENTS, 0, 0)], context
            assert rules(streams["board"]) == {RULE: "pass"}, context
            medians.append(np.median(values(streams["host"])["response"]))
    assert medians == sorted(medians)


@pytest.mark.parametrize("plan", ["gpio-contexts", "gpio-find"])
def test_gpio_plans_run_on_the_core(tmp_path: Path, plan: str) -> None:
    """With this machine as the log host, over a doorbell. Its time is that of this machine."""
    target, report = f"lab:{BOARD},lines=outside", tmp_path / "report.json"
    pace = ["--load", "idle", "--for", "5s", "--interval", "500ms"]
    words = [*pace, "--target", target, "--core", "cobalt"]
    store = ["--store", str(tmp_path / "store")]
    assert main(["run", plan, *words, *store, "--quiet"]) == 0
    assert main(["report", "last", "-o", str(report), *store]) == 0
    (run,) = json.loads(report.read_text())["runs"]
    steps = [one for one in run["steps"] if one["measurement"] == "response"]
    assert len(steps) == {"gpio-contexts": 3, "gpio-find": 6}[plan]
    assert {(one["state"], one["core"]) for one in steps} == {("complete", "cobalt")}
    tables = {one["step"]: one["rows"] for one in run["tables"] if one["name"] == "events"}
    for one in steps:
        ((seen, done, lost, _),) = tables[one["step"]]
        assert seen == done > 0
        assert lost == 0


def test_core_answers_earlier_than_linux() -> None:
    """The same kernel, under load: the maximum and the median of each context."""
    found = {}
    with boot() as target:
        wired(target)
        for core in ("cobalt", "linux"):
            for context in XENOMAI_TESTS:
                streams = answered(target, context, "--core", core, *LOAD)
                found[core, context] = np.array(values(streams["host"])["response"])
    for context in XENOMAI_TESTS:
        ours, linux = found["cobalt", context], found["linux", context]
        assert ours.max() < linux.max(), context
        assert np.median(ours) < np.median(linux), context
    medians = [np.median(found["cobalt", context]) for context in XENOMAI_TESTS]
    assert medians == sorted(medians)


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (("--context", "softirq"), "this context exists only on Linux"),
        (("--line", f"loopback:{WIRED}:0:1"), "only on an output and an input of a GPIO chip"),
    ],
)
def test_what_the_core_cannot_answer_is_skipped(words: tuple[str, ...], why: str) -> None:
    line = () if "--line" in words else ("--line", f"gpio:{WIRED}:0:1")
    with boot() as target:
        wired(target)
        order = ["/agent", "run", "response", "--core", "cobalt", *line, *words, "--output", "-"]
        done = target.execute(order)
    assert done.code == 77
    assert why in done.stderr.decode()


def test_chip_of_unknown_driver_is_not_used_on_the_core() -> None:
    """Its interrupts reach the core, but a lock of Linux in its functions would be a deadlock."""
    words = ("--line", f"gpio:{WIRED}:0:1", "--output", "-")
    with boot() as target:
        wired(target, "driver=gpio-mxc")
        for context in XENOMAI_TESTS:
            order = ["/agent", "run", "response", "--core", "cobalt", "--context", context, *words]
            done = target.execute(order)
            assert done.code == 77
            assert "its driver is not known to be safe on the core" in done.stderr.decode()


def test_sessions_of_the_module_on_the_core(tmp_path: Path) -> None:
    """Set-ups that fail, and the calls of tasks of user space (kmod/tests/core.c)."""
    source = str(ROOT / "kmod" / "tests" / "core.c")
    program = compiled(tmp_path / "core", "-O2", "-static", "-pthread", source)
    with boot() as target:
        wired(target)
        target.put("/core", program.read_bytes())
        said = shell(target, "/core; echo $?").splitlines()
        removed = shell(target, "/bin/busybox rmmod rtgauge && echo removed")
        kernel = shell(target, "/bin/busybox dmesg")
    assert [line for line in said if line.startswith("not ok")] == []
    assert said[-2:] == [f"1..{len(said) - 2}", "0"]
    assert removed.strip() == "removed"
    for word in ("BUG:", "WARNING:", "Oops", "Call Trace"):
        assert word not in kernel


def test_module_stays_while_its_device_is_open() -> None:
    script = (
        "exec 3</dev/rtdm/rtgauge && /bin/busybox rmmod rtgauge; echo $?; exec 3<&-; "
        "/bin/busybox rmmod rtgauge; echo $?; /bin/busybox grep -c '^rtgauge ' /proc/modules"
    )
    with boot() as target:
        said = shell(target, script).split("\n")
    assert [line for line in said if line.isdigit()] == ["1", "0", "0"], said


# A chip in the folder of the old interface, which the kernel of the board lacks.
OLD_INTERFACE: Final = """
/bin/busybox mount -t tmpfs none /sys/class && /bin/busybox mkdir /sys/class/gpio
cd /sys/class/gpio && /bin/busybox mkdir gpiochip500 gpio500 gpio501 && : >export && : >unexport
echo old >gpiochip500/label; echo 500 >gpiochip500/base; echo 2 >gpiochip500/ngpio
for N in 500 501; do
echo in >gpio$N/direction; echo 0 >gpio$N/value; echo 0 >gpio$N/active_low; echo none >gpio$N/edge
done
"""


def test_line_of_the_old_interface_is_measured_on_linux() -> None:
    order = ("response", "--line", "gpio:old:0:1", "--for", "100ms", "--output", "-")
    with boot() as target:
        wired(target)
        assert shell(target, OLD_INTERFACE) == ""
        done = target.execute(["/agent", "run", *order])
    assert done.code == 0, done.stderr.decode()
    header = next(iter(StreamReader().feed(done.stdout)))
    assert isinstance(header, Header)
    assert header.core is None


# --- the catalogue --------------------------------------------------------------------------------

CATALOGUE: Final = {
    "thread-switch": ("--samples", "500", "--threads", "2,10"),
    "round-robin": (),
    "sem-lock": (),
    "sem-order": (),
    "sem-lifecycle": ("--samples", "200"),
    "sem-uncontended": ("--samples", "500"),
    "sem-contended": ("--samples", "20"),
    "mutex-inversion": ("--protocol", "inherit,protect"),
    "mutex-contended": ("--protocol", "inherit,protect", "--samples", "100"),
    "mutex-uncontended": ("--samples", "500"),
    "mutex-chain": ("--samples", "20"),
    "mutex-handover": ("--samples", "100"),
    "condvar": ("--samples", "100"),
    "mq-posix": ("--samples", "100"),
    "signal": ("--samples", "100"),
}


def catalogue(target: LabTarget) -> dict[str, list[Record]]:
    """The records of each measurement of the catalogue that the core supports."""
    found = {}
    for name, words in CATALOGUE.items():
        done = target.execute(["/agent", "run", name, *words, "--core", "cobalt", "--output", "-"])
        assert done.code == 0, (name, done.stderr.decode())
        found[name] = list(StreamReader().feed(done.stdout))
    return found


def test_catalogue_holds_on_core() -> None:
    """Every rule is kept, and no task leaves the core while it is timed."""
    with boot() as target:
        for name, records in catalogue(target).items():
            assert isinstance(header := records[0], Header)
            assert header.core == "cobalt"
            results = [one for one in records if isinstance(one, Verdict)]
            assert {one.result for one in results} <= {"pass", "skipped"}, (name, results)
            assert any((one.rule, one.result) == (RULE, "pass") for one in results)


def test_threads_run_in_turn_in_any_phase() -> None:
    """An interrupt may make a yield sleep for a tick, whatever the phase of the boot. At least 12
    boots, and more of them until one has such a yield or a batch with one."""
    slept = 0
    for seed in range(1, 41):
        with boot(f"seed={seed}") as target:
            words = ("--core", "cobalt", "--threads", "2,10", "--samples", "700", "--output", "-")
            done = target.execute(["/agent", "run", "thread-switch", *words])
        results = [one for one in StreamReader().feed(done.stdout) if isinstance(one, Verdict)]
        assert {one.result for one in results} == {"pass"}, (seed, results)
        (evidence,) = (one.evidence for one in results if one.rule == "the threads run in turn")
        # a pass has at least as many test loops that were judged as others
        assert evidence.count(" switches, 0 out of turn") == 2, (seed, evidence)
        slept += "slept for a tick" in evidence or "such a yield" in evidence
        if seed >= 12 and slept:
            break
    assert slept, "no boot had a yield that slept"


def test_inversion_is_found_on_core() -> None:
    """A mutex without a protocol: the same threads fail the rule."""
    with boot() as target:
        words = ("--core", "cobalt", "--protocol", "none", "--output", "-")
        done = target.execute(["/agent", "run", "mutex-inversion", *words])
    rules = [one for one in StreamReader().feed(done.stdout) if isinstance(one, Verdict)]
    assert done.code == 3
    assert [one.result for one in rules if one.rule == "priority inversion is avoided (none)"] == [
        "fail"
    ]


def test_evaluation_is_complete_on_core(tmp_path: Path) -> None:
    """Everything that the core offers is measured on it; what it lacks is skipped, and the run
    counts as an evaluation."""
    store = ["--store", str(tmp_path / "store")]
    words = ["--core", "cobalt", "--target", f"lab:{BOARD}", "--for", "1s", "--samples", "100"]
    report = ["--quiet", "-o", str(tmp_path / "report.json")]
    assert main(["evaluate", *words, *report, *store]) == 0
    (run,) = json.loads((tmp_path / "report.json").read_text())["runs"]
    assert {one["result"] for one in run["tests"]} <= {"pass", "skipped"}
    steps = [one for one in run["steps"] if one["role"] == "measurement"]
    lacks = {one["measurement"] for one in steps if one["not_on_core"]}
    assert {"pipe", "process-create"} < lacks
    for one in steps:
        apart = one["measurement"] in lacks
        assert one["state"] == ("skipped" if apart else "complete"), one
        assert apart or one["core"] == "cobalt"
    assert {one["measurement"] for one in steps} - lacks == {"timer", *CATALOGUE}


def test_fast_paths_are_those_of_xenomai(tmp_path: Path) -> None:
    """Uncontended pairs need at most as many instructions as in Xenomai's own library."""
    source = str(ROOT / "tests" / "support" / "cobalt_paths.c")
    library = tmp_path / Path(LIBCOBALT).name
    with boot() as target:
        if shell(target, f"ls {LIBCOBALT}").strip() != LIBCOBALT:
            pytest.skip(f"the overlay of lab:{BOARD} has no {LIBCOBALT}")
        library.write_bytes(target.execute(["/bin/busybox", "cat", LIBCOBALT]).stdout)
        files = (source, str(library), "-Wl,--allow-shlib-undefined")
        program = compiled(tmp_path / "paths", "-O2", "-D_GNU_SOURCE", *files)
        target.put("/paths", program.read_bytes())
        said = shell(target, f"LD_LIBRARY_PATH={Path(LIBCOBALT).parent} /paths")
        ours = {}
        for name, row in (("sem", "private"), ("mutex", "normal")):
            words = ["/agent", "run", f"{name}-uncontended", "--core", "cobalt", "--output", "-"]
            records = list(StreamReader().feed(target.execute(words).stdout))
            table = next(one for one in records if isinstance(one, Table) and one.name == "batches")
            batches = {str(cells[0]): int(cells[2]) for cells in table.rows}
            ours[name] = batches[f"{row}: acquire, release"]
    theirs = dict(line.split("\t") for line in said.splitlines() if "\t" in line)
    assert 0 < ours["sem"] <= int(theirs["semaphore"]), said
    assert 0 < ours["mutex"] <= int(theirs["mutex"]), said


def test_calls_are_answered_as_recorded(tmp_path: Path) -> None:
    source = str(ROOT / "tests" / "support" / "cobalt_calls.c")
    program = compiled(tmp_path / "calls", "-O2", "-D_GNU_SOURCE", "-static", source)
    recorded = (ROOT / "tests" / "data" / "cobalt_calls.tsv").read_text().splitlines()
    with boot() as target:
        target.put("/calls", program.read_bytes())
        said = target.execute(["/calls"]).stdout.decode()
    assert said.splitlines() == [one for one in recorded if not one.startswith("#")]


def test_killed_agent_leaves_no_task_and_no_setting() -> None:
    with boot() as target:
        first = (
            "/bin/busybox head -1 /proc/xenomai/clock/coreclk && cat /proc/xenomai/sched/threads"
        )
        before = shell(target, first)
        said = shell(
            target,
            "/agent run timer --core cobalt --context irq,kernel,user --for 30s --output /x "
            ">/dev/null 2>&1 & P=$!; /bin/busybox sleep 1; "
            f"{first}; echo killed; /bin/busybox kill -9 $P; /bin/busybox sleep 1; {first}; "
            "echo removed; /bin/busybox rmmod rtgauge; cat /proc/modules",
        )
    during, after, modules = re.split("(?:killed|removed)\n", said)
    assert "irq=0 kernel=0 user=0" in during
    assert "rtgauge-measure" in during
    assert "[rtgauge]" in during
    assert "rtgauge" not in after
    assert after.splitlines()[0] == before.splitlines()[0] != during.splitlines()[0]
    assert not re.search(r"^rtgauge ", modules, re.MULTILINE)


@pytest.mark.study(123)
def test_xeno_test_on_the_core() -> None:
    """Its checks: the clocks of core and Linux, and the registers of threads of both."""
    with boot() as target:
        for words, tests in (
            (("clock-warps", "--for", "200ms"), 3),
            (("core-switches", "--for", "200ms"), 2),
        ):
            done = target.execute(
                ["/agent", "run", *words, "--core", "cobalt", "--output", "-"]
            )  # fmt: skip
            assert done.code == 0, done.stderr.decode()
            records = list(StreamReader().feed(done.stdout))
            header = records[0]
            assert isinstance(header, Header)
            assert header.core == "cobalt"
            found = {one.rule: one.result for one in records if isinstance(one, Verdict)}
            assert found[RULE] == "pass"
            assert len(found) == tests
            assert set(found.values()) == {"pass"}


@pytest.mark.study(123)
def test_command_xeno_test_on_the_core(tmp_path: Path) -> None:
    """All its steps: each check is kept, and the three contexts are measured under its load."""
    words = ["--core", "cobalt", "--for", "5s", "--target", f"lab:{BOARD}"]
    report = ["--quiet", "-o", str(tmp_path / "report.json")]
    assert main(["xeno-test", *words, *report, "--store", str(tmp_path / "store")]) == 0
    (run,) = json.loads((tmp_path / "report.json").read_text())["runs"]
    assert {one["result"] for one in run["tests"]} <= {"pass", "skipped"}
    steps = {one["measurement"]: one for one in run["steps"] if one["role"] == "measurement"}
    assert set(steps) == {"smokey", "clock-warps", "core-switches", "timer"}
    for name, one in steps.items():
        assert one["state"] == "complete" or name == "smokey", one
        assert one["state"] == "skipped" or one["core"] == "cobalt", one


def test_comparison_with_preempt_rt(tmp_path: Path) -> None:
    """The core is not a label, so the latencies of both systems are one quantity."""
    store = ["--store", str(tmp_path / "store")]
    timer = ["run", "timer", "--context", "user", "--samples", "500", "--quiet", *store]
    assert main([*timer, "--core", "cobalt", "--target", f"lab:{BOARD}"]) == 0
    assert main([*timer, "--method", "clock_nanosleep", "--target", "lab:x86_64-rt"]) == 0
    output = tmp_path / "comparison.json"
    assert main(["compare", "1", "2", "--output", str(output), *store]) == 0
    found = json.loads(output.read_text())
    assert [one["realtime"] for one in found["sets"]] == [["Xenomai Cobalt"], ["PREEMPT_RT"]]
    (compared,) = found["quantities"]
    assert (compared["measurement"], compared["name"]) == ("timer", "latency")
    assert [(one["set"], one["count"]) for one in compared["rows"]] == [(0, 500), (1, 500)]


def test_smokey_is_judged_or_skipped() -> None:
    """With the board's own smokey each of its tests has a result. Without it nothing has passed."""
    with boot() as target:
        installed = shell(target, f"ls {SMOKEY}").strip() == SMOKEY
        done = target.execute(["/agent", "run", "smokey", "--output", "-"])
        records = list(StreamReader().feed(done.stdout))
        found = [one for one in records if isinstance(one, Verdict)]
    if not installed:
        assert (done.code, found) == (77, [])
        assert "smokey, the test program of Xenomai, is not installed" in done.stderr.decode()
        return
    failed = [one for one in found if one.result == "fail"]
    assert done.code == (3 if failed else 0)
    assert len({one.rule for one in found}) == len(found) > 20
