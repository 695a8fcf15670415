# SPDX-License-Identifier: Apache-2.0
"""The machine below the kernel."""

from __future__ import annotations

from rtgauge.audit.case import Case, Finding, finding, unknown
from rtgauge.interpret import hypervisor, steal

__all__ = ["check_virtualisation"]


def _percent(share: float) -> str:
    return "below 0.01 %" if 0 < share < 0.0001 else f"{100 * share:.2f} %"


def check_virtualisation(name: str, case: Case) -> Finding:
    kind = hypervisor(case.facts)
    share = steal(case.facts, case.cpus)
    stolen = "steal time unknown" if share is None else f"steal time {_percent(share)} since boot"
    why = "the host may take the CPU away at any moment; no setting in here can prevent that"
    remedy = (
        "measure on the machine itself; else give each virtual CPU a host CPU of its own"
        " (virsh vcpupin) and a real-time priority there"
    )
    if kind:
        return finding(
            name,
            "error" if share is not None and share >= 0.01 else "warning",
            f"virtual machine ({kind}), {stolen}",
            why,
            remedy,
        )
    if share:
        return finding(name, "warning", f"no hypervisor found, but {stolen}", why, remedy)
    if kind is None:
        return unknown(
            name, "nothing says whether this is a virtual machine", why, "systemd-detect-virt --vm"
        )
    if share is None:
        return unknown(name, "no hypervisor found, but steal time could not be read", why, remedy)
    return finding(
        name, "ok", f"no hypervisor found, {stolen}", "no host takes the CPU away unseen"
    )
