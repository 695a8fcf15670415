# SPDX-License-Identifier: Apache-2.0
"""The checks of a real-time core: on a running system, and of a kernel's configuration."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rtgauge.audit import CHECKS, Finding, audit
from rtgauge.audit.core_config import CORE_CONFIG_CHECKS
from rtgauge.audit.cores import CORE_CHECKS
from rtgauge.audit.kconfig import CONFIG_CHECKS, ConfigAudit, audit_config
from rtgauge.facts import Fact
from test_audit import RT_PC
from test_audit_config import RT, parse

ROOT = Path(__file__).resolve().parents[2]

DOVETAIL = """# Linux/x86 6.6.0-rc4 Kernel Configuration
CONFIG_SMP=y
CONFIG_X86_64=y
CONFIG_HIGH_RES_TIMERS=y
CONFIG_HZ_PERIODIC=y
CONFIG_PREEMPT_NONE=y
CONFIG_HZ=250
CONFIG_DOVETAIL=y
CONFIG_XENOMAI=y
CONFIG_XENO_VERSION_STRING="3.3.1"
# CONFIG_XENO_OPT_DEBUG is not set
CONFIG_XENO_OPT_STATS=y
CONFIG_XENO_DRIVERS_TIMERBENCH=y
CONFIG_XENO_DRIVERS_SWITCHTEST=m
# CONFIG_CPU_FREQ is not set
# CONFIG_MIGRATION is not set
"""
I_PIPE = """# Linux/arm 3.4.6 Kernel Configuration
CONFIG_IPIPE=y
CONFIG_XENOMAI=y
CONFIG_CPU_ARM926T=y
CONFIG_ARM_FCSE=y
CONFIG_ARM_FCSE_GUARANTEED=y
CONFIG_HZ=100
CONFIG_XENO_OPT_STATS=y
CONFIG_XENO_DRIVERS_TIMERBENCH=m
CONFIG_XENO_DRIVERS_SWITCHTEST=m
"""
EVL = DOVETAIL.replace("CONFIG_XENOMAI=y", "CONFIG_EVL=y").replace("XENO_", "NO_")
FAULTS = """TRAP         CPU0        CPU1
  0:            0           0    (Divide error)
 14:            0           0    (Page fault)
 19:            0           0    (SIMD error)"""
CLOCK = """gravity: irq=0 kernel=0 user=0
 devices: timer=lapic, clock=<Linux clocksource>
