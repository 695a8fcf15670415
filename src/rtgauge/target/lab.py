# SPDX-License-Identifier: Apache-2.0
"""An emulated board of the lab as the target: ``lab:BOARD``, ``lab:BOARD,OPTION…``.

Path of a sample: the agent writes the stream to a file in the guest's memory. Nothing is copied out
while it measures. When the step has ended, ``LabAgent.read`` returns it in pieces.

One machine is started for each opened target, when its environment is asked for.
"""

from __future__ import annotations

import difflib
import math
import os
import platform
import re
import signal
import subprocess
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Final

from rtgauge.architectures import architecture
from rtgauge.clock import Clock, RealClock
from rtgauge.errors import ExitCode, TargetError, UsageError, nearest
from rtgauge.lab import Image, stored_image
from rtgauge.lab import board as lab_board
from rtgauge.lab import image as lab_image
from rtgauge.lab.boards import MACHINES, Board
from rtgauge.lab.doorbell import DOORBELL, DOORBELL_MODULE, Doorbell
from rtgauge.lab.libraries import LIBRARIES
from rtgauge.lab.lines import BY_DOORBELL, OUTSIDE, Chip, Wire, parse_wires, show_wires
from rtgauge.lab.machine import (
    MODES,
    Answer,
    Limits,
    Machine,
    Mode,
    Output,
    Setup,
    firmware_of,
    found_program,
    terminal_words,
)
from rtgauge.lab.programs import present, programs
from rtgauge.lab.registry import KERNEL_ARGUMENT
from rtgauge.target.base import Pace, say
from rtgauge.target.local import LocalTarget

__all__ = ["LabAgent", "LabTarget"]

AGENT: Final = "/agent"
CPUS_MAX: Final = 8
SEED_MAX: Final = 999_999
MEMORY_MIB: Final = 512
MEMORY_MIN_MIB: Final = 256
MEMORY_MAX_MIB: Final = 16384
DESCRIBE_S: Final = 60.0
# Interval at which the output of a board in plain mode is read.
SHOWN_S: Final = 0.05
# Largest similarity (difflib's ratio) of a kernel argument with the name of an option.
LIKE: Final = 0.8
OPTIONS: Final = ("mode", "cpus", "memory", "lines", "seed", "libc")
# The options of a board for a plan that names other CPUs than 0.
_PLAIN: Final = "mode=plain,cpus={count}"

# A device on PCI that raises its interrupt when a register is written (kmod/source_pci.c).
EDU: Final = ("-device", "edu")
# The device that blocks the processor when it is full (docs/reference/lab.md), and the console.
DEVICES: Final[Mapping[str, tuple[str, ...]]] = MappingProxyType(
    {
        "x86_64": (
            *("-device", "isa-debugcon,iobase=0xe9,chardev=pause"),
            *("-serial", "chardev:console"),
            *EDU,
        ),
        "arm64": (
            *("-serial", "chardev:pause"),
            *("-device", "pci-serial,chardev=console"),
            *EDU,
        ),
    }
)


