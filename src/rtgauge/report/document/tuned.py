# SPDX-License-Identifier: Apache-2.0
"""What the result of a tune shows, whatever its format: the answer, factors, interactions,
confirmation, commands, and the configurations."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rtgauge import text as numbers
from rtgauge.report.document.blocks import (
    Block,
    Bullets,
    Callout,
    Command,
    Document,
    Facts,
    Paragraph,
    Section,
    Table,
    Tone,
    line,
)
from rtgauge.report.document.compared import interval_text, probability, ratio
from rtgauge.report.document.tables import Cell, Grid, Named, Row
from rtgauge.report.results.labels import capital, load_text
from rtgauge.report.sets.compare import load_of
from rtgauge.report.sets.decide import WITHIN

__all__ = ["answer", "document", "plan_sections", "quantity_text", "shown_first"]

Model = Mapping[str, Any]

SUSPECTED: Final = 3
"""Maximum number of interactions that are described."""
_PRESENT: Final = "present"


def quantity_text(tune: Model) -> str:
    """The quantity that decides: ``99 % of timer: latency, user context, load sched``."""
    one = tune["quantity"]
    if one["percentile"] is None:
        return "no quantity in common"
    context = f", {one['context']} context" if one["context"] else ""
    name = f"{one['measurement']}: {one['name']}{context}, {load_text(load_of(one))}"
    return f"{one['percentile']}{numbers.GAP}% of {name}"


def answer(tune: Model) -> tuple[Tone, str]:
    """The result of a tune in one sentence, and its tone."""
    helping = [one["name"] for one in tune["factors"] if one["verdict"] == "helps"]
    confirmed = tune["confirmation"]
    if tune["state"] != "complete":
        return "warn", "Not complete: rtgauge tune --resume continues it"
    if not helping:
        return "warn", "No factor is proven to help"
    names = numbers.join(helping)
    verb = "helps" if len(helping) == 1 else "help"
    if confirmed is None:
        return "warn", f"{names} {verb}, not confirmed"
    share = _share(confirmed)
    if confirmed["verdict"] == "better":
        return "pass", f"{names} {verb}: {share}, confirmed in {confirmed['blocks']} fresh blocks"
    said = {
        "worse": "shows the opposite",
        "equivalent": f"shows a difference of at most {numbers.percent(WITHIN)}",
        "not decided": "does not decide it",
        "not enough runs": "has too few runs",
    }[confirmed["verdict"]]
    return "warn", f"{names} {verb} in the design, but the confirmation {said}: {share}"


def _share(one: Model) -> str:
    if one["ratio"] is None:
        return "no figures"
    return f"{ratio(one['ratio'])} {_interval(one)}".strip()


def _interval(one: Model) -> str:
    return "" if one["interval"] is None else interval_text(one["interval"], WITHIN)


def plan_sections(tune: Model) -> tuple[Section, ...]:
    """What a tune is going to measure: the configurations of its design."""
    return (_configurations(tune, values=False),)


def document(tune: Model) -> Document:
    """The whole result."""
    design = tune["design"]
    kind = (
        f"all combinations of {numbers.plural(len(tune['tried']), 'factor')}"
        if design["kind"] == "full"
        else f"Plackett-Burman design of {design['size']} runs, folded over"
    )
    done = sum(row["state"] == "complete" for row in tune["configurations"])
    return Document(
        f"Tune of {tune['target']}",
        f"{capital(quantity_text(tune))}. {capital(kind)}, {numbers.plural(done, 'run')}, "
        f"order seed {design['seed']}, study {tune['study']}",
        (
            Section("Answer", "answer", tuple(_answer(tune))),
            Section("Factors", "factors", tuple(_factors(tune))),
            Section("Make it permanent", "permanent", tuple(_permanent(tune))),
            *_failed(tune),
            _configurations(tune, values=True),
        ),
    )


def shown_first(tune: Model) -> tuple[Section, ...]:
    """The result without the table of configurations, for a terminal."""
    return tuple(one for one in document(tune).sections if one.anchor != "configurations")


def _answer(tune: Model) -> Iterator[Block]:
    tone, text = answer(tune)
    one = tune["confirmation"]
    below: tuple[Block, ...] = ()
    if one is not None and one["present_ns"] is not None:
        facts = (
            Named("Present", numbers.shown(one["present_ns"], "ns").full),
            Named("Best", numbers.shown(one["best_ns"], "ns").full, " + ".join(one["on"])),
            Named(
                "Best/present", _share(one), f"p {probability(one['p'])}, {one['blocks']} blocks"
            ),
        )
        below = (Facts(facts),)
    yield Callout(tone, text, below)


def _factors(tune: Model) -> Iterator[Block]:
    rows = []
    for one in tune["factors"]:
        p = "" if one["p_adjusted"] is None else probability(one["p_adjusted"])
        share = "" if one["ratio"] is None else ratio(one["ratio"])
        cells = [share, _interval(one), p, one["verdict"]]
        rows.append(Row(one["name"], [Cell(text) for text in cells]))
    ratios = (
        f"Ratio of {quantity_text(tune)} with the factor on to that with it off, averaged over the "
        "settings of the others. p is corrected for the number of factors (Holm). "
    )
    judged = tune["quantity"]["percentile"] is not None
    yield Table(
        Grid(
            "Factors",
            ("Factor", "on/off", f"95{numbers.GAP}% interval", "p", "verdict"),
            rows,
            caption=f"{ratios}Equivalent: within {numbers.percent(WITHIN)}." if judged else "",
        )
    )
    reasons = [
        (line(f"{one['name']}: {one['reason']}"), ()) for one in tune["factors"] if one["reason"]
    ]
    if reasons:
        yield Bullets(tuple(reasons))
    for one in tune["interactions"][:SUSPECTED]:
        first, second = one["factors"]
        shared = " Other pairs share this pattern in the design." if one["aliased"] else ""
        yield Paragraph(
            line(
                f"Suspected interaction: {first} with {second}. With the other factor on instead "
                f"of off, the ratio of each changes by {ratio(one['ratio'])} {_interval(one)}, "
                f"p {probability(one['p_adjusted'])}.{shared}"
            )
        )
    if more := tune["interactions"][SUSPECTED:]:
        pairs = "; ".join(" with ".join(one["factors"]) for one in more)
        yield Paragraph(line(f"More suspected interactions, with figures in the JSON: {pairs}."))


def _permanent(tune: Model) -> Iterator[Block]:
    helping = [one for one in tune["factors"] if one["verdict"] == "helps"]
    if not helping:
        yield Paragraph(line("No factor is proven to help, so there is nothing to change."))
        return
    for one in helping:
        for command in one["permanent"]:
            yield Command(command)
    if any(one["kind"] == "kernel" for one in helping):
        yield Command("update-grub")
        yield Paragraph(
            line(
                "These commands are for Debian with GRUB, as root on the target. With another boot "
                "loader, add the arguments to its kernel command line (in U-Boot: the variable "
                "bootargs). Then reboot."
            )
        )
    if any(one["kind"] == "priority" for one in helping):
        text = "PID is the process of your application. Or set the priority in its source."
        yield Paragraph(line(text))


def _configurations(tune: Model, *, values: bool) -> Section:
    rows = []
    names: Sequence[str] = [one["name"] for one in tune["tried"]]
    for row in tune["configurations"]:
        on = " + ".join(names[place] for place in row["on"]) or _PRESENT
        cells = [str(row["number"] + 1), str(row["block"] + 1)]
        if values:
            shown = row["value_ns"]
            text = row["state"] if shown is None else numbers.shown(shown, "ns").full
            cells += [row["phase"], text]
        rows.append(Row(on, [Cell(text) for text in cells]))
    heads = ("Configuration", "run", "block", *(("phase", "value") if values else ()))
    table = Table(Grid("Configurations", heads, rows))
    told = Paragraph(line(f"{_PRESENT}: the target as it is, without a value that is tried."))
    return Section("Configurations", "configurations", (table, told), folded=values)


def _failed(tune: Model) -> Iterator[Section]:
    """The configurations without a value, each with the reason."""
    names = [one["name"] for one in tune["tried"]]
    items = []
    for row in tune["configurations"]:
        if row["reason"]:
            on = " + ".join(names[place] for place in row["on"]) or _PRESENT
            again = " (measured again)" if row["again"] else ""
            items.append((line(f"run {row['number'] + 1}, {on}: {row['reason']}{again}"), ()))
    if items:
        yield Section("Without a value", "failed", (Bullets(tuple(items)),))
