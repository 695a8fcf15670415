# SPDX-License-Identifier: Apache-2.0
"""Names of series, loads and levels, the same in the terminal and in the report."""

from __future__ import annotations

import enum
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.stream.answers import RESPONSE, is_response, things, waits_for_answers

__all__ = [
    "CROWDED",
    "KNOWN",
    "LENGTHS",
    "ORDINARY",
    "RESPONSE",
    "RESULTS",
    "TRACED",
    "TRACED_TEXT",
    "UNLOADED_TEXTS",
    "UNRESOLVED",
    "Level",
    "above",
    "added_text",
    "background",
    "bound_sentence",
    "capital",
    "carried_out",
    "chapters",
    "claim",
    "compiler_text",
    "core_name",
    "core_text",
    "group_series",
    "headline",
    "highest",
    "integers",
    "is_response",
    "judged",
    "kernel_parameters",
    "lab_text",
    "late_answers",
    "length_text",
    "limitation",
    "link_text",
    "load_name",
    "load_text",
    "made_of_a_file",
    "name_among",
    "ordinary",
    "ordinary_policies",
    "part_text",
    "peak",
    "principal",
    "quantity_name",
    "reached",
    "realtime_text",
    "refused_part",
    "representative",
    "runs_text",
    "sampled_text",
    "series_labels",
    "severity",
    "step_name",
    "step_number",
    "step_place",
    "steps_text",
    "tail_percentile",
    "target_name",
    "tests_ended",
    "things_of",
    "unloaded_text",
    "unresolved",
    "variants",
    "waits_for_answers",
    "watched",
    "weakest",
    "work_text",
    "worst",
]


ORDINARY: Final = ("other", "batch", "idle")
"""Scheduling policies without real-time priority."""

COMMAND: Final = 40
"""Length to which a name shortens the shell command of a load. The step has the whole command."""

LENGTHS: Final = ("for", "samples")
"""Options that set the length of a step."""

KNOWN: Final = "known limitation"

TRACED: Final = "explain"
"""The last part of the name of a load if the step was traced with ``--explain``."""
TRACED_TEXT: Final = "idle with the trace"
"""The load of a step that was traced without one."""
CROWDED: Final = "with other programs"
"""The load of a step without one, on a machine that other programs kept busy."""
CROWDED_TRACED: Final = f"{CROWDED} and the trace"
UNLOADED_TEXTS: Final = ("idle", TRACED_TEXT, CROWDED, CROWDED_TRACED)
UNLOADED: Final = {
    "idle": "while idle",
    "unknown": "under an unknown load",
    TRACED: f"while {TRACED_TEXT}",
}
"""What is not under load, or of imported data under an unknown one, as part of a sentence."""

_REALTIME: Final = {
    "preempt_rt": "PREEMPT_RT",
    "full": "fully preemptible (no PREEMPT_RT)",
    "lazy": "lazy preemption (no PREEMPT_RT)",
    "voluntary": "voluntary preemption only",
    "none": "no forced preemption",
    "cobalt": "Xenomai Cobalt",
    "evl": "Xenomai EVL",
}
_CORES: Final = {"cobalt": "Cobalt", "evl": "EVL"}


class Level(enum.IntEnum):
    """The weight of a finding."""

    OK = 0
    NOTE = 1
    WARNING = 2
    ERROR = 3

    @staticmethod
    def of(name: str) -> Level:
        """The level of that name; an unknown one is a note."""
        return Level.__members__.get(name.upper(), Level.NOTE)