class _Words:
    """The parts of a target's name after ``lab:``."""

    def __init__(self, detail: str) -> None:
        name, *words = detail.split(",")
        if not name:
            raise UsageError("'lab:' does not name a board", "name one, such as lab:x86_64-rt")
        self.board: Board = lab_board(name)
        given: dict[str, str] = {}
        self.kernel: list[str] = []
        for word in words:
            key, mark, value = word.partition("=")
            meant = difflib.get_close_matches(key, OPTIONS, 1, LIKE)
            if key in OPTIONS and mark:
                given[key] = value
            elif meant:
                raise UsageError(
                    f"'{word}' is not an option of the lab, but is too similar to one to be a "
                    "kernel argument",
                    f"did you mean '{meant[0]}={value or '…'}'?",
                )
            elif KERNEL_ARGUMENT.fullmatch(word):
                self.kernel.append(word)
            else:
                raise UsageError(
                    f"'{word}' is not a kernel argument that an emulated board supports",
                    "write lab:BOARD,name=value,… with options of the lab: " + ", ".join(OPTIONS),
                )
        self.mode = self._mode(given.get("mode"))
        self.cpus = self._number("cpus", given.get("cpus", "1"), 1, CPUS_MAX)
        self.memory_mib = self._number(
            "memory", given.get("memory", f"{MEMORY_MIB}"), MEMORY_MIN_MIB, MEMORY_MAX_MIB
        )
        self.seed = self._number("seed", given["seed"], 1, SEED_MAX) if "seed" in given else None
        self.library = self._library(given.get("libc"))
        lines = given.get("lines")
        self.outside = lines in (OUTSIDE, BY_DOORBELL)
        self.chip: Chip | None = self.board.machine.chip
        if lines == BY_DOORBELL or (self.outside and self.chip is None):
            self.chip = DOORBELL
        self.wires = () if lines is None or self.outside else self._wires(lines)
        if self.outside and self.mode is MODES["counted"]:
            raise UsageError(
                f"lines={lines} needs plain mode: this machine drives the lines in real time",
                "remove mode=counted",
            )
        if self.mode is not None and self.mode.counted and self.cpus > 1:
            raise UsageError(
                "counted mode has one processor, because the order of several is not repeatable",
                "remove 'cpus', or use mode=plain",
            )
        if self.mode is None and (self.cpus > 1 or self.outside):
            self.mode = MODES["plain"]
        if self.seed is not None and self.mode is MODES["plain"]:
            raise UsageError(
                "a seed needs counted mode: in plain mode no two boots are alike",
                "remove 'seed', or the options that need plain mode",
            )

    def _wires(self, value: str) -> tuple[Wire, ...]:
        if self.chip is None:
            some = [name for name, machine in MACHINES.items() if machine.chip is not None]
            raise UsageError(
                f"the emulated board {self.board.name} has no GPIO lines to wire",
                f"use a board of the architecture {' or '.join(some)}, or lines=outside",
            )
        return parse_wires(value, self.chip)

    @staticmethod
    def _mode(value: str | None) -> Mode | None:
        if value is not None and value not in MODES:
            raise UsageError(f"the lab has no mode '{value}'", nearest(value, MODES))
        return None if value is None else MODES[value]

    @staticmethod
    def _library(value: str | None) -> str:
        if value is not None and value not in LIBRARIES:
            raise UsageError(
                f"the lab has no C library '{value}' for its boards", nearest(value, LIBRARIES)
            )
        return value or ""

    @staticmethod
    def _number(key: str, value: str, low: int, high: int) -> int:
        if not re.fullmatch(r"[0-9]{1,6}", value) or not low <= int(value) <= high:
            unit = " MiB" if key == "memory" else ""
            raise UsageError(
                f"emulated boards do not support {key}={value}",
                f"give a whole number from {low} to {high}{unit}",
            )
        return int(value)


