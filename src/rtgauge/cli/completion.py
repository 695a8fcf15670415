# SPDX-License-Identifier: Apache-2.0
"""Completion of command lines in bash, zsh and fish, and the command that prints their scripts.

The shell runs ``rtgauge`` with ``_RTGAUGE_COMPLETE`` and gets the words that may follow. Names of
measurements and loads are those of this machine's agent, whatever the target.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
from collections.abc import Callable
from typing import Any, Final

import click
from click.shell_completion import (
    BashComplete,
    CompletionItem,
    ShellComplete,
    add_completion_class,
    get_completion_class,
    shell_complete,
    split_arg_string,
)

from rtgauge.cli.help import VARIABLE, command
from rtgauge.cli.values import known_catalogue
from rtgauge.errors import RtgaugeError

__all__ = ["Words", "complete", "completion", "words_of"]

SHELLS: Final = ("bash", "zsh", "fish")

# Unlike click's own, this gives the line to Python, which splits it: bash splits at ':' and '=',
# which are part of targets and loads.
_BASH: Final = """\
%(complete_func)s() {
    local IFS=$'\\n' response line
    response=$(env COMP_WORDS="${COMP_LINE:0:COMP_POINT}" COMP_BREAKS="$COMP_WORDBREAKS" \\
        %(complete_var)s=bash_complete "$1")
    for line in $response; do
        IFS=',' read -r type value <<< "$line"
        case $type in
        dir) COMPREPLY=(); compopt -o dirnames ;;
        file) COMPREPLY=(); compopt -o default ;;
        plain) COMPREPLY+=("$value") ;;
        esac
    done
    return 0
}

complete -o nosort -F %(complete_func)s %(prog_name)s
"""


class _Bash(BashComplete):
    """Completion in bash, where a word may contain the characters at which bash breaks words."""

    source_template = _BASH
    _broken = ""
    _quoted = False

    def get_completion_args(self) -> tuple[list[str], str]:
        line = os.environ["COMP_WORDS"]
        words = split_arg_string(line)
        self._quoted = _is_open(line)
        blank = re.search(r"(?<!\\)(?:\\\\)*\s$", line)
        ended = blank is not None and not self._quoted
        last = "" if not words or ended else words.pop()
        breaks = set(os.environ.get("COMP_BREAKS", "")) & {":", "="}
        place = max((last.rfind(one) for one in breaks), default=-1)
        self._broken = "" if self._quoted else last[: place + 1]
        return words[1:], last

    def format_completion(self, item: CompletionItem) -> str:
        value = str(item.value).removeprefix(self._broken)
        if not self._quoted:  # bash inserts it as it is
            value = re.sub(r"[^\w@%+=:,./-]", r"\\\g<0>", value)
        return f"{item.type},{value}"


def _is_open(line: str) -> bool:
    """Whether a line ends within quotes."""
    try:
        shlex.split(line)
    except ValueError:
        return True
    return False


add_completion_class(_Bash, "bash")


def complete(cli: click.Command, instruction: str) -> int:
    """Do what the shell asks for. Errors complete nothing: a shell would show them in the line."""
    with contextlib.suppress(RtgaugeError, click.ClickException, OSError):
        return shell_complete(cli, {}, "rtgauge", VARIABLE, instruction)
    return 1


class Words(click.Argument):
    """The words of ``run`` and ``evaluate``. ``inner``: from the words so far, the command that
    will parse them and the words that it gets, and the names that may follow."""

    def __init__(self, inner: Callable[..., tuple[click.Command, list[str], list[str]]]) -> None:
        self._inner = inner
        super().__init__(["words"], nargs=-1, type=click.UNPROCESSED)

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        words = ctx.params.get("words") or ()
        with contextlib.suppress(RtgaugeError):
            made, rest, names = self._inner(ctx, words, known_catalogue())
            found = ShellComplete(made, {}, "rtgauge", "").get_completions(rest, incomplete)
            return found or [CompletionItem(one) for one in names if one.startswith(incomplete)]
        return []


def words_of(inner: Callable[..., tuple[click.Command, list[str], list[str]]]) -> dict[str, Any]:
    """The settings of a command that takes ``Words``. The inner command knows the options."""
    return {
        "add_help_option": False,
        "context_settings": {"ignore_unknown_options": True},
        "params": [Words(inner)],
    }


@command()
@click.argument("shell", type=click.Choice(SHELLS))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that completes rtgauge's command lines in a shell.

    \b
    Examples:
      rtgauge completion bash > ~/.local/share/bash-completion/completions/rtgauge
      rtgauge completion zsh > ~/.zfunc/_rtgauge    # a folder of $fpath
      rtgauge completion fish > ~/.config/fish/completions/rtgauge.fish
    """
    made = get_completion_class(shell)
    assert made is not None
    click.echo(ShellComplete.source(made(ctx.find_root().command, {}, "rtgauge", VARIABLE)))