def group_series(series: Sequence[Mapping[str, Any]], places: Sequence[int]) -> list[list[int]]:
    """The places of series that can share a picture: one quantity, context and unit; in order."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for place in places:
        one = series[place]
        groups.setdefault((one["name"], one["context"], one["unit"]), []).append(place)
    return list(groups.values())


def quantity_name(
    series: Sequence[Mapping[str, Any]], members: Sequence[int], places: Sequence[int]
) -> str:
    """The name of the series at ``members``, with their context if the series at ``places`` have
    the quantity in several contexts."""
    one = series[members[0]]
    contexts = {series[at]["context"] for at in places if series[at]["name"] == one["name"]}
    return str(one["name"]) + (f" in {one['context']} context" if len(contexts) > 1 else "")


def series_labels(series: Sequence[Mapping[str, Any]]) -> list[str]:
    """A short distinct name for each series of a group: the labels in which they differ."""
    several = len({one["cpu"] for one in series}) > 1
    keys = list(dict.fromkeys(key for one in series for key in one["labels"]))
    varying = [key for key in keys if len({one["labels"].get(key) for one in series}) > 1]
    labels = []
    for one in series:
        words = []
        if one["cpu"] >= 0 and (several or not varying):
            words.append(f"CPU {one['cpu']}")
        words += [f"{key} {one['labels'].get(key, '–')}" for key in varying]
        labels.append(", ".join(words) or one["name"])
    if len(set(labels)) < len(labels):
        labels = [
            f"{label}, thread {one['thread']}" if one["thread"] >= 0 else label
            for label, one in zip(labels, series, strict=True)
        ]
    if len(set(labels)) < len(labels):
        labels = [f"{label} ({at + 1})" for at, label in enumerate(labels)]
    return labels


def name_among(series: Sequence[Mapping[str, Any]], at: int) -> str:
    """The name of one of these series, with what tells it from others of its name and context."""
    name, context = series[at]["name"], series[at]["context"]
    alike = [
        place
        for place, one in enumerate(series)
        if (one["name"], one["context"]) == (name, context)
    ]
    if len(alike) < 2:
        return str(name)
    return f"{name}, {series_labels([series[place] for place in alike])[alike.index(at)]}"


def target_name(run: Mapping[str, Any]) -> str:
    """The name of the system under test: for ``local`` its host name."""
    host = run["environment"].get("host")
    return str(host) if run["target"] == "local" and host else str(run["target"])


def kernel_parameters(kernel: Mapping[str, Any]) -> str:
    """The parameters of a kernel without those that only name the files that were booted; empty if
    they are unknown."""
    words = str(kernel.get("cmdline") or "").split()
    return " ".join(one for one in words if not one.startswith(("BOOT_IMAGE=", "initrd=")))


def made_of_a_file(run: Mapping[str, Any]) -> bool:
    """Whether a run was imported from a file, so that no command repeats it."""
    return str(run["target"]).startswith(("capture:", "printed:"))


def reached(run: Mapping[str, Any]) -> bool:
    """Whether the target of a run answered, so that its environment is known."""
    if run["boot_id"] or run["series"] or made_of_a_file(run):
        return True
    return bool((run["environment"].get("kernel") or {}).get("release"))


def realtime_text(environment: Mapping[str, Any]) -> str:
    """The preemption model of the kernel in words. With a real-time core also what was measured,
    except for results that the core's own programs printed."""
    text = _REALTIME.get(environment["realtime"], "real-time model unknown")
    if environment["realtime"] not in _CORES or environment.get("core"):
        return text
    return text if "printed" in environment else f"{text}, measured on Linux"


def core_name(core: str) -> str:
    """A real-time core in sentences."""
    return f"{_CORES.get(core, core)} core"


def core_text(run: Mapping[str, Any]) -> str:
    """The real-time core that measuring threads ran on; empty for Linux. With the number of steps
    if others measured Linux threads."""
    core = run["environment"].get("core")
    if not core:
        return ""
    measured = [
        step["core"]
        for step in run["steps"]
        if step["core"] and step["role"] == "measurement" and step["state"] != "skipped"
    ]
    own, every = measured.count(core["name"]), numbers.plural(len(measured), "step")
    steps = "" if own == len(measured) else f" in {own} of {every}"
    return f"tasks of the {core_name(core['name'])}{steps}, interface revision {core['revision']}"


def lab_text(environment: Mapping[str, Any]) -> str:
    """The mode of an emulated board and the meaning of its time; empty for others."""
    made = environment.get("lab")
    if not made:
        return ""
    mode, meaning = made.get("mode") or "unknown", made.get("meaning") or ""
    return f"emulated board, {mode} mode" + (f": {meaning}" if meaning else "")


