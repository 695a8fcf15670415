# SPDX-License-Identifier: Apache-2.0
"""Boards by their names: the lab's own, and those that a user added, a TOML file for each.

The files are in ``$XDG_CONFIG_HOME/rtgauge/boards``. They name other files, which are read again at
each use of the board (``own.py``).
"""

from __future__ import annotations

import json
import os
import re
import tomllib
from pathlib import Path
from typing import Any, Final

from rtgauge.errors import RtgaugeError, TargetError, UsageError, nearest
from rtgauge.home import home
from rtgauge.lab.boards import BOARDS, MACHINES, SERIES, Board, Own

__all__ = ["KERNEL_ARGUMENT", "add", "board", "boards", "check_name", "own_names", "remove"]

#: What a kernel argument may look like: it is one word of a target's name.
KERNEL_ARGUMENT: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:=/@+-]*")
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}")
_FILE_MAX: Final = 64 * 1024
_KEYS: Final = ("machine", "kernel", "build", "overlay", "modules", "arguments")


def _short(name: str) -> str:
    return name.rpartition("-")[0]


def boards() -> list[str]:
    """Every name that ``board`` knows: short ones, each followed by its long ones, then those that
    the user added."""
    return [*_lab_names(), *own_names()]


def _lab_names() -> list[str]:
    names: list[str] = []
    for name in BOARDS:
        if _short(name) not in names:
            names.append(_short(name))
        names.append(name)
    return names


def board(name: str) -> Board:
    """The board of that name; without a kernel series, the one with the newest.

    Raises UsageError for an unknown name, TargetError for a damaged file of a user's board.
    """
    found = BOARDS.get(name) or BOARDS.get(f"{name}-{SERIES[-1]}")
    if found is not None:
        return found
    if name in own_names():
        return _read(name)
    raise UsageError(f"the lab has no board '{name}'", nearest(name, boards()))


def _folder() -> Path:
    base = os.environ.get("XDG_CONFIG_HOME", "")
    # The specification has relative ones ignored.
    above = Path(base) if base.startswith("/") else home() / ".config"
    return above / "rtgauge" / "boards"


def own_names() -> list[str]:
    """The names of the boards that the user added."""
    return sorted(path.stem for path in _folder().glob("*.toml") if _NAME.fullmatch(path.stem))


def _path(name: str) -> Path:
    return _folder() / f"{name}.toml"


def _read(name: str) -> Board:
    path = _path(name)
    try:
        with path.open("rb") as file:
            document = tomllib.loads(file.read(_FILE_MAX).decode())
        unknown = [key for key in document if key not in _KEYS]
        if unknown:
            raise ValueError(f"unknown key '{unknown[0]}'")
        return Board(name, MACHINES[_text(document, "machine")], "", False, _own(document))
    except (OSError, ValueError, KeyError, RecursionError) as error:
        reason = f"unknown machine {error}" if isinstance(error, KeyError) else str(error)
        raise TargetError(
            f"the description of board {name} cannot be used: {path}: {reason}",
            f"correct it, or remove the board: rtgauge lab remove {name}",
        ) from None


def _own(document: dict[str, Any]) -> Own:
    paths = {key: _text(document, key) for key in ("kernel", "build", "overlay")}
    modules, arguments = _texts(document, "modules"), _texts(document, "arguments")
    if not all(text.startswith("/") for text in (*paths.values(), *modules) if text):
        raise ValueError("a path is not absolute")
    if not paths["kernel"]:
        raise ValueError("it names no kernel")
    if not all(KERNEL_ARGUMENT.fullmatch(word) for word in arguments):
        raise ValueError("a kernel argument is not one word")
    return Own(
        Path(paths["kernel"]),
        Path(paths["build"]) if paths["build"] else None,
        Path(paths["overlay"]) if paths["overlay"] else None,
        tuple(map(Path, modules)),
        tuple(arguments),
    )


def _text(document: dict[str, Any], key: str) -> str:
    value = document.get(key, "")
    if not isinstance(value, str):
        raise ValueError(f"{key} is not a string")
    return value


def _texts(document: dict[str, Any], key: str) -> list[str]:
    value = document.get(key, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise ValueError(f"{key} is not a list of strings")
    return value


def check_name(name: str) -> None:
    """Raise UsageError if a new board cannot have this name."""
    if not _NAME.fullmatch(name):
        raise UsageError(
            f"a board cannot be named '{name}'",
            "use letters, digits, '_', '.' and '-', with a letter or digit first",
        )
    if name in _lab_names():
        raise UsageError(f"'{name}' is one of the lab's own boards", "choose another name")
    if name in own_names():
        raise _taken(name)


def _taken(name: str) -> UsageError:
    return UsageError(
        f"the lab has a board '{name}' already",
        f"choose another name, or remove that one first: rtgauge lab remove {name}",
    )


def add(made: Board) -> None:
    """Keep the description of a user's board. Raises UsageError for its name, RtgaugeError if it
    cannot be written."""
    check_name(made.name)
    assert made.own is not None
    entries = {
        "machine": made.machine.architecture,
        "kernel": str(made.own.kernel),
        "build": str(made.own.build or ""),
        "overlay": str(made.own.overlay or ""),
        "modules": [str(path) for path in made.own.modules],
        "arguments": list(made.own.arguments),
    }
    # a JSON text or list of texts is one of TOML, but for DEL
    lines = [f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entries.items()]
    path = _path(made.name)
    making = path.with_name(f".{made.name}.{os.getpid()}")
    try:
        content = ("\n".join(lines) + "\n").replace("\x7f", "\\u007f").encode()
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            making.write_bytes(content)
            os.link(making, path)  # unlike rename, this fails if another process added one
        except FileExistsError:
            raise _taken(made.name) from None
        finally:
            making.unlink(missing_ok=True)
    except UnicodeEncodeError:
        raise UsageError(
            "a path is not valid UTF-8", "rename the file or folder, or name a link to it"
        ) from None
    except OSError as error:
        raise RtgaugeError(
            f"the description of the board cannot be written: {path}: {error.strerror}",
            "correct that, or name another folder in the environment variable XDG_CONFIG_HOME",
        ) from None


def remove(name: str) -> None:
    """Remove a user's board, but not its files. Raises UsageError for an unknown name."""
    if name not in own_names():
        if name in boards():
            raise UsageError(
                f"'{name}' is one of the lab's own boards, which cannot be removed",
                "'rtgauge lab prune' removes unused kernels and images",
            )
        raise UsageError(f"you have no board '{name}'", nearest(name, own_names()))
    try:
        _path(name).unlink()
    except OSError as error:
        raise RtgaugeError(
            f"{_path(name)} cannot be removed: {error.strerror}",
            "correct the permissions of its folder",
        ) from None
