# SPDX-License-Identifier: Apache-2.0
"""What the agent collects, what the audit reads and what the pages say are the same names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rtgauge.audit import CHECKS, environment_document
from rtgauge.audit.kconfig import CONFIG_CHECKS
from rtgauge.facts import CPU, Facts
from rtgauge.units import CPU_MAX
from test_audit import SYSTEMS

ROOT = Path(__file__).resolve().parents[2]


def _leaves(tree: str) -> list[str]:
    """The paths of the agent's tree, without their marks."""
    leaves, branches, path = [], [""], ""
    for before, character in zip(" " + tree, tree, strict=False):
        if character == "{":
            branches.append(path)
        elif character in ",}":
            if before != "}":
                leaves.append(path)
            if character == "}":
                branches.pop()
            path = branches[-1]
        else:
            path += character
    return [leaf.partition("|")[0].rstrip("!?>+^") for leaf in leaves]


def _collected() -> list[str]:
    """The names that the agent gives its facts, with # and @ as in its tree."""
    source = (ROOT / "agent" / "system" / "environment.c").read_text("utf-8")
    start = source.index("char tree[] =")
    table = re.sub(r"/\* .*? \*/", "", source[start : source.index('";', start) + 1], flags=re.S)
    names = _leaves("".join(re.findall(r'"([^"]*)"', table)))
    assert len(names) > 90
    names[names.index("/sys/devices/system/cpu/vulnerabilities/*")] = (
        "/sys/devices/system/cpu/vulnerabilities"
    )
    names += re.findall(r'"((?:agent|uname)\.[a-z_.]+)"', source)
    names += [f"agent.rlimit_{word}" for word in ("rtprio", "memlock", "rttime")]
    names += [f"agent.cgroup.{word}" for word in re.findall(r'"(cpu(?:set)?\.[\w.]+)"', source)]
    return [*names, "/proc/self/cgroup", "/boot/config-*"]


def _general(name: str) -> str:
    """The name of a fact as the table has it."""
    name = re.sub(r"(cpu|clockevent)(\{[0-9,-]+\}|\d+)/", r"\1#/", name)
    name = re.sub(r"/state\d/", "/state@/", name)
    name = re.sub(r"/sched_\w+$", "/sched_*", name)
    name = re.sub(r"^/boot/config-.*", "/boot/config-*", name)
    return name.removesuffix(".error")


def test_the_audit_reads_what_the_agent_collects() -> None:
    collected = set(_collected())
    for facts, _, _ in SYSTEMS.values():
        assert {_general(name) for name in facts} <= collected


def test_every_fact_has_its_line_in_the_page() -> None:
    page = (ROOT / "docs" / "formats" / "environment.md").read_text("utf-8")
    for name in _collected():
        if name.startswith("uname") or name in ("agent.rlimit", "/boot/config-*"):
            continue
        # of several files in one line the first has its path, the others only what differs
        last = name.rsplit("/", 1)[1] if "/" in name else name
        assert name in page or f"`{last}`" in page or f"{last}`" in page, name


def test_every_key_has_its_line_in_the_page() -> None:
    page = (ROOT / "docs" / "formats" / "environment.md").read_text("utf-8")
    page = page[page.index("## The environment document") :]
    for key, value in environment_document({}).items():
        assert f"`{key}`" in page
        if isinstance(value, dict):
            for inner in value:
                assert f"`{inner}`" in page, (key, inner)


def test_every_check_has_its_section() -> None:
    page = (ROOT / "docs" / "reference" / "checks.md").read_text("utf-8")
    assert re.findall(r"^## (.*)$", page, re.M)[:-2] == list(CHECKS)
    alone = page[page.index("## A kernel's configuration alone") :]
    for check in CONFIG_CHECKS:
        assert check in alone, check


def test_files_of_more_cpus_than_there_can_be_are_left_out() -> None:
    """A target that names all CPUs in each of a thousand facts does not cause hours of work."""
    names = (f"{CPU}cpu{{{first}-4095}}/x" for first in range(1000))
    facts = Facts(dict.fromkeys(names, "1"))
    assert len(facts._cpu_names(f"{CPU}cpu#/x")) == 2
    assert len(facts.per_cpu(f"{CPU}cpu#/x")) == CPU_MAX


@pytest.mark.study(61)
def test_the_hardware_has_board_memory_caches_and_devices_on_pci() -> None:
    at = "/sys/bus/pci/devices/*/"
    facts = {
        f"{at}vendor": "0000:00:1f.6=0x8086\n0000:00:00.0=0x8086\n0000:01:00.0=0x10ec",
        f"{at}device": "0000:00:1f.6=0x15be\n0000:00:00.0=0x3e34",
        f"{at}class": "0000:00:1f.6=0x020000\n0000:00:00.0=0x060000",
        "/sys/class/dmi/id/board_name": "SOM-6760",
        "/proc/meminfo": "MemTotal:        1024000 kB",
        f"{CPU}smt/active": "0",
        f"{CPU}cpu0/cache/index*/level": "index0=1\nindex1=1\nindex2=2",
        f"{CPU}cpu0/cache/index*/type": "index0=Data\nindex1=Instruction\nindex2=Unified",
        f"{CPU}cpu0/cache/index*/size": "index0=24K\nindex1=32K\nindex2=512K",
    }
    document = environment_document(facts)
    assert document["hardware"]["pci"] == [
        "0000:00:00.0 8086:3e34 bridge", "0000:00:1f.6 8086:15be network",
    ]  # fmt: skip
    assert document["hardware"]["board"] == "SOM-6760"
    assert document["memory"]["total_bytes"] == 1_048_576_000
    assert document["cpu"]["smt"]["active"] is False
    assert document["cpu"]["caches"] == ["L1 Data 24K", "L1 Instruction 32K", "L2 Unified 512K"]
    assert environment_document({})["hardware"]["pci"] == []
    many = {f"{at}{name}": "\n".join(f"{n:04}=0x1" for n in range(999))
            for name in ("vendor", "device")}  # fmt: skip
    assert environment_document(many)["hardware"]["pci"][0] == "0000 1:1 other"
    assert len(environment_document(many)["hardware"]["pci"]) == 64
