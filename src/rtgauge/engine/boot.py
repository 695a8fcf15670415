# SPDX-License-Identifier: Apache-2.0
"""Boot a target with other arguments for its kernel, and check that it did.

An emulated board does so itself (``Bootable``). For any other a command of the user changes the
arguments and reboots it. It gets the arguments as its own, and none for the present configuration.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from rtgauge.engine.environment import read_facts
from rtgauge.errors import RtgaugeError, TargetError
from rtgauge.facts import Fact, Facts
from rtgauge.plan import kernel_parameter
from rtgauge.target import Target
from rtgauge.target.base import Bootable
from rtgauge.units import read_cpus

__all__ = ["Booter", "check_booted", "command_line", "unknown_arguments"]

COMMAND_S: Final = 300.0
RETRY_S: Final = 2.0
LOST: Final = 255
"""Exit code of ssh if its connection is lost."""
_SHOWN: Final = 200
_SEVERAL: Final = (
    "acpi_osi", "cgroup_disable", "console", "crashkernel", "earlycon", "hugepages", "hugepagesz",
    "initcall_blacklist", "isolcpus", "memmap", "modprobe.blacklist", "nohz_full", "pci", "tsc",
)  # fmt: skip
"""Parameters of which a later value does not replace an earlier one."""
_FIRST: Final = ("isolcpus", "nohz_full")
"""Parameters whose first CPUs count: kernel/sched/isolation.c (since 4.15) refuses others."""


def command_line(facts: dict[str, Fact]) -> list[str]:
    """The arguments that the kernel was started with."""
    return (Facts(facts).text("/proc/cmdline") or "").split()


def unknown_arguments(facts: dict[str, Fact], arguments: Iterable[str]) -> list[str]:
    """Those of the arguments that the kernel reported as unknown."""
    told = (Facts(facts).text("agent.unknown_parameters") or "").split()
    return [one for one in arguments if one in told]


def check_booted(facts: dict[str, Fact], wanted: Sequence[str], others: Sequence[str]) -> None:
    """Raise TargetError unless the kernel has the arguments wanted and none of the others, and no
    later value replaces one."""
    present = command_line(facts)
    last = {kernel_parameter(one): one for one in present}
    for one in wanted:
        if one not in present:
            raise TargetError(
                f"the target booted without '{one}' in /proc/cmdline",
                "check what --boot-cmd does with its arguments",
            )
        name = kernel_parameter(one)
        if (later := last[name]) not in wanted and name not in _SEVERAL:
            raise TargetError(
                f"the target booted with '{one}', but '{later}' follows in /proc/cmdline and "
                "replaces it",
                "let --boot-cmd add its arguments at the end",
            )
        before = present[: present.index(one)]
        if earlier := next((other for other in before if _refuses(other, one)), ""):
            raise TargetError(
                f"the target booted with '{one}', but '{earlier}' precedes it in /proc/cmdline, "
                "and the kernel keeps the CPUs of the first",
                "let --boot-cmd replace that argument",
            )
    for one in others:
        if one in present:
            raise TargetError(
                f"the target booted with '{one}' still in /proc/cmdline",
                "let --boot-cmd replace the arguments that it added before",
            )


def _refuses(first: str, later: str) -> bool:
    """Whether the kernel ignores an argument because of the same one before it, which has other
    CPUs for the same purpose."""
    if kernel_parameter(first) != kernel_parameter(later) or kernel_parameter(later) not in _FIRST:
        return False
    flags, cpus = zip(*map(_flags_and_cpus, (first, later)), strict=True)
    return cpus[0] != cpus[1] and not flags[0].isdisjoint(flags[1])


def _flags_and_cpus(argument: str) -> tuple[frozenset[str], frozenset[int] | frozenset[str]]:
    """The flags before a list of CPUs, ``domain`` without any, and the CPUs, or the parts of a list
    such as ``0-N``."""
    words = argument.partition("=")[2].split(",")
    flags = frozenset(word for word in words if word[:1].isalpha() and word not in ("all", "N"))
    parts = [word for word in words if word not in flags]
    return flags or frozenset({"domain"}), read_cpus(",".join(parts)) or frozenset(parts)


class Booter:
    """Boots one target. ``command``: the user's, or empty for a target that boots by itself."""

    def __init__(
        self,
        target: Target,
        command: str,
        patience_s: float,
        reopen: Callable[[str], Target],
    ) -> None:
        self.target = target
        self._command = command
        self._patience_s = patience_s
        self._reopen = reopen
        self._left: str | None = None  # the boot that the target leaves, if a wait was stopped

    def boot(self, arguments: Sequence[str], stop: Callable[[], bool]) -> None:
        """Boot with these arguments. ``stop``: whether to wait no longer for the target.

        Raises TargetError if the target does not come back.
        """
        if isinstance(self.target, Bootable):
            self.target.boot_with(arguments)
            return
        name = self.target.name
        boot_id = self._boot_id(stop)
        began = time.monotonic()
        lost = self._run(arguments)
        until = time.monotonic() + self._patience_s
        why = "it has not rebooted since --boot-cmd was called"
        while time.monotonic() < until and not stop():
            try:
                self.target = self._reopen(name)
                header, _, _ = read_facts(self.target.environment())
                up_s = header.clock.boottime_ns / 1e9
                if header.boot_id != boot_id if boot_id else up_s < time.monotonic() - began:
                    self._left = None
                    return
                self.target.close()
            except TargetError as error:
                self.target.close()
                why = error.message
            time.sleep(RETRY_S)
        if stop():
            self._left = boot_id
            raise TargetError(
                f"the wait for {name} to return after --boot-cmd was stopped: {why}{lost}",
                "check that the target boots",
            )
        raise TargetError(
            f"{name} did not return within {self._patience_s:.0f} s after --boot-cmd: {why}{lost}",
            "look at its console, check that --boot-cmd reboots it, or allow more time with "
            "--boot-timeout",
        )

    def _boot_id(self, stop: Callable[[], bool]) -> str:
        """The present boot; empty if the target does not answer. The boot whose wait was stopped is
        waited for first, because a command cannot reach the target before."""
        until = time.monotonic() + self._patience_s
        while True:
            boot_id = ""
            try:
                boot_id = read_facts(self.target.environment())[0].boot_id
            except RtgaugeError:  # the boot before this one has failed, or the connection
                pass
            finally:
                self.target.close()
            there = self._left is None or boot_id not in ("", self._left)
            if there or stop() or time.monotonic() > until:
                return boot_id
            time.sleep(RETRY_S)
            with contextlib.suppress(RtgaugeError):  # then asking it fails once more
                self.target = self._reopen(self.target.name)

    def _run(self, arguments: Sequence[str]) -> str:
        """Call the command, which Ctrl-C does not reach. Returns what it says of a lost connection,
        which a reboot over ssh may cause."""
        with subprocess.Popen(
            ["sh", "-c", f'{self._command} "$@"', "boot-cmd", *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env={**os.environ, "RTGAUGE_TARGET": self.target.name},
            start_new_session=True,
        ) as command:
            try:
                out, _ = command.communicate(timeout=COMMAND_S)
            except subprocess.TimeoutExpired:
                os.killpg(command.pid, signal.SIGKILL)
                raise TargetError(
                    f"--boot-cmd did not end within {COMMAND_S:.0f} s",
                    "make the command return as soon as the reboot has begun",
                ) from None
        if not command.returncode:
            return ""
        said = out.decode(errors="replace").strip()[-_SHOWN:]
        text = f"--boot-cmd ended with code {command.returncode}" + (f": {said}" if said else "")
        if command.returncode == LOST:
            return f", and {text}"
        raise TargetError(text, "run the command by hand to see why")