def link_text(environment: Mapping[str, Any]) -> str:
    """The connection to a remote system; empty for a local one."""
    connection = environment.get("connection")
    if not isinstance(connection, Mapping):
        return ""
    names = {"agent": "", "folder": "in ", "link": "link "}
    return ", ".join(
        before + str(connection[key]) for key, before in names.items() if connection.get(key)
    )


def compiler_text(environment: Mapping[str, Any]) -> str:
    """What compiled the agent; empty if it is not known."""
    compiler = str(environment.get("compiler") or "")
    return f"agent compiled by {compiler}" if compiler else ""


def step_number(step: Mapping[str, Any]) -> int:
    """The number of a step, from 1; the model counts from 0."""
    return int(step["step"]) + 1


def late_answers(run: Mapping[str, Any], steps: Collection[int]) -> int:
    """The number of late answers in some steps, where each answer is known to be that of its
    event. At most that of all answers: the table of a foreign stream may contain any number."""
    most = sum(int(one["count"] + one["lost"]) for one in run["series"] if one["step"] in steps)
    late = 0
    for table in run["tables"]:
        if table["name"] != "answers" or table["step"] not in steps:
            continue
        for row in integers(table):
            late += 0 if row.get("ambiguous") else max(row.get("late", 0), 0)
    return min(late, most)


def integers(table: Mapping[str, Any]) -> list[dict[str, int]]:
    """The rows of a table by the names of its columns, without the values that are texts."""
    names = [column["name"] for column in table["columns"]]
    return [
        {name: cell for name, cell in zip(names, row, strict=True) if isinstance(cell, int)}
        for row in table["rows"]
    ]


def variants(run: Mapping[str, Any]) -> dict[int, dict[str, str]]:
    """Step -> option -> words: of the steps of one measurement, the options in which they differ.

    The length of a step is not such an option. If a label of the series has the option's name, its
    value is enough (``nanosleep``), else the name precedes it (``priority 80``). The parameters
    asked for decide, so that the steps of a plan have the same names on every target.
    """
    groups: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for step in run["steps"]:
        groups.setdefault((step["role"], step["measurement"]), []).append(step)
    labels: dict[str, set[str]] = {}
    for one in run["series"]:
        labels.setdefault(one["measurement"], set()).update(one["labels"])
    found: dict[int, dict[str, str]] = {}
    for (_, measurement), steps in groups.items():
        asked = [step.get("asked") or {} for step in steps]
        shown = [step["parameters"] | these for step, these in zip(steps, asked, strict=True)]
        options = dict.fromkeys(name for these in asked for name in these if name not in LENGTHS)
        varying = [name for name in options if len({one.get(name) for one in shown}) > 1]
        for step, values in zip(steps, shown, strict=True):
            found[step["step"]] = {
                name: values[name].replace(",", ", ")
                if name in labels.get(measurement, ())
                else f"{name} {values[name]}"
                for name in varying
                if values.get(name)
            }
    return found


def step_name(run: Mapping[str, Any], step: Mapping[str, Any]) -> str:
    """The measurement of a step, and the options in which it differs from the run's other steps of
    that measurement."""
    words = ", ".join(variants(run)[step["step"]].values())
    return f"{step['measurement']}: {words}" if words else str(step["measurement"])


def step_place(run: Mapping[str, Any], step: Mapping[str, Any]) -> str:
    """The name and number of a step, with its load if the run has the measurement under several:
    ``timer, load sched (step 2)``."""
    same = [one for one in run["steps"] if one["measurement"] == step["measurement"]]
    several = len({load_text(one["load"]) for one in same}) > 1
    load = f", {load_text(step['load'])}" if several else ""
    return f"{step_name(run, step)}{load} (step {step_number(step)})"


def capital(text: str) -> str:
    """The text with its first letter in upper case."""
    return text[:1].upper() + text[1:]


