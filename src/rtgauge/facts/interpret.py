# SPDX-License-Identifier: Apache-2.0
"""What the facts of a target mean: how far its kernel can be preempted, what it runs on, ….

Each function gives ``None``, ``unknown`` or an empty value where the facts do not tell. Used by the
audit and by the environment document; docs/formats/environment.md has the facts.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Set
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rtgauge.facts import CLOCK, CPU, Fact, Facts, one_line
from rtgauge.units import read_cpus, read_integer

__all__ = [
    "CAP_IPC_LOCK",
    "CAP_SYS_ADMIN",
    "CAP_SYS_NICE",
    "GOVERNOR",
    "Model",
    "Preemption",
    "capable",
    "container",
    "hypervisor",
    "isolated_cpus",
    "online_cpus",
    "preemption",
    "realtime_model",
    "rt_group_sched",
    "steal",
]

Model: TypeAlias = Literal[
    "preempt_rt", "full", "lazy", "voluntary", "none", "cobalt", "evl", "unknown"
]

CAP_IPC_LOCK = 14
CAP_SYS_ADMIN = 21
CAP_SYS_NICE = 23
GOVERNOR = CPU + "cpu#/cpufreq/scaling_governor"
_PID_NAMESPACE = "pid:[4026531836]"  # PROC_PID_INIT_INO: the first one, no container's


def online_cpus(facts: Facts) -> frozenset[int] | None:
    online = facts.cpus(CPU + "online")
    if online:
        return online
    count = facts.integer("agent.cpus_online")
    return frozenset(range(count)) if count is not None and 0 < count <= 4096 else None


@dataclass(frozen=True, slots=True)
class Preemption:
    model: Model
    found: str  # the same in words; what is known where the model is not
    dynamic: bool = False
    preemptible: bool = True  # False: the kernel cannot be preempted, though how is not known


def realtime_model(facts: Mapping[str, Fact]) -> Model:
    """The preemption model of the kernel, or the real-time core that runs with it."""
    return preemption(Facts(facts)).model


def preemption(facts: Facts) -> Preemption:
    if facts.integer("/dev/evl/control") == 1:
        return Preemption("evl", "EVL core under Linux")
    if facts.text("/proc/xenomai/version"):
        return Preemption("cobalt", f"Cobalt core {facts.text('/proc/xenomai/version')}")
    version = facts.version
    if facts.text("/sys/kernel/realtime") == "1" or (
        # the patches before 5.x wrote "PREEMPT RT"
        version is not None and re.search(r"\bPREEMPT[_ ]RT\b", version)
    ):
        return Preemption("preempt_rt", "PREEMPT_RT")
    if version is None:
        return Preemption("unknown", "unknown")
    if re.search(r"\bPREEMPT_DYNAMIC\b", version):
        return _dynamic(facts)
    if re.search(r"\bPREEMPT\b", version):
        return _preempt_built(facts)
    for option, model in _BUILT:
        if facts.config(option) == "y" and model in ("none", "voluntary"):
            return Preemption(model, f"{_NAMES[model]}, built in")
    return Preemption("unknown", "no kernel preemption (none or voluntary)", preemptible=False)


_BUILT: tuple[tuple[str, Model], ...] = (
    ("PREEMPT_NONE", "none"),
    ("PREEMPT_VOLUNTARY", "voluntary"),
    ("PREEMPT_LAZY", "lazy"),
    ("PREEMPT", "full"),
)
_MODES: Mapping[str, Model] = {
    "none": "none",
    "voluntary": "voluntary",
    "full": "full",
    "lazy": "lazy",
}
_NAMES: Mapping[str, str] = {
    "none": "no preemption",
    "voluntary": "voluntary preemption",
    "full": "full preemption",
    "lazy": "lazy preemption",
}


def _preempt_built(facts: Facts) -> Preemption:
    """The kernel says PREEMPT: full, or from 6.13 on perhaps lazy, which it names the same."""
    release = facts.release
    if facts.config("PREEMPT_LAZY") == "y":
        return Preemption("lazy", "lazy preemption, built in")
    if facts.config("PREEMPT") == "y" or (release is not None and release < (6, 13)):
        return Preemption("full", "full preemption, built in")
    return Preemption("unknown", "full or lazy preemption")


def _dynamic(facts: Facts) -> Preemption:
    """The mode of a kernel that can choose: running, else asked for at boot, else built in."""
    # kernel/sched/debug.c, sched_dynamic_show(): the current mode is in parentheses
    match = re.search(r"\((\w+)\)", facts.text("/sys/kernel/debug/sched/preempt") or "")
    if match is not None and match[1] in _MODES:
        model = _MODES[match[1]]
        return Preemption(model, f"{_NAMES[model]}, dynamic", True)
    for value in reversed(facts.parameters("preempt") or []):
        if value in _MODES:  # kernel/sched/core.c, setup_preempt_mode(): others are ignored
            model = _MODES[value]
            return Preemption(model, f"{_NAMES[model]}, dynamic (preempt={value})", True)
    if facts.parameters("preempt") is not None:
        for option, model in _BUILT:
            if facts.config(option) == "y":
                return Preemption(model, f"{_NAMES[model]}, dynamic (the kernel's default)", True)
    return Preemption("unknown", "dynamic preemption, its mode unknown", True)


def rt_group_sched(facts: Facts) -> bool | None:
    """Whether real-time tasks get their time by control group."""
    option = facts.config("RT_GROUP_SCHED")
    if option is None:
        # the file exists with that option alone
        return True if facts.text("agent.cgroup.cpu.rt_runtime_us") is not None else None
    asked = facts.parameter("rt_group_sched")
    if option != "y" or asked == "0":
        return False
    return facts.config("RT_GROUP_SCHED_DEFAULT_DISABLED") != "y" or asked == "1"


def isolated_cpus(facts: Facts) -> frozenset[int] | None:
    isolated = facts.cpus(CPU + "isolated")
    group = facts.cpus("/sys/fs/cgroup/cpuset.cpus.isolated")
    if isolated is None:
        value = facts.cpu_list("isolcpus")
        if value is None:  # nothing asked for, if the command line is known
            isolated = None if facts.parameters("isolcpus") is None else frozenset()
        else:  # flags precede the list: isolcpus=managed_irq,domain,1-3
            words = value.split(",")
            items = [item for item in words if item[:1].isdecimal()]
            # kernel/sched/isolation.c: with other flags alone, the scheduler uses these CPUs
            shared = "domain" not in words and not {"nohz", "managed_irq"}.isdisjoint(words)
            isolated = frozenset() if shared else read_cpus(",".join(items))
    if isolated is None:
        return group
    return isolated | (group or frozenset())


_VENDORS = (
    ("qemu", "QEMU"),
    ("vmware", "VMware"),
    ("innotek", "VirtualBox"),
    ("virtualbox", "VirtualBox"),
    ("parallels", "Parallels"),
    ("bhyve", "bhyve"),
    ("bochs", "Bochs"),
    ("openstack", "OpenStack"),
    ("xen", "Xen"),
    ("kvm", "KVM"),
    ("google compute engine", "Google Compute Engine"),
    ("amazon ec2", "Amazon EC2"),
    ("microsoft corporation virtual machine", "Hyper-V"),
    ("apple virtualization", "Apple Virtualization"),
)


def hypervisor(facts: Facts) -> str | None:
    """Name of the hypervisor. Empty on a physical machine, None if not known."""
    kind = facts.text("/sys/hypervisor/type")
    if kind:
        return one_line(kind, 40)
    tree = facts.text("/proc/device-tree/hypervisor/compatible")
    if tree:
        return one_line(tree.splitlines()[0], 40)
    processor = facts.lines("/proc/cpuinfo")
    flags = processor.get("flags")
    vendor = " ".join(
        facts.text(f"/sys/class/dmi/id/{part}") or "" for part in ("sys_vendor", "product_name")
    ).lower()
    name = next((name for word, name in _VENDORS if word in vendor), "")
    clocks = (facts.text(CLOCK + "available_clocksource") or "").split()
    if not name:
        name = next(
            (
                label
                for clock, label in (
                    ("kvm-clock", "KVM"),
                    ("xen", "Xen"),
                    ("hyperv_clocksource_tsc_page", "Hyper-V"),
                    ("hyperv_clocksource_msr", "Hyper-V"),
                    ("vmware-clock", "VMware"),
                )
                if clock in clocks
            ),
            "",
        )
    if flags is not None and facts.is_x86:
        # The processor says so itself, or does not: cloud vendors have bare machines too.
        return (name or "unnamed") if "hypervisor" in flags.split() else ""
    if name:
        return name
    compatible = facts.text("/proc/device-tree/compatible")
    if "linux,dummy-virt" in (compatible or ""):
        return "QEMU"
    if re.match(r"armv[456]", facts.machine):
        return ""  # these cannot have one
    return "" if compatible or facts.text("/proc/device-tree/model") or vendor.strip() else None


def steal(facts: Facts, cpus: Set[int]) -> float | None:
    """Share of the time since boot that the hypervisor took from ``cpus`` (empty: all)."""
    total = stolen = 0
    for line in (facts.text("/proc/stat") or "").splitlines():
        words = line.split()
        match = re.fullmatch(r"cpu(\d{1,4})", words[0]) if words else None
        if match is None or (cpus and int(match[1]) not in cpus):
            continue
        # proc(5): user nice system idle iowait irq softirq steal (guest is part of user)
        ticks = [read_integer(word) for word in words[1:9]]
        if len(ticks) < 8:
            continue
        counts = [tick for tick in ticks if tick is not None and tick >= 0]
        if len(counts) == 8:
            total += sum(counts)
            stolen += counts[7]
    return stolen / total if total else None


def container(facts: Facts) -> str | None:
    """Kind of container; empty outside of one, None if not known."""
    namespace = facts.text("/proc/self/ns/pid")
    name = facts.text("/run/systemd/container") or ""
    if not name and facts.integer("/run/.containerenv") == 1:
        name = "podman"
    if not name and facts.integer("/.dockerenv") == 1:
        name = "docker"
    group = facts.text("/proc/1/cgroup") or ""
    for word in ("kubepods", "docker", "lxc", "containerd"):
        if not name and word in group:
            name = word
    if namespace == _PID_NAMESPACE:
        # in the first namespace: no container, or one that sees everything
        return ""
    if namespace is not None:
        return one_line(name, 40) or "unnamed"
    return one_line(name, 40) or None


def capable(facts: Facts, number: int) -> bool | None:
    text = facts.lines("/proc/self/status").get("CapEff", "")
    if not re.fullmatch(r"[0-9a-fA-F]{1,16}", text):
        return None
    return bool(int(text, 16) >> number & 1)
