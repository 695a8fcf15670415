# SPDX-License-Identifier: Apache-2.0
"""The commands ``module build``, ``load`` and ``unload``: rtgauge.ko on a target.

One script for sh does it there, on this machine or over ssh: the target builds the module against
the headers of its own kernel, and root, or ``sudo -n``, loads it.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
import signal
import subprocess
import tarfile
from collections.abc import Callable, Mapping
from typing import Any, Final

import click

from rtgauge.cli.help import SETTINGS, Group
from rtgauge.cli.options import as_json, target_option
from rtgauge.cli.output import print_json, say
from rtgauge.cli.project import project
from rtgauge.errors import TargetError, UsageError

__all__ = ["module"]

TIMEOUTS_S: Final = {"build": 1800.0, "load": 1800.0, "unload": 60.0}
AS_IT_WAS: Final = 64

# Arguments: what to do, the digest of sources and headers, a folder with headers or nothing.
# Input: the sources as tar. It prints the kernel's release, the folder of the module, and
# "parport CODE" if only the module for parallel ports could not be loaded.
_SCRIPT: Final = """\
release=$(uname -r)
headers=${3:-/lib/modules/$release/build}
[ -n "${XDG_CACHE_HOME-}${HOME-}" ] || exit 71
folder=${XDG_CACHE_HOME:-$HOME/.cache}/rtgauge/module/$release-$2
printf '%s\\n%s\\n' "$release" "$folder"
raise=
[ "$(id -u)" = 0 ] || raise='sudo -n'
loaded() { grep -qs "^$1 " /proc/modules; }
insert() { $raise insmod "$folder/$1.ko" || exit 69; }
build() {
	[ ! -f "$folder/built" ] || return 0
	[ -d "$headers" ] || exit 65
	command -v make >/dev/null && command -v gcc >/dev/null || exit 66
	# in a folder of its own: another build may run, or may have been killed
	mkdir -p "${folder%/*}" && new=$(mktemp -d "$folder.XXXXXX") || exit 67
	# mv puts it into the folder of another build that has just ended
	trap 'rm -rf "$new" "$folder/${new##*/}"' EXIT
	chmod +rx "$new" && tar -xf - -C "$new" || exit 67
	make -C "$headers" M="$new" modules >"$new/build.log" 2>&1 && : >"$new/built"
	[ ! -f "$folder/built" ] || return 0
	rm -rf "$folder" && mv "$new" "$folder" || exit 67
	[ ! -f "$folder/built" ] || return 0
	log=$folder/build.log
	grep -m 1 -E 'error|undefined|ERROR' "$log" >&2 || tail -n 1 "$log" >&2
	exit 68
}
[ "$1" = unload ] || ls /proc/modules >/dev/null 2>&1 || exit 72
case $1 in
build) [ ! -f "$folder/built" ] || exit 64; build ;;
load)
	code=64
	loaded rtgauge || { build; insert rtgauge; code=0; }
	# for the kernel's parallel ports, if it has them
	if ls /sys/bus/parport >/dev/null 2>&1 && ! loaded rtgauge_parport; then
		(build; [ ! -f "$folder/rtgauge_parport.ko" ] || insert rtgauge_parport) ||
			echo "parport $?"
		! loaded rtgauge_parport || code=0
	fi
	exit $code ;;
unload)
	loaded rtgauge || exit 64
	for name in rtgauge_parport rtgauge; do
		! loaded $name || $raise rmmod $name || exit 70
	done ;;
esac
"""

# Exit code of the script → message and remedy.
_FAULTS: Final[Mapping[int, tuple[str, str]]] = {
    65: (
        "{target} has no headers of its kernel, Linux {release}",
        "install the package linux-headers-{release} (Fedora: kernel-devel-{release}) there, or "
        "name their folder with --headers",
    ),
    66: ("make or gcc is missing on {target}", "install make and gcc there"),
    67: (
        "the sources cannot be written to {folder} on {target}: {said}",
        "check space and permissions there",
    ),
    68: (
        "the module cannot be built for Linux {release} on {target}: {said}",
        "the whole output of make is in {folder}/build.log there",
    ),
    69: (
        "the module cannot be loaded on {target}: {said}",
        "loading needs root or 'sudo -n'. With Secure Boot, modules must be signed: sign each "
        ".ko file in {folder}, then load again",
    ),
    71: (
        "there is no folder on {target} to build the module in: HOME is not set",
        "set HOME there, or log in as a user with a home folder",
    ),
    72: (
        "Linux {release} on {target} does not support loadable modules",
        "boot a kernel there that was built with CONFIG_MODULES=y",
    ),
    70: (
        "the module cannot be unloaded on {target}: {said}",
        "end the measurement that uses it. Unloading needs root or 'sudo -n'",
    ),
}
_OTHER_FAULT: Final = (
    "the script failed on {target}: {said}",
    "check that the shell sh works on {target}, and run the command again",
)
_INSMOD: Final = 69
_OTHER_SYMBOLS: Final = ("Unknown symbol", "disagrees about version", "Invalid module format")
"""Why insmod does not load a module next to one of another build."""
_OF_ANOTHER_BUILD: Final = "unload the module, then load it again"
_LOG_OF_THE_KERNEL: Final = "the kernel's log there (dmesg) names the symbol or the version"
_DONE: Final = {
    "build": "{target}: built {folder}/rtgauge.ko",
    "load": "{target}: the module rtgauge is loaded",
    "unload": "{target}: the module rtgauge is unloaded",
}
_AS_IT_WAS: Final = {
    "build": "{target}: {folder}/rtgauge.ko is built already",
    "load": "{target}: the module rtgauge is loaded already",
    "unload": "{target}: the module rtgauge is not loaded",
}


class _Group(Group):
    """A group that gives its commands the project's target."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        found = super().resolve_command(ctx, args)
        ctx.default_map = {args[0]: project().of_commands(on_target=True)}
        return found


