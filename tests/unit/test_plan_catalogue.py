# SPDX-License-Identifier: Apache-2.0
"""The catalogue as an agent describes it."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtgauge.catalogue import Catalogue, Option
from rtgauge.errors import TargetError, UsageError, nearest
from rtgauge.target.fake import CATALOGUE


def catalogue() -> Catalogue:
    return Catalogue.from_document(document())


def document() -> dict[str, Any]:
    return copy.deepcopy(dict(CATALOGUE))


def test_values_are_brought_into_their_shortest_form() -> None:
    timer = catalogue().measurement("timer")
    assert timer.normalise("interval", "1000us") == "1ms"
    assert timer.normalise("cpu", "1,0,2,9") == "0-2,9"
    assert timer.normalise("priority", "+07") == "7"
    assert timer.normalise("dither", "true") == "yes"
    assert timer.normalise("method", "timerfd, nanosleep") == "timerfd,nanosleep"
    assert catalogue().measurement("pendulum").normalise("string", "2048") == "2KiB"


@pytest.mark.parametrize(
    ("name", "text", "part"),
    [
        ("interval", "1us", "range is 20us to 1h"),
        ("interval", "2h", "range is 20us to 1h"),
        ("interval", "soon", "not a number with a unit"),
        ("priority", "0", "range is 1 to 99"),
        ("priority", "100", "range is 1 to 99"),
        ("priority", "high", "not a whole number"),
        ("cpu", "first", "not a list of CPUs"),
        ("method", "nanoslep", "(clock_nanosleep, nanosleep, timer"),
        ("method", "timer,nanoslep", "'nanoslep' is not one of its values (clock_"),
        ("method", "timer,", "'' is not one of its values"),
        ("method", "timer,itimer,timer", "'timer' is named twice"),
        ("dither", "maybe", "neither yes nor no"),
    ],
)
def test_wrong_values_name_measurement_option_and_range(name: str, text: str, part: str) -> None:
    with pytest.raises(UsageError) as caught:
        catalogue().measurement("timer").normalise(name, text)
    assert part in str(caught.value)
    assert "measurement 'timer', option '" + name in str(caught.value)


def test_unknown_names_suggest_the_nearest() -> None:
    for call, wanted in (
        (lambda: catalogue().measurement("tiemr"), "timer"),
        (lambda: catalogue().load("shced"), "sched"),
        (lambda: catalogue().measurement("timer").option("intervall"), "interval"),
        (lambda: catalogue().normalise_load("sched:grups=3"), "groups"),
        (lambda: catalogue().normalise_load("sched:retsart=3s"), "restart"),
        (lambda: catalogue().normalise_load("cpu,dolaod"), "doload"),
    ):
        with pytest.raises(UsageError) as caught:
            call()
        assert caught.value.remedy == f"did you mean '{wanted}'?"


def test_a_name_is_suggested_once() -> None:
    assert nearest("nosuch", ["b", "a", "b"]) == "choose from: a, b"


def test_loads() -> None:
    known = catalogue()
    assert known.normalise_load("") == known.normalise_load(" idle ") == "idle"
    assert known.normalise_load("sched:groups=04:transport=pipe,cpu") == (
        "sched:groups=4:transport=pipe,cpu"
    )
    assert known.normalise_load("cpu:restart=5000ms:cycle=60s:from=0s:until=30s, doload") == (
        "cpu:restart=5s:cycle=1m:from=0:until=30s,doload"
    )
    assert known.normalise_load("cpu:cycle=10s:from=5s") == "cpu:cycle=10s:from=5s"


def test_a_catalogue_without_profiles_and_common_options() -> None:
    older = document()
    del older["profiles"], older["load_options"]
    known = Catalogue.from_document(older)
    assert (known.load_options, dict(known.profiles)) == ((), {})
    for text in ("doload", "sched:restart=5s"):
        with pytest.raises(UsageError):
            known.normalise_load(text)


@pytest.mark.parametrize(
    "text",
    ["sched,", "sched:groups", "sched,idle", "sched:groups=0", ":", "doload:grups=1",
     "doload:groups",
     "sched:groups=1:groups=2", "sched:restart=soon", "cpu:from=1s", "cpu:until=1s",
     "cpu:cycle=10s:from=5s:until=5s", "cpu:cycle=10s:from=10s", "cpu:cycle=10s:until=11s"],
)  # fmt: skip
def test_no_load(text: str) -> None:
    with pytest.raises(UsageError):
        catalogue().normalise_load(text)


def test_an_option_of_the_empty_text_has_no_default() -> None:
    changed = document()
    changed["measurements"][0]["options"].append(
        {"name": "until", "type": "duration", "default": ""}
    )
    assert Catalogue.from_document(changed).measurement("timer").option("until").default == ""


def test_it_survives_json() -> None:
    known = Catalogue.from_json(json.dumps(CATALOGUE))
    assert known.document == CATALOGUE
    assert known.measurement("timer").series[0].stages[0] == "timer interrupt"


def broken() -> list[tuple[str, Any]]:
    """Descriptions that are wrong in one place each, with a word that has to be in the error."""

    def with_option(**fields: Any) -> dict[str, Any]:
        changed = document()
        option = {"name": "extra", "type": "integer", "default": "1", **fields}
        changed["measurements"][0]["options"].append(option)
        return changed

    twice = document()
    twice["measurements"].append(twice["measurements"][0])
    newer = {**document(), "version": 2}
    role = document()
    role["measurements"][0]["role"] = "decoration"
    context = document()
    context["measurements"][0]["contexts"] = ["hypervisor"]
    load_options = document()
    load_options["loads"][0]["options"].append(load_options["load_options"][0])
    profiles = document()
    profiles["profiles"] *= 2
    evaluation = document()
    evaluation["measurements"][0]["evaluate"] = [{"parameters": {"for": 20}}]
    thorough = document()
    thorough["measurements"][0]["evaluate"] = [{"parameters": {}, "thorough": "for=1h"}]
    chapter = document()
    chapter["measurements"][0]["chapter"] = 7
    cpu = document()
    cpu["measurements"][0]["options"][2] |= {"type": "text", "default": "x"}
    return [
        ("option 'cpu' is not of type cpus", cpu),
        ("format", {"format": "something"}),
        ("version 2", newer),
        ("twice", twice),
        ("role", role),
        ("context", context),
        ("parameters", evaluation),
        ("thorough", thorough),
        ("chapter", chapter),
        ("also an option of every load", load_options),
        ("profile 'doload' twice", profiles),
        ("is not a list", {**document(), "profiles": {}}),
        ("is not a list", {**document(), "load_options": "restart"}),
        ("default of 'extra'", with_option(type="enums", values=["a", "b"], default="a,c")),
        ("reserved", with_option(name="prepare")),
        ("not a map", []),
        ("is not a list", {**document(), "loads": {}}),
        ("measurements 0", {**document(), "measurements": [3]}),
        ("type 'colour'", with_option(type="colour")),
        ("default of 'extra'", with_option(default="many")),
        ("reserved", with_option(name="budget")),
        ("twice", with_option(name="interval", type="text")),
        ("'Extra'", with_option(name="Extra")),
        ("values", with_option(type="enum", values="a b")),
    ]


@pytest.mark.parametrize(("part", "wrong"), broken())
def test_wrong_descriptions_are_refused_in_one_line(part: str, wrong: Any) -> None:
    with pytest.raises(TargetError) as caught:
        Catalogue.from_document(wrong)
    assert part in str(caught.value) or part == "format"
    assert "\n" not in str(caught.value)


@pytest.mark.slow
@given(st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(
        st.sampled_from(["format", "version", "measurements", "loads", "name", "options", "type",
                         "default", "agent", "libc", "profiles", "load_options"]), inner,
        max_size=6),
    max_leaves=20,
))  # fmt: skip
def test_no_description_crashes(wrong: Any) -> None:
    if isinstance(wrong, dict):
        wrong = {**wrong, "format": "rtgauge-catalogue", "version": 1}
    try:
        Catalogue.from_json(json.dumps(wrong))
    except TargetError:
        return
    assert wrong.get("measurements", []) == [] or wrong["measurements"]


def test_deeply_nested_json_is_no_crash() -> None:
    with pytest.raises(TargetError):
        Catalogue.from_json("[" * 100_000)


def test_numbers_of_options() -> None:
    assert Option("a", "flag", "no").number("yes") == 1
    assert Option("a", "enum", "x", values=("x", "y")).number("y") == 1
    assert Option("a", "duration", "1s").number("2us") == 2000


@pytest.mark.parametrize("value", ["NaN", "-Infinity", "1e999", '"\\ud800"', str(2**63)])
def test_what_json_cannot_hold_is_no_description(value: str) -> None:
    """It goes into run.json and out with --json as it came."""
    text = json.dumps(document())[:-1] + f', "extra": {value}}}'
    with pytest.raises(TargetError, match="not JSON"):
        Catalogue.from_json(text)


def test_the_cycle_of_a_load_is_of_durations() -> None:
    wrong = document()
    for option in wrong["load_options"]:
        if option["name"] == "cycle":
            option.update(type="text", default="", min="", max="")
    with pytest.raises(TargetError, match="'cycle' of every load is not a duration"):
        Catalogue.from_document(wrong)


@pytest.mark.parametrize("name", ["json", "store", "log-host", "load", "hold"])
def test_no_option_takes_the_place_of_one_of_the_hosts(name: str) -> None:
    wrong = document()
    wrong["measurements"][0]["options"][0]["name"] = name
    with pytest.raises(TargetError, match="reserved"):
        Catalogue.from_document(wrong)