class LabTarget:
    """An emulated board."""

    disturb_module: Final = "/modules/rtgauge_disturb.ko"

    def __init__(self, detail: str = "", limits: Limits | None = None) -> None:
        self._words = _Words(detail)
        self.name = f"lab:{detail}"
        self.clock: Clock = RealClock()
        self.board = self._words.board
        self._mode = self._words.mode or MODES["counted"]
        self._seed = self._words.seed or 1
        self._more: tuple[str, ...] = ()
        self._cpus = self._words.cpus
        self._limits = limits
        self._machine: Machine | None = None
        self._measured = False
        self._facts: dict[str, str] = {}

    @property
    def pace(self) -> Pace:
        """The guest's seconds are longer than the host's. A counted step shows nothing before its
        end, and other targets do not change its time."""
        counted = self._mode.counted
        return Pace(scale=self._mode.pace, speaks=not counted, independent=counted)

    @property
    def facts(self) -> Mapping[str, str]:
        """Parts and mode of the board, for the record of the run."""
        return {"mode": self._mode.name, "meaning": self._mode.meaning, **self._facts}

    @property
    def orders(self) -> Sequence[Sequence[str]]:
        """The orders that the board received since it started, in counted mode."""
        return self._machine.orders if self._machine is not None and self._mode.counted else ()

    @property
    def hint(self) -> str:
        """The console of a board that failed, if it was kept."""
        console = self._machine.console if self._machine is not None else ""
        return f"see the board's console: {console}" if console else ""

    def settle(self, highest_cpu: int, others: Sequence[str]) -> None:
        """Choose the mode by what the plan asks for, unless the name of the target states it.

        ``others`` are the boards of the lab in the same study. Raises UsageError if kernels would
        be compared in plain mode, or if the stated mode does not have that CPU.
        """
        plain = _PLAIN.format(count=max(2, highest_cpu + 1))
        if highest_cpu and self._mode.counted:
            if highest_cpu >= CPUS_MAX:
                raise UsageError(
                    f"target '{self.name}' cannot have a CPU {highest_cpu}",
                    f"name CPUs up to {CPUS_MAX - 1}"
                    + (" without mode=counted" if self._words.mode is not None else ""),
                )
            if self._words.mode is not None:
                raise UsageError(
                    f"target '{self.name}' has only CPU 0, because counted mode has one processor",
                    f"use {plain} instead of mode=counted, or remove CPU {highest_cpu}",
                )
            self._use("plain", highest_cpu + 1)
        if others and not self._mode.counted:
            raise UsageError(
                f"boards of the lab are compared, but target '{self.name}' would run in plain "
                "mode, where the latencies of this machine are part of the results",
                "run each board by itself, because lines driven from outside need plain mode"
                if self._words.outside
                else "measure on CPU 0 only, without mode=plain and cpus, or run each board by "
                "itself",
            )

    def _use(self, mode: str, cpus: int) -> None:
        if self._words.seed is not None and not MODES[mode].counted:
            raise UsageError(
                f"target '{self.name}' has only CPU 0, because a seed needs counted mode",
                "remove 'seed', or measure on CPU 0 only",
            )
        self.close()
        self._mode, self._cpus = MODES[mode], cpus

    def begin_repeat(self, repeat: int) -> None:
        """In counted mode, boot again for each repeat of a study, with the seed of the repeat, and
        for each run of a tune. A seed in the target's name holds for all repeats."""
        seed = self._words.seed or repeat + 1
        if self._mode.counted and (self._measured or seed != self._seed):
            self.close()
        self._seed = seed

    @property
    def obstacle(self) -> str:
        """Why configurations of the kernel cannot be tried here; empty if they can."""
        if not self._mode.counted:
            return "in plain mode the load of the host determines latencies"
        return "a seed in its name makes all boots alike" if self._words.seed else ""

    def boot_with(self, arguments: Sequence[str]) -> None:
        """Boot with these arguments for the kernel behind its own, from now on."""
        self.close()
        self._more = tuple(arguments)

    # --- Target ---

    def describe(self) -> str:
        """The catalogue of the agent that runs on the board. The board is started only if its agent
        is of another architecture than this machine."""
        here = self.board.machine.processor == platform.machine() and not self._words.library
        if self._machine is None and here:
            found = self._describe_here()
            if found is not None:
                return found
        return self._ask([AGENT, "describe"]).decode(errors="replace")

    def preview(self) -> str:
        """The catalogue of this machine's own agent, which has the same measurements and options:
        that of the board may not be built yet."""
        return LocalTarget().describe()

    def unbuilt(self) -> str:
        """The programs of the board, if they are not there or not up to date."""
        wanted = architecture(self.board.machine.processor)
        return "" if present(wanted) is not None else f"the programs for {wanted.name}"

    def _describe_here(self) -> str | None:
        agent = programs(self.board.machine, say).agent
        asked = _asked(agent, "describe")
        return asked.stdout if asked is not None and asked.returncode == 0 else None

    def environment(self) -> bytes:
        """Header and environment of the board, which is started first if it does not run."""
        return self._ask([AGENT, "environment"])

    def start(self, arguments: Sequence[str]) -> LabAgent:
        """Start the agent on the board. Raises TargetError if the board has ended."""
        machine = self._started()
        self._measured = True
        machine.begin([AGENT, *arguments, "--output", "-"])
        return LabAgent(machine, counted=self._mode.counted)

    def close(self) -> None:
        """End the machine."""
        if self._machine is not None:
            self._machine.close()
            self._machine = None
            self._measured = False

    # --- more than a target has ---

    @property
    def log_host(self) -> str:
        """The target whose agent is the log host, which drives the lines through QEMU. Empty if no
        lines are driven."""
        return "local" if self._words.outside else ""

    @property
    def answer_line(self) -> str:
        """The lines that the board answers on by default."""
        chip = self._words.chip
        return f"gpio:{chip.label}:1:2" if chip is not None else ""

    def log_line(self, line: str) -> str:
        """The board's lines as the log host names them. Raises UsageError if they do not belong to
        the chip that is driven from outside."""
        chip, own = self._words.chip, self.board.machine.chip
        found = re.fullmatch(r"gpio:([^:]+):([0-9]{1,3}):([0-9]{1,3})", line)
        names = [] if chip is None else [chip.label]
        if own in (None, chip):
            names.append("gpiochip0")  # there is no other
        if found is None or found[1] not in names:
            raise UsageError(
                f"'{line}' is not a pair of lines of target '{self.name}'",
                f"name the output and the input by their numbers: --line {self.answer_line}",
            )
        machine = self._started()
        place = f"{machine.lines}:{machine.chip_path}"
        if chip is DOORBELL:
            place = f"{BY_DOORBELL}:{machine.lines}"
        return f"virtual:{place}:{found[3]}:{found[2]}"

    def execute(self, words: Sequence[str]) -> Output:
        """Run any program of the board to its end."""
        return self._started().execute(words)

    def put(self, path: str, content: bytes) -> None:
        """Put a file there, executable."""
        self._started().put(path, content)

    def shell_words(self) -> list[str]:
        """The command that starts the board with its console on the terminal.

        Raises UsageError for a board with wired lines: they need a host that keeps running.
        """
        if self._words.wires or self._words.outside:
            raise UsageError(
                "the shell of a board does not support lines",
                f"remove 'lines', or measure with them: rtgauge run … --target {self.name}",
            )
        setup = self.setup()
        return terminal_words(replace(setup, program=found_program(setup.program, setup.package)))

    def _ask(self, words: Sequence[str]) -> bytes:
        if self._machine is not None and not self._machine.running:
            self.close()  # the next run starts another machine
        output = self.execute(words)
        if output.code != 0:
            lines = output.stderr.decode(errors="replace").strip().splitlines()
            raise TargetError(
                f"the agent's '{words[-1]}' ended with code {output.code} on {self.name}"
                + (f": {lines[0]}" if lines else ""),
                f"try it there: rtgauge lab shell {self.board.name}",
            )
        return output.stdout

    def setup(self, image: Image | None = None) -> Setup:
        """The parts of the machine. Without an image, that of the board is built if necessary."""
        board = self.board
        # before all that takes long
        program = found_program(board.machine.qemu, board.machine.qemu_package)
        firmware = None
        if self._mode.counted:
            firmware = firmware_of(program, board.machine.firmware)
        image = image or lab_image(board, library=self._words.library, say=say)
        own = board.own.arguments if board.own is not None else ()
        given = (*board.machine.kernel_arguments, *own, *self._words.kernel)
        arguments = ["console=ttyS0", *given, *self._more]
        self._facts = {
            **image.facts,
            "board": board.name,
            "machine": board.machine.machine,
            "processor": board.machine.cpu,
            "processors": str(self._cpus),
            "memory": f"{self._words.memory_mib} MiB",
            **({"seed": str(self._seed)} if self._mode.counted else {}),
            "firmware": firmware.name if firmware is not None else "QEMU's own",
            "kernel arguments": " ".join(arguments),
        }
        chip, wires = self._words.chip, self._words.wires
        if chip is not None and wires:
            self._facts["lines"] = show_wires(wires, chip)
        if self._words.outside:
            self._facts["lines"] = f"{OUTSIDE}, by doorbell" if chip is DOORBELL else OUTSIDE
        return Setup(
            name=board.name,
            program=board.machine.qemu,
            package=board.machine.qemu_package,
            devices=(
                *("-M", board.machine.machine, "-cpu", board.machine.cpu),
                *DEVICES[board.machine.architecture],
                *(("-bios", str(firmware)) if firmware is not None else ()),
            ),
            kernel=image.kernel,
            initramfs=image.initramfs,
            arguments=" ".join(arguments),
            mode=self._mode,
            cpus=self._cpus,
            memory_mib=self._words.memory_mib,
            seed=self._seed,
            chip=chip,
            wires=wires,
            outside=self._words.outside,
            one_thread=board.machine.one_thread,
        )

    def _boot(self, machine: Machine) -> str:
        """Start it. If a user's kernel does not start, the remedy lists what a kernel needs."""
        try:
            return machine.start()
        except TargetError as error:
            if self.board.own is None or not machine.booting:
                raise
            command = f"rtgauge lab config {self.board.machine.architecture}"
            needs = f"'{command}' lists what a kernel needs"
            raise TargetError(
                error.message, ". ".join(filter(None, (error.remedy, needs)))
            ) from None

    def setup_again(self, facts: Mapping[str, str]) -> Setup:
        """The parts of the machine that a run was measured on, from its ``facts``.

        Raises TargetError if one of them is gone or was changed since.
        """
        machine = self.board.machine
        qemu = _version(found_program(machine.qemu, machine.qemu_package))
        if qemu != facts.get("QEMU"):
            raise TargetError(
                f"the run was measured with another QEMU: {facts.get('QEMU')}, not {qemu}",
                "measure again, and explain the new run",
            )
        image = stored_image(facts)
        arguments = facts["kernel arguments"]
        self._seed = int(facts["seed"])
        return replace(
            self.setup(image), kernel=image.kernel, initramfs=image.initramfs, arguments=arguments
        )

    def _started(self) -> Machine:
        if self._machine is None:
            machine = Machine(self.setup(), self._limits)
            self._facts["QEMU"] = _version(machine.setup.program)
            said = self._boot(machine)
            if machine.doorbell is not None:
                self._answer_doorbell(machine, machine.doorbell)
            # the kernel's own id of the boot is the same in every counted one
            self._facts["boot"] = str(uuid.uuid4())
            self._facts.update(
                line.partition("=")[::2] for line in said.splitlines() if "=" in line
            )
            self._machine = machine
        return self._machine

    def _answer_doorbell(self, machine: Machine, doorbell: Doorbell) -> None:
        """Load the module that makes lines of the board's doorbell. Raises TargetError."""
        try:
            done = machine.execute(["/bin/busybox", "insmod", DOORBELL_MODULE])
            if doorbell.heard:
                return
            text = done.stderr.decode(errors="replace").strip()
            why = text or "its module does not find the device"
            raise TargetError(
                f"the emulated board {self.board.name} does not receive its doorbell: {why}",
                "rebuild the image: 'rtgauge lab prune --days 0' removes it, and the next start "
                "makes it",
            )
        except BaseException:
            machine.close(failed=True)
            raise