@click.group(cls=_Group, context_settings=SETTINGS)
def module() -> None:
    """The kernel module rtgauge.ko, which measures in interrupt handlers and kernel threads.

    The target builds it against the headers of its own kernel. Boards of the lab have it.

    \b
    Examples:
      rtgauge module load
      rtgauge module load --target ssh://root@board
      rtgauge module unload
    """


def _headers_option(function: Callable[..., Any]) -> Callable[..., Any]:
    return click.option(
        "--headers",
        default="",
        metavar="FOLDER",
        help="Folder of the kernel's headers on the target (default: the headers of its kernel).",
    )(function)


@module.command()
@target_option
@_headers_option
@as_json
def build(target: str, headers: str, as_json: bool) -> None:
    """Build the module on the target for its running kernel."""
    _act("build", target, headers, as_json)


@module.command()
@target_option
@_headers_option
@as_json
def load(target: str, headers: str, as_json: bool) -> None:
    """Load the module, after building it if needed."""
    _act("load", target, headers, as_json)


@module.command()
@target_option
@as_json
def unload(target: str, as_json: bool) -> None:
    """Unload the module from the target."""
    _act("unload", target, "", as_json)


def _act(action: str, target: str, headers: str, as_json: bool) -> None:
    """Carry out the script on the target and print what it did. Raises UsageError, TargetError."""
    from rtgauge.lab.modules import module_sources

    sources = module_sources()
    if not sources:
        raise TargetError(
            "the sources of the module are missing from this installation",
            "install rtgauge again, or use a clone",
        )
    parts = b"".join(b"%s\0%s\0" % (name.encode(), sources[name]) for name in sorted(sources))
    digest = hashlib.sha256(parts + headers.encode()).hexdigest()[:12]
    code, out, said = _carry_out(target, [action, digest, headers], _packed(sources))
    release, folder, lacks = [*out.splitlines(), "", "", ""][:3]
    told = {
        "target": target,
        "release": release,
        "folder": folder,
        "said": said or "no reason given",
    }
    if code not in (0, AS_IT_WAS):
        message, remedy = _FAULTS.get(code, _OTHER_FAULT)
        raise TargetError(message.format(**told), remedy.format(**told))
    changed = code == 0
    if as_json:
        names = {name: told[name] for name in ("target", "release", "folder")}
        head = {"format": "rtgauge-module", "version": 1, "command": action}
        print_json({**head, **names, "changed": changed, "parallel_ports": not lacks})
    else:
        say((_DONE if changed else _AS_IT_WAS)[action].format(**told))
        if lacks:
            unlike = any(words in said for words in _OTHER_SYMBOLS)
            symbols = (_LOG_OF_THE_KERNEL if changed else _OF_ANOTHER_BUILD) if unlike else ""
            say(_no_parallel(lacks.removeprefix("parport "), symbols).format(**told))


def _no_parallel(code: str, symbols: str) -> str:
    """The lines for a module for parallel ports that alone could not be loaded. ``symbols``: the
    remedy where it does not match the module rtgauge or the kernel, else empty."""
    number = int(code) if code.isdecimal() else 0
    message, remedy = _FAULTS.get(number, _OTHER_FAULT)
    if number == _INSMOD:
        message, remedy = "{said}", symbols or remedy
    return f"  kernel contexts cannot answer on parallel ports: {message}\n  {remedy}"


def _packed(sources: Mapping[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name, content in sources.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            archive.addfile(entry, io.BytesIO(content))
    return packed.getvalue()


def _carry_out(target: str, arguments: list[str], data: bytes) -> tuple[int, str, str]:
    """Exit code, output, and first message of the script on the target."""
    timeout_s = TIMEOUTS_S[arguments[0]]
    kind, _, detail = target.partition(":")
    if kind == "ssh":
        from rtgauge.target.ssh.connection import Connection, parse

        connection = Connection(parse(detail), target)
        try:
            patience = "unloading …" if arguments[0] == "unload" else "building …"
            answer = connection.ask(
                _SCRIPT, *arguments, data=data, patience=patience, work_s=timeout_s
            )
        finally:
            connection.close()
        return answer.code, answer.out.decode(errors="replace"), answer.said
    if target != "local":
        raise UsageError(
            f"'rtgauge module' does not support target '{target}'",
            "name local or ssh://HOST. Boards of the lab already have the module. A board of your "
            "own has it if it was added with --build",
        )
    with subprocess.Popen(
        ["sh", "-c", _SCRIPT, "rtgauge", *arguments],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0,
    ) as process:  # fmt: skip
        try:
            out, err = process.communicate(data, timeout_s)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # also what the script started
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise TargetError(
                f"'module {arguments[0]}' did not end within {timeout_s:.0f} s",
                "end the measurement that uses the module"
                if arguments[0] == "unload"
                else "repeat it on a less busy machine",
            ) from None
    lines = err.decode(errors="replace").strip().splitlines()
    return process.returncode, out.decode(errors="replace"), lines[0] if lines else ""
