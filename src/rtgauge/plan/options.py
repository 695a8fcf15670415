# SPDX-License-Identifier: Apache-2.0
"""How the values of options that every step has are read: those of the agent's ``run_options``
and those of the host that a step can have."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from rtgauge.catalogue import Catalogue, RunOption
from rtgauge.errors import OptionError
from rtgauge.plan.disturb import normalise_disturb
from rtgauge.units import parse_duration, parse_rate

__all__ = ["Value", "read_option"]

Value: TypeAlias = str | bool
"""The value of an option of the run: a bool for a flag, else a text in its shortest notation."""


def read_option(catalogue: Catalogue, option: RunOption, text: str) -> Any:
    """The value of an option of a step: in ns for the budget, per hour for the rate, a bool for a
    flag, else a text in its shortest notation. Raises OptionError."""
    if option.name == "load":
        return catalogue.normalise_load(text)
    read = _READ.get(option.name, option.normalise)
    try:
        value = read(text)
    except ValueError as error:
        remedy = _REMEDIES.get(option.name, f"{option.name}: {option.help}")
        if option.type == "flag":
            remedy = "write true or false in a plan"
        raise OptionError(option.name, str(error), remedy) from None
    return value == "yes" if option.type == "flag" else value


def _mark(text: str) -> str:
    if not re.fullmatch(r"gpio:[^\s:].*:[^\s:]+", text := text.strip()):
        raise ValueError(f"'{text}' is not a GPIO line")
    return text


def _budget(text: str) -> int:
    budget = parse_duration(text)
    if budget == 0:
        raise ValueError("a budget of 0 is exceeded by everything")
    return budget


def _rate(text: str) -> float:
    rate = parse_rate(text)
    if rate == 0:
        raise ValueError("a rate of 0 cannot be shown by any measurement")
    return rate


def _command(text: str) -> str:
    text = text.strip()
    if not text or "\n" in text or "\0" in text:
        raise ValueError("a command must be one line of text")
    return text


# Options whose values have a notation of their own.
_READ: Final[Mapping[str, Callable[[str], str | int | float]]] = {
    "load-cmd": _command,
    "mark": _mark,
    "disturb": normalise_disturb,
    "budget": _budget,
    "rate": _rate,
    "log-host": str.strip,
    "log-line": str.strip,
    "log-set": str.strip,
}
_REMEDIES: Final = {
    "load-cpu": "name the CPUs of the load as in 0-3,8",
    "load-cmd": "give one line, as for a shell",
    "mark": "give it as gpio:CHIP:LINE, such as gpio:gpiochip0:17",
    "budget": "give the latency allowed, such as 150us",
    "rate": "give how often it may be exceeded, such as 1/h",
}