def runs_text(runs: Sequence[Mapping[str, Any]]) -> str:
    """How many runs of what, and how long each took, with its preparation and the boot of an
    emulated board."""
    steps = [step for run in runs for step in run["steps"] if step["role"] == "measurement"]
    names = list(dict.fromkeys(step["measurement"] for step in steps))
    text = f"{len(runs)} runs" + (f" of {numbers.join(names)}" if 1 <= len(names) <= 2 else "")
    lengths = [run["duration_s"] for run in runs if run["duration_s"] is not None and reached(run)]
    if not lengths:
        return text
    ends = dict.fromkeys(map(numbers.duration, (min(lengths), max(lengths))))
    text += f", each {' to '.join(ends)} with its set-up"
    sampled = dict.fromkeys(filter(None, map(sampled_text, runs)))
    return f"{text}, {next(iter(sampled))}" if len(sampled) == 1 else text


def sampled_text(run: Mapping[str, Any]) -> str:
    """How long the samples of the longest step with due times lasted; empty without such a step,
    and for an evaluation, whose steps have lengths of their own."""
    measured = [step for step in run["steps"] if step["role"] == "measurement"]
    if len({step["chapter"] for step in measured}) > 1:
        return ""
    places = {step["step"] for step in measured}
    lengths = [one["bound"]["duration_s"] for one in run["series"]
               if one["step"] in places and one["interval_ns"]]  # fmt: skip
    return f"sampled for {numbers.duration(max(lengths))}" if lengths else ""


def carried_out(run: Mapping[str, Any]) -> list[Any]:
    """The steps of a run that measure or calibrate, without the background activity."""
    return [step for step in run["steps"] if step["role"] != "background"]


def length_text(one: Mapping[str, Any]) -> str:
    """The length of a run, or of a step."""
    return "not ended" if one["state"] == "running" else numbers.duration(one["duration_s"])


def steps_text(steps: Sequence[Mapping[str, Any]]) -> str:
    """The number of steps, the calibrations apart: ``39 steps and 1 calibration``."""
    aside = sum(step["role"] == "calibration" for step in steps)
    if not aside or aside == len(steps):
        return numbers.plural(len(steps), "step")
    return (
        f"{numbers.plural(len(steps) - aside, 'step')} and {numbers.plural(aside, 'calibration')}"
    )


def part_text(some: Sequence[Mapping[str, Any]], steps: Sequence[Mapping[str, Any]]) -> str:
    """The number of ``some`` of the steps: ``2 of 3 steps``. The calibrations are counted apart
    unless ``some`` has both kinds."""
    both = len({step["role"] == "calibration" for step in some}) > 1
    return f"{len(some)} of {numbers.plural(len(steps), 'step') if both else steps_text(steps)}"


def not_offered(step: Mapping[str, Any]) -> bool:
    """Whether a step was skipped because the requested core does not support it."""
    return bool(step.get("not_on_core"))


def apart(run: Mapping[str, Any]) -> list[Any]:
    """The steps that the core does not offer, next to others that it does."""
    steps = [step for step in run["steps"] if step["role"] == "measurement"]
    found = [step for step in steps if not_offered(step)]
    return found if len(found) < len(steps) else []


def ending(step: Mapping[str, Any]) -> tuple[str, str, str]:
    """State, reason and remedy of a step. All that the core does not offer have the same."""
    if not_offered(step):
        reason = f"not offered by the {core_name(step['run_options']['core'])}"
        return step["state"], reason, step["remedy"]
    return step["state"], step["reason"], step["remedy"]


