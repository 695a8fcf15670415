# SPDX-License-Identifier: Apache-2.0
"""The commands in remedies, which reports print separately, for people to copy."""

from __future__ import annotations

import re
import shlex
from typing import Final

from rtgauge.errors import NO_MODULE_REMEDY

__all__ = ["checked", "sentence"]

_PREPARE: Final = "; for a run: rtgauge run --prepare does it"
"""What the audit adds to a comment."""

_PROGRAMS: Final = re.compile(
    r"(echo|printf|sysctl|cpupower|systemctl|swapoff|corectl|tuned-adm|powerprofilesctl|"
    r"dmesg|id|for|do echo|done)\b"
)
# Also a board and a bundle bring remedies, and people copy commands: one of these programs, or what
# writes below /sys and /proc, and nothing that starts another program.
_SAFE: Final = re.compile(
    r"(?!.*(?:\.\.|sysrq-trigger|/sys/power/))"
    r"(?:[\w ./@=:,+*'-]|; |\$[a-z]\b|> (?=/sys/|/proc/|\$)|\| (?=tee /sys/|tee /proc/|grep ))+"
)
_OWN: Final = re.compile(
    r"rtgauge(?: (?:check|module|lab|explain)(?: (?!--agent\b)[\w./@:=,+-]+)*)?"
)
# Interactive shells may execute a comment.
_COMMENT: Final = re.compile(r"[\w ./@:=,+*'?-]*")
_INSTALLS: Final = re.compile(r"(?:apt install|pro enable) [a-z][\w-]*")
_OF_THE_AUDIT: Final = (
    r"printf '%s - rtprio 99\n%s - memlock unlimited\n' $USER $USER | sudo tee "
    "/etc/security/limits.d/90-rtgauge.conf",
    "echo 'GRUB_CMDLINE_LINUX_DEFAULT=\"$GRUB_CMDLINE_LINUX_DEFAULT preempt=full\"' "
    ">> /etc/default/grub.d/rtgauge.cfg && update-grub && reboot",
)
"""Remedies for a user without real-time priority, and for a kernel that is not preemptible."""
_LOAD: Final = "rtgauge module load"
_PROSE: Final = re.compile(r": |, |\b(?:or|and)\b")
_ON_TARGET: Final = ("check", "module")
"""The commands of rtgauge that need the target as an option."""


def checked(remedy: str, command: str, target: str) -> tuple[str, str]:
    """A remedy, and the command in it, both for the target. The command is empty if the remedy does
    not contain it, or if it could do harm."""
    command = command or _of_older(remedy)
    if not _is_safe(command) or (command not in remedy and command not in _OF_THE_AUDIT):
        return remedy, ""
    words = command.split()
    if words[0] != "rtgauge" or words[1:2] == [] or words[1] not in _ON_TARGET:
        return remedy, command
    if target in ("", "local"):
        return remedy, command
    if words[1] == "module" and target.startswith("lab:"):
        return NO_MODULE_REMEDY, ""
    there = f"{command} --target {shlex.quote(target)}"
    return (remedy.removesuffix(command) + there if remedy.endswith(command) else remedy), there


def _of_older(remedy: str) -> str:
    """The command of a remedy that was stored before remedies named theirs: the whole remedy, or
    the command at its end that loads the module."""
    if remedy.endswith(f": {_LOAD}"):
        return _LOAD
    return "" if _PROSE.search(remedy.partition(" # ")[0]) else remedy


def _is_safe(command: str) -> bool:
    words, _, comment = command.partition(" # ")
    if command in _OF_THE_AUDIT or _INSTALLS.fullmatch(command):
        return True
    return (
        _SAFE.fullmatch(words) is not None
        and _COMMENT.fullmatch(comment.removesuffix(_PREPARE)) is not None
        and all(_PROGRAMS.match(one) or _OWN.fullmatch(one) for one in words.split("; "))
    )


def sentence(remedy: str, command: str) -> str:
    """A remedy without the command that is printed separately."""
    if not command or remedy == command:
        return "" if command else remedy
    return remedy.removesuffix(f": {command}")