def _version(program: str) -> str:
    """The line with QEMU's version; empty if QEMU is missing."""
    asked = _asked(program, "--version")
    return "" if asked is None else next(iter(asked.stdout.splitlines()), "")


def _asked(program: str | os.PathLike[str], word: str) -> subprocess.CompletedProcess[str] | None:
    """What a program of this machine answers; None if it cannot be started, or does not end."""
    try:
        return subprocess.run(
            [program, word],
            stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
            timeout=DESCRIBE_S, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired):
        return None


class LabAgent:
    """An agent on an emulated board. In counted mode it takes no commands while it measures:
    stopping it ends the board, and the samples of the step are lost."""

    def __init__(self, machine: Machine, *, counted: bool = True) -> None:
        self._machine = machine
        self._counted = counted
        self._answer: Answer | None = None
        self._piece = b""
        self._offset = 0
        self._stopped = False
        self._error: TargetError | None = None
        self._began_cpu_s = machine.cpu_s()

    def computed_s(self) -> float:
        """Seconds of processor time of the board since the step began."""
        return self._machine.cpu_s() - self._began_cpu_s

    def read(self, timeout: float) -> bytes | None:
        """Bytes of the stream, in counted mode when the step has ended; None if none arrived in
        that time."""
        answer = self._ended(0.0 if self._shown() else min(timeout, self._patience()))
        if answer is None:
            piece, self._piece = self._piece, b""
            if piece:
                self._offset += len(piece)
                return piece
            return b"" if self._stopped or self._error else None
        if answer.error or self._offset >= answer.total or self._error:
            return b""
        if not self._piece:
            try:
                self._piece = self._machine.piece(self._offset)
            except TargetError as error:
                self._error = error
        piece, self._piece = self._piece, b""
        self._offset += len(piece)
        return piece

    def _ended(self, timeout: float) -> Answer | None:
        """The answer that ends the step; None if it has not arrived, or never will."""
        if self._answer is None and not self._stopped and self._error is None:
            try:
                self._answer = self._machine.answer(timeout)
            except TargetError as error:
                self._error = error
            if self._answer is not None and not self._offset:
                self._piece = self._answer.data
        return self._answer

    def _patience(self) -> float:
        return math.inf if self._counted else SHOWN_S

    def _shown(self) -> bool:
        """Take over the output of the board while it measures; whether there is any."""
        over = self._answer is not None or self._stopped or self._error is not None
        if not over and not self._counted and not self._piece:
            self._piece = self._machine.shown()
        return bool(self._piece)

    def stop(self) -> None:
        """Ask for an orderly end. In counted mode, which takes no commands, end the board."""
        if self._counted:
            self.kill()
        elif self._answer is None and self._error is None and not self._stopped:
            self._machine.send(signal.SIGINT)

    def kill(self) -> None:
        """End the board."""
        if self._answer is None and self._error is None:
            self._stopped = True
            self._machine.close(failed=True)

    def wait(self, timeout: float) -> int | None:
        """The agent's exit code; None if it still runs."""
        answer = self._ended(timeout)
        if self._stopped:
            return int(ExitCode.INTERRUPTED)
        if self._error is not None:
            return int(ExitCode.FAILED)
        if answer is None:
            return None
        return answer.code if answer.error == 0 else int(ExitCode.FAILED)

    def messages(self) -> str:
        """Output of the agent on stderr, or the reason for the board's end."""
        if self._stopped:
            lost = "samples" if self._counted else "last samples"
            return f"the emulated board was stopped during the step. Its {lost} are lost"
        if self._error is not None:
            return f"{self._error.message}\n{self._error.remedy}"
        if self._answer is None:
            return ""
        if self._answer.error:
            return f"the agent cannot run on the board: {os.strerror(self._answer.error)}"
        return self._answer.said.decode(errors="replace")

    def close(self) -> None:
        """End a board whose agent still runs."""
        if self._answer is None:
            self.kill()