def chapters(run: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The chapters of an evaluation with their steps, in the order in which they first appear; none
    where what was measured belongs to a single one."""
    found: dict[str, list[Any]] = {}
    steps = carried_out(run)
    for step in steps:
        found.setdefault(step["chapter"] or "Other measurements", []).append(step)
    measured = {step["chapter"] for step in steps if step["role"] == "measurement"}
    return found if len(measured) > 1 else {}


def background(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The series of the background activity: frequency, temperature and so on."""
    places = {step["step"] for step in run["steps"] if step["role"] == "background"}
    return [one for one in run["series"] if one["step"] in places]


def watched(series: Sequence[Mapping[str, Any]]) -> list[tuple[str, tuple[str, str, str]]]:
    """For each series its name with unit and labels, and min, mean and max."""
    rows = []
    for members in group_series(series, range(len(series))):
        group = [series[place] for place in members]
        labels = series_labels(group) if len(group) > 1 else [""]
        for one, label in zip(group, labels, strict=True):
            share = one["unit"] == "ns/s"
            unit = "%" if share else numbers.unit_name(one["unit"])
            name = one["name"] + (f" ({unit})" if unit else "") + (f", {label}" if label else "")
            readings = [one[key] for key in ("min", "mean", "max")]
            if share:
                readings = [reading / 1e7 for reading in readings]
            figures = [
                numbers.shown(value, "" if share else one["unit"]).text for value in readings
            ]
            rows.append((capital(name), (figures[0], figures[1], figures[2])))
    return rows


def added_text(load: Mapping[str, Any]) -> str:
    """The name of a load, with its shell command, if any, shortened; one of ``UNLOADED_TEXTS`` for
    none."""
    stored = str(load["name"])
    if "others" in load:
        return CROWDED if stored == "idle" else CROWDED_TRACED
    bare = stored.removesuffix(f",{TRACED}")
    name = TRACED_TEXT if bare == TRACED else bare
    traced = "" if bare == stored else " with the trace"
    if "command" not in load:
        return name + traced
    text = " ".join(load["command"].split())
    if len(text) > COMMAND:
        text = text[: COMMAND - 1].rstrip() + "…"
    return f"{name} “{text}”{traced}"


def under_load(step: Mapping[str, Any]) -> bool:
    """Whether a step ran under load. The trace alone is not a load."""
    return step["load"]["name"] not in UNLOADED


def unloaded_text(load: Mapping[str, Any]) -> str | None:
    """The load of a step that was not under load, as part of a sentence; None for another."""
    return CROWDED if "others" in load else UNLOADED.get(load["name"])


def load_name(load: Mapping[str, Any]) -> str:
    """The name of a load; ``CROWDED`` for a machine that was not idle without one."""
    return CROWDED if "others" in load else str(load["name"])


def traced_alone(step: Mapping[str, Any]) -> bool:
    """Whether a step ran without a load, with the trace of ``--explain``."""
    return bool(step["load"]["name"] == TRACED)


def load_text(load: Mapping[str, Any]) -> str:
    """The load of a step, as it follows the name of the measurement: ``idle``, ``load sched``."""
    text = added_text(load)
    return text if text in UNLOADED_TEXTS else f"load {text}"


def ordinary_policies(run: Mapping[str, Any], step: Mapping[str, Any]) -> str:
    """The policies without real-time priority in effect although the measurement has a priority:
    ``SCHED_OTHER``; empty if there were none."""
    if "priority" not in step["parameters"]:
        return ""
    policies = {
        one["policy"]
        for one in run["series"]
        if one["step"] == step["step"]
        and one["policy"] in ORDINARY
        and one["labels"].get("policy") != one["policy"]  # else it was asked for
    }
    return " and ".join(sorted(f"SCHED_{policy.upper()}" for policy in policies))


def ordinary(run: Mapping[str, Any], step: Mapping[str, Any]) -> str:
    """A warning if a step was measured without real-time priority; else empty."""
    names = ordinary_policies(run, step)
    if not names:
        return ""
    return f"measured without real-time priority ({names}): not the latency of a real-time task"


def work_text(load: Mapping[str, Any]) -> str:
    """The work rates of the loads of a step, the interrupts of all CPUs, and the CPU time in use:
    ``sched 12 300 messages/s, cpu 410 loops/s, 2 150 interrupts/s, CPUs 97 % in use``."""
    rates = [
        (one["name"], numbers.rate(one["work_rate"], one["unit"]))
        for one in load["loads"]
        if one["work_rate"] is not None
    ]
    single = len(rates) == 1
    texts = [rate if single else f"{name} {rate}" for name, rate in rates]
    if texts and load["interrupts_per_s"] is not None:
        texts.append(numbers.rate(load["interrupts_per_s"], "interrupts"))
    if texts and "cpu_share" in load:
        texts.append(f"CPUs {numbers.percent(load['cpu_share'])} in use")
    return ", ".join(texts)


def peak(one: Mapping[str, Any]) -> int | None:
    """The maximum of a series, or its lower limit where events were not answered or missed periods
    were later than all samples."""
    least = one["max_at_least"]
    return one["max"] if least is None else numbers.AtLeast(least)


UNRESOLVED: Final = "below the resolution of the time stamps"
"""What the figures 0 and 0.00 mean for a duration."""


def unresolved(series: Sequence[Mapping[str, Any]], *, medians: bool = False) -> bool:
    """Whether a figure of these series, or one of the ``medians``, is at most 0 after the cost of a
    time stamp was subtracted, and so is shown as 0 or 0.00."""
    figures = [
        [one["percentiles"].get("50"), *([] if medians else [one["first"], one["min"]])]
        for one in series
        if one["unit"] == "ns" and one["stamp_ns"] is not None
    ]
    return any(value is not None and -5 < value <= 0 for some in figures for value in some)


def above(one: Mapping[str, Any], limit: int) -> bool:
    """Whether a value of a series is above a limit. An event without an answer is above each limit
    up to the time waited for the answer."""
    top = peak(one)
    if top == limit:
        return bool(one["unanswered"]) and (one["max"] is None or one["max"] < limit)
    return top is not None and top > limit


def budget_of(step: Mapping[str, Any], unit: str) -> int | None:
    """The budget of the series of a step in their unit; None without one."""
    return int(step["budget"]["budget_ns"]) if step["budget"] and unit == "ns" else None


def highest(values: Iterable[int | None]) -> int | None:
    """The highest of several maxima; a lower limit if one of them is a lower limit."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    largest = max(known)
    at_least = any(isinstance(value, numbers.AtLeast) for value in known)
    return numbers.AtLeast(largest) if at_least else largest


def worst(series: Sequence[Mapping[str, Any]]) -> int | None:
    """The place of the series with the highest maximum, lower limits first; None if no series has a
    sample."""
    peaks = [(peak(one), place) for place, one in enumerate(series)]
    filled = [
        (value, isinstance(value, numbers.AtLeast), -place)
        for value, place in peaks
        if value is not None
    ]
    return -max(filled)[2] if filled else None


def principal(
    series: Sequence[Mapping[str, Any]], places: Sequence[int], step: Mapping[str, Any]
) -> tuple[list[int], int] | None:
    """What a step's row shows: the places of the first quantity with a sample, in the context with
    the highest maximum, and the place of that maximum. If the quantities are gaps by their cause,
    the quantity with the highest maximum. None if no series has a sample."""
    found = [
        (members, members[at])
        for members in group_series(series, places)
        if (at := worst([series[place] for place in members])) is not None
    ]
    alike = ("unit",) if step.get("unseen_gaps") else ("name", "unit")
    same = [
        one
        for one in found
        if all(series[one[1]][key] == series[found[0][1]][key] for key in alike)
    ]
    at = worst([series[place] for _, place in same])
    return None if at is None else same[at]


def headline(
    series: Sequence[Mapping[str, Any]], labels: Sequence[str], budget: int | None = None
) -> str:
    """The observed maximum with number of samples and time, in one sentence. It is not rounded to
    the budget."""
    at = worst(series)
    if at is None:
        return "No sample was taken."
    one = series[at]
    samples = sum(each["count"] for each in series)
    missing = sum(each["unanswered"] for each in series)
    what = numbers.plural(samples, "sample")
    if one["max_at_least"] is not None and not one["unanswered"]:
        skipped = sum(each["missed"] for each in series)
        what = f"{numbers.count(samples + skipped)} periods due ({numbers.count(skipped)} missed)"
    elif missing:
        of = numbers.plural(samples + missing, "event")
        what = f"{of} ({numbers.count(missing)} not answered)"
    text = (
        f"The maximum of {what}"
        + (f" in {numbers.count(len(series))} series" if len(series) > 1 else "")
        + f" over {numbers.duration(max(each['bound']['duration_s'] for each in series))} is "
        + numbers.shown(peak(one), one["unit"], budget).full
        + (f" ({labels[at]})." if len(series) > 1 else ".")
    )
    rest = one["rest"]["max"]
    if rest is not None and one["first"] == one["max"] > rest and one["max_at_least"] is None:
        text += (
            " It is the first sample. The maximum of the others is "
            f"{numbers.shown(rest, one['unit'], budget).full}."
        )
    return text


def things_of(one: Mapping[str, Any]) -> str:
    """What the samples of a series are, in the plural."""
    return things(one["name"], one["unit"], one["context"], one["interval_ns"])


def groups(one: Mapping[str, Any]) -> str:
    """A sentence on large values that come in groups, with the effect on the bound; else empty."""
    found, bound = one["clustering"], one["bound"]
    if not found or not found["clustered"]:
        return ""
    most = bound["samples"] / max(bound["effective_samples"], 1)
    about, most = (float(f"{size:.2g}") for size in (found["group"], most))
    many, at_most = (f"{size:g}" if size < 10 else numbers.count(size) for size in (about, most))
    return (
        f"Large values come in groups of about {many}, at most {at_most} (90{numbers.GAP}% sure), "
        f"so the {numbers.count(bound['samples'])} samples count as "
        f"{numbers.count(bound['effective_samples'])} independent samples."
    )


def bound_sentence(one: Mapping[str, Any], each: str = "") -> str:
    """The claim about the maximum of a series, for any distribution; empty without samples.

    ``each`` names what the claim holds for, if it holds for each of several series.
    """
    bound = one["bound"]
    if not bound["samples"]:
        return ""
    if bound["probability"] >= 0.5 and not one["unanswered"]:
        return "Too few samples for a statement about further samples."
    text = (
        f"{numbers.percent(bound['confidence'])} sure: at most "
        f"{numbers.probability(bound['probability'])} "
        + ("of " if bound["probability"] >= 0.5 else "")
    )
    if one["unanswered"]:
        many = bound["probability"] >= 0.5
        text += f"further events{each} {'have' if many else 'has'} no answer"
        if one["max"] is not None:
            top = numbers.shown(one["max"], one["unit"]).full
            text += f", or {'take' if many else 'takes'} longer than {top}"
        text += ", if events are independent."
    else:
        text += f"further samples{each} exceeds this"
        text += f". {grouped}" if (grouped := groups(one)) else ", if samples are independent."
    if bound["period_s"]:
        answers = waits_for_answers(one["name"], one["unit"])
        what = "interrupts" if one["context"] == "irq" else "wake-ups of this task"
        what = "answers" if answers else what
        text += (
            f" The run shows late {what} that occur more often than once in "
            f"{numbers.duration(bound['period_s'])}."
        )
        if one["interval_ns"] > 0 and not answers:
            text += (
                " A disturbance of length L < interval must occur (interval/L) times more often to "
                "be seen."
            )
    return text


def claim(
    series: Sequence[Mapping[str, Any]], labels: Sequence[str], budget: int | None = None
) -> str:
    """The maximum of a group of series, not rounded to the budget, and the claim about it. For
    several series, the claim is that of the series with the weakest bound."""
    filled = [one for one in series if one["bound"]["samples"]]
    if not filled:
        return headline(series, labels, budget)
    least = max(filled, key=lambda one: one["bound"]["probability"])
    each = ""
    if len(series) > 1:
        by_cpu = len({one["cpu"] for one in series}) == len(series) and series[0]["cpu"] >= 0
        each = " of each CPU" if by_cpu else " of each series"
    return f"{headline(series, labels, budget)} {bound_sentence(least, each)}"


def tail_percentile(tables: Sequence[Mapping[str, Any]]) -> str:
    """The percentile for the tail where there is room for one: the 99.9th, else the highest that
    one of the tables has; empty without one above the median."""
    names = {name for table in tables for name in table if 50 < float(name) <= 99.9}
    return max(names, key=float, default="")


RESULTS: Final = ("fail", "inconclusive", KNOWN, "skipped", "pass")
"""The results of verdicts and tests as reports show them, the most severe first."""


def judged(run: Mapping[str, Any], step: int) -> list[dict[str, Any]]:
    """The verdicts of a step and then its tests, for reports that show them in one list.

    Each has ``rule``, ``series`` (None for a test), ``result`` (one of ``RESULTS``: a failed test
    with a known limitation did not fail), ``evidence`` and ``remedy``.
    """
    verdicts = [
        {**one, "rule": f"budget {numbers.microseconds(one['budget_ns'])}"}
        for one in run["verdicts"]
        if one["step"] == step
    ]
    tests = [{**one, "series": None} for one in run["tests"] if one["step"] == step]
    for one in tests:
        if limitation(one):
            one["result"] = KNOWN
            one["evidence"] = f"{one['known_limitation']}; {one['evidence']}"
    return verdicts + tests


def limitation(test: Mapping[str, Any]) -> bool:
    """Whether a test failed as on every system with this C library."""
    return test["result"] == "fail" and test["known_limitation"] is not None


def refused_part(test: Mapping[str, Any]) -> bool:
    """Whether a context or method was not measured (rule "every context asked for is measured")."""
    return test["result"] == "skipped" and "asked for is measured" in test["rule"]


def tests_ended(tests: Sequence[Mapping[str, Any]]) -> str:
    """Numbers of the tests of behaviour that passed, failed, are inconclusive and were skipped, as
    a sentence without a full stop. Empty without tests."""
    if not tests:
        return ""
    many = Counter(str(test["result"]) for test in tests)
    if many["skipped"] == many.total():
        verb = "was" if many.total() == 1 else "were"
        return f"{numbers.plural(many.total(), 'test')} {verb} skipped"
    known = sum(map(limitation, tests))
    others = (
        (many["fail"] - known, "failed"),
        (known, "failed as on every system with this C library"),
        (many["inconclusive"], "inconclusive"),
        (many["skipped"], "skipped"),
    )
    of = numbers.plural(many.total() - many["skipped"], "test")
    said = "".join(f", {numbers.count(number)} {how}" for number, how in others if number)
    return f"{numbers.count(many['pass'])} of {of} passed{said}"


def representative(
    verdicts: Sequence[Mapping[str, Any]],
    series: Sequence[Mapping[str, Any]],
    names: Mapping[int, str],
) -> tuple[str, str]:
    """Evidence and remedy for verdicts of the same rule and result.

    If they differ, those of the ``weakest``, with the name of its series.
    """
    first = verdicts[0]
    if all(one["evidence"] == first["evidence"] for one in verdicts):
        return first["evidence"], first["remedy"]
    named = [one for one in verdicts if one["series"] in names]
    if not named:
        return first["evidence"], first["remedy"]
    top = weakest(named, series)
    return f"{names[top['series']]}: {top['evidence']}", top["remedy"]


def weakest(
    verdicts: Sequence[Mapping[str, Any]], series: Sequence[Mapping[str, Any]]
) -> Mapping[str, Any]:
    """The one with the weakest evidence of verdicts of the same rule and result. Bounds equal to
    two digits are equal. If the verdicts failed, the first by ``severity``."""

    def rank(verdict: Mapping[str, Any]) -> tuple[float, tuple[int, int, float]]:
        found, bound = severity(verdict, series), series[verdict["series"]]["bound"]
        chance = bound["probability"] if bound["samples"] else math.inf
        weak = verdict.get("bound_per_hour") or chance
        return 0.0 if verdict["result"] == "fail" else float(f"{weak:.2g}"), found

    return max(verdicts, key=rank)


def severity(
    verdict: Mapping[str, Any], series: Sequence[Mapping[str, Any]]
) -> tuple[int, int, float]:
    """Sorts verdicts with the same result: by the exceedances of the budget, then by the values
    that may exceed it, then by the maximum of the series. A test has only the last."""
    top = peak(series[verdict["series"]])
    return (
        verdict.get("exceedances", 0),
        verdict.get("unknown", 0),
        float("-inf") if top is None else float(top),
    )