watchdog: off
  ticks: 291032079386721 (108b1 2fb5c861)"""
PARAMETERS = "/sys/module/xenomai/parameters/"

#: A board with Cobalt as it should be: what it showed when it was recorded, but gravity 0 and SMIs.
COBALT: dict[str, Fact] = {
    **{name: fact for name, fact in RT_PC.items() if "config" not in name},
    "/boot/config-6.6.0-rc4": DOVETAIL,
    "/proc/xenomai/version": "3.3.1",
    "/proc/xenomai/faults": FAULTS,
    "/proc/xenomai/clock/coreclk": CLOCK,
    f"{PARAMETERS}state": "enabled",
    f"{PARAMETERS}smi": "enabled",
    f"{PARAMETERS}allowed_group": "-1",
    "/sys/bus/pci/devices/*/vendor": "0000:00:00.0=0x8086\n0000:00:1f.0=0x8086",
    "agent.uid": 0,
}


def of_core(findings: list[Finding]) -> dict[str, Finding]:
    return {one.check: one for one in findings if one.check.startswith("core")}


def found(changes: dict[str, Fact]) -> dict[str, Finding]:
    facts = {**COBALT, **changes}
    return of_core(audit({name: fact for name, fact in facts.items() if fact != ""}))


def test_a_core_as_it_should_be() -> None:
    findings = found({})
    assert {name: one.level for name, one in findings.items()} == dict.fromkeys(
        [*CORE_CHECKS, *list(CORE_CONFIG_CHECKS)[1:]], "ok"
    )
    assert findings["core"].found == "Cobalt 3.3.1"


def test_kernels_without_a_core_have_none_of_these_findings() -> None:
    assert not of_core(audit(RT_PC))
    assert [one.check for one in audit(RT_PC)] == list(CHECKS)
    assert not of_core(audit({}))


@pytest.mark.parametrize(
    ("check", "level", "changes", "words", "command"),
    [
        ("core", "warning", {f"{PARAMETERS}state": "stopped"}, "stopped", "corectl --start"),
        ("core", "error", {"/proc/xenomai/version": ""}, "is not running", "dmesg | grep"),
        ("core", "error", {"/proc/xenomai/version": "", "/proc/cmdline": "xenomai.state=disabled"},
         "is not running", ""),
        ("core-group", "warning", {"agent.uid": 1000}, "only root",
         f"echo GID > {PARAMETERS}allowed_group"),
        ("core-group", "note", {"agent.uid": 1000, f"{PARAMETERS}allowed_group": "1234"},
         "group 1234", ""),
        ("core-group", "note", {"agent.uid": 1000, f"{PARAMETERS}allowed_group": ""},
         "unknown", "echo GID"),
        ("core-gravity", "note",
         {"/proc/xenomai/clock/coreclk": CLOCK.replace("user=0", "user=2000")}, "user 2 us",
         "echo '0i 0k 0u' > /proc/xenomai/clock/coreclk"),
        ("core-gravity", "note", {"/proc/xenomai/clock/coreclk": ""}, "unknown", "echo '0i"),
        ("core-gravity", "note", {"/proc/xenomai/clock/coreclk": "broken"}, "unknown", "echo '0i"),
        ("core-faults", "warning",
         {"/proc/xenomai/faults": FAULTS.replace(" 14:            0           0", " 14: 3 4")},
         "7 page fault", ""),
        ("core-faults", "note", {"/proc/xenomai/faults": ""}, "unknown", ""),
        ("core-faults", "note", {"/proc/xenomai/faults": "TRAP CPU0"}, "unknown", ""),
        ("core-smi", "note", {f"{PARAMETERS}smi": "detect"}, "workaround off (detect)", ""),
        ("core-smi", "note", {f"{PARAMETERS}smi": ""}, "unknown", ""),
        ("core-smi", "ok", {f"{PARAMETERS}smi": "detect",
                            "/sys/bus/pci/devices/*/vendor": "0000:00:1f.0=0x1022"}, "", ""),
        ("core-smi", "ok", {f"{PARAMETERS}smi": "", "uname.machine": "armv7l"}, "none", ""),
        ("core-debugging", "warning",
         {"/boot/config-6.6.0-rc4": DOVETAIL + "CONFIG_XENO_OPT_DEBUG_LOCKING=y\n"},
         "XENO_OPT_DEBUG_LOCKING", ""),
        ("core-debugging", "note", {"/boot/config-6.6.0-rc4": ""}, "unknown",
         "rtgauge check --config FILE"),
    ],
)  # fmt: skip
def test_each_check_of_a_running_core(
    check: str, level: str, changes: dict[str, Fact], words: str, command: str
) -> None:
    one = found(changes)[check]
    assert one.level == level
    assert words in one.found.replace("\u202f", " ")
    assert bool(one.remedy) == (level != "ok")
    given = one.command
    assert given.startswith(command) if command else not given or given.startswith("id")


def test_evl_and_a_pipeline_alone() -> None:
    evl = {**RT_PC, "/dev/evl/control": 1}
    names = list(of_core(audit(evl)))
    assert names[0] == "core"
    assert not {"core-group", "core-gravity", "core-faults", "core-smi"} & set(names)
    alone = {name: fact for name, fact in COBALT.items() if "xenomai" not in name}
    alone["/boot/config-6.6.0-rc4"] = DOVETAIL.replace("CONFIG_XENOMAI=y", "")
    findings = of_core(audit(alone))
    assert (findings["core"].level, findings["core"].found) == (
        "warning",
        "Dovetail without a core",
    )
    assert (findings["core-debugging"].level, findings["core-debugging"].found) == ("ok", "no core")


# --- configurations ------------------------------------------------------------------------------


def checked(tmp_path: Path, text: str) -> ConfigAudit:
    return audit_config(parse(tmp_path, text))


@pytest.mark.study(30, lacks="a test that builds the kernel: it was built and booted by hand")
@pytest.mark.parametrize(
    ("text", "core"),
    [
        (DOVETAIL, "Xenomai 3.3.1 on Dovetail"),
        (I_PIPE, "Xenomai on I-pipe"),
        (EVL, "EVL on Dovetail"),
    ],
)
def test_configurations_as_a_core_wants_them(tmp_path: Path, text: str, core: str) -> None:
    findings = of_core(checked(tmp_path, text).findings)
    assert {name: one.level for name, one in findings.items()} == dict.fromkeys(
        CORE_CONFIG_CHECKS, "ok"
    )
    assert findings["core"].found == core
    cobalt = "Xenomai" in core
    for name in ("core-drivers", "core-counters"):  # what was not looked for is not present
        assert findings[name].found == ("present" if cobalt else "no Cobalt core")


def test_configurations_without_a_core_have_none_of_these(tmp_path: Path) -> None:
    audited = checked(tmp_path, RT)
    assert [one.check for one in audited.findings] == list(CONFIG_CHECKS)


@pytest.mark.study(130, lacks="the boards and their I-pipe kernels")
@pytest.mark.study(131, lacks="the board, and options for which a kernel has to be built")
@pytest.mark.parametrize(
    ("check", "level", "base", "line", "wanted"),
    [
        ("core", "warning", DOVETAIL, "# CONFIG_XENOMAI is not set", ""),
        ("core-debugging", "warning", DOVETAIL, "CONFIG_XENO_OPT_DEBUG_MEMORY=y",
         "# CONFIG_XENO_OPT_DEBUG_MEMORY is not set"),
        ("core-debugging", "warning", DOVETAIL, "CONFIG_DEBUG_DOVETAIL=y",
         "# CONFIG_DEBUG_DOVETAIL is not set"),
        ("core-debugging", "warning", I_PIPE, "CONFIG_IPIPE_TRACE=y",
         "# CONFIG_IPIPE_TRACE is not set"),
        ("core-debugging", "warning", I_PIPE, "CONFIG_KGDB=y", "# CONFIG_KGDB is not set"),
        ("core-debugging", "note", DOVETAIL, "CONFIG_XENO_OPT_DEBUG_COBALT=y",
         "#? CONFIG_XENO_OPT_DEBUG_COBALT is not set"),
        ("core-debugging", "ok", DOVETAIL, "CONFIG_KGDB=y", ""),
        ("core-debugging", "warning", EVL, "CONFIG_EVL_DEBUG_CORE=y",
         "# CONFIG_EVL_DEBUG_CORE is not set"),
        ("core-power", "warning", DOVETAIL, "CONFIG_CPU_IDLE=y", "# CONFIG_CPU_IDLE is not set"),
        ("core-power", "warning", DOVETAIL, "CONFIG_INTEL_IDLE=y",
         "# CONFIG_INTEL_IDLE is not set"),
        ("core-power", "warning", I_PIPE, "CONFIG_APM=y", "# CONFIG_APM is not set"),
        ("core-power", "warning", DOVETAIL, "CONFIG_CPU_FREQ=y", "# CONFIG_CPU_FREQ is not set"),
        ("core-power", "ok", DOVETAIL,
         "CONFIG_CPU_FREQ=y\nCONFIG_CPU_FREQ_DEFAULT_GOV_PERFORMANCE=y", ""),
        ("core-memory", "warning", DOVETAIL, "CONFIG_MIGRATION=y",
         "# CONFIG_MIGRATION is not set"),
        ("core-memory", "warning", DOVETAIL, "CONFIG_COMPACTION=y",
         "# CONFIG_COMPACTION is not set"),
        ("core-memory", "warning", DOVETAIL, "CONFIG_KSM=y", "# CONFIG_KSM is not set"),
        ("core-linux", "note", DOVETAIL, "CONFIG_PREEMPT=y", "#? CONFIG_PREEMPT is not set"),
        ("core-linux", "note", DOVETAIL, "CONFIG_NO_HZ_IDLE=y", "#? CONFIG_HZ_PERIODIC=y"),
        ("core-linux", "note", I_PIPE, "CONFIG_NO_HZ=y", "#? CONFIG_NO_HZ is not set"),
        ("core-linux", "note", I_PIPE, "CONFIG_HIGH_RES_TIMERS=y",
         "#? CONFIG_HIGH_RES_TIMERS is not set"),
        ("core-linux", "warning", I_PIPE, "CONFIG_CONTEXT_TRACKING_FORCE=y",
         "# CONFIG_CONTEXT_TRACKING_FORCE is not set"),
        ("core-switch", "warning", I_PIPE, "# CONFIG_ARM_FCSE_GUARANTEED is not set",
         "CONFIG_ARM_FCSE_GUARANTEED=y"),
        ("core-drivers", "note", DOVETAIL, "# CONFIG_XENO_DRIVERS_TIMERBENCH is not set",
         "#? CONFIG_XENO_DRIVERS_TIMERBENCH=m"),
        ("core-counters", "warning", DOVETAIL, "# CONFIG_XENO_OPT_STATS is not set",
         "CONFIG_XENO_OPT_STATS=y"),
    ],
)  # fmt: skip
def test_each_check_of_a_configuration(
    tmp_path: Path, check: str, level: str, base: str, line: str, wanted: str
) -> None:
    option = re.search(r"CONFIG_\w+", line)
    assert option is not None
    text = re.sub(rf"^(# )?{option[0]}[= ].*\n", "", base, flags=re.M) + line + "\n"
    audited = checked(tmp_path, text)
    findings = of_core(audited.findings)
    assert {name: one.level for name, one in findings.items()} == dict.fromkeys(
        CORE_CONFIG_CHECKS, "ok"
    ) | {check: level}
    assert bool(findings[check].remedy) == (level != "ok")
    if wanted:
        assert wanted in audited.fragment.splitlines()


def test_every_check_has_its_line_in_the_page() -> None:
    page = (ROOT / "docs" / "reference" / "checks.md").read_text("utf-8")
    part = page[page.index("## Real-time cores") : page.index("## A kernel's configuration alone")]
    assert re.findall(r"^\| `(core[\w-]*)` \|", part, re.M) == list(
        dict.fromkeys([*CORE_CHECKS, *CORE_CONFIG_CHECKS])
    )
