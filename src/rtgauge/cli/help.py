# SPDX-License-Identifier: Apache-2.0
"""Help of the commands: options in groups, at most one screen, and the rest with ``--help-all``."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final

import click
from click.shell_completion import CompletionItem
from click.types import StringParamType

from rtgauge.cli.values import labels, runs, targets
from rtgauge.errors import UsageError, nearest

__all__ = [
    "HELP_ALL",
    "LINES",
    "SETTINGS",
    "VARIABLE",
    "Command",
    "Group",
    "TableOption",
    "command",
    "wants_help",
]

HELP_ALL: Final = "--help-all"
SETTINGS: Final[dict[str, Any]] = {
    "help_option_names": ["-h", "--help"],
    "max_content_width": 80,
}
"""The settings of the contexts of all commands."""

VARIABLE: Final = "_RTGAUGE_COMPLETE"
"""The variable in which a shell says that it wants completions."""

LINES: Final = 40
"""Maximum number of lines of a help text without ``--help-all``, at 80 columns."""

_FIRST_COLUMN: Final = 30
# Parameters whose values a shell can complete.
_COMPLETED: Final = {
    "run": runs, "sets": runs, "labels": labels, "target": targets, "log_host": targets,
}  # fmt: skip
# Where a help text may end in the short help, the latest first.
_ENDS: Final = (". ", "; ", ": ", " (", ", such as", ", ", " and ")


def wants_help(words: Sequence[str]) -> bool:
    """Whether these words of a command line ask for its help."""
    return not {"--help", "-h", HELP_ALL}.isdisjoint(words)


class TableOption(click.Option):
    """An option made from a table of options. ``text``: its help; ``brackets``: further notes in
    the order of their value, such as the default, of which the short help shows what fits."""

    def __init__(self, *names: str, text: str, brackets: Sequence[str] = (), **more: Any) -> None:
        self.text = text
        self.brackets = [one for one in brackets if one]
        whole = f" [{'; '.join(reversed(self.brackets))}]" if self.brackets else ""
        super().__init__([name for name in names if name], help=text + whole, **more)


def _brief(option: click.Parameter, record: tuple[str, str], columns: int) -> tuple[str, str]:
    """The help of an option in one line where that is possible."""
    name, whole = record
    if len(whole) <= columns or not isinstance(option, TableOption):
        return record
    notes = [
        f" [{'; '.join(option.brackets[:n][::-1])}]" for n in range(len(option.brackets), 0, -1)
    ]
    texts = [option.text, *(option.text.partition(end)[0] for end in _ENDS)]
    texts = [text for text in texts if text.count("(") == text.count(")")]
    found = [text + note for text in dict.fromkeys(texts) for note in (*notes, "")]
    fitting = [one for one in found if len(one) <= columns]
    return name, fitting[0] if fitting else min(found, key=len)


class Command(click.Command):
    """A command with its options in groups.

    ``groups``: title → names of its options; options that no group names come last. ``rare``: the
    names that only ``--help-all`` shows.
    """

    def __init__(
        self,
        *args: Any,
        groups: Mapping[str, Sequence[str]] | None = None,
        rare: Collection[str] = (),
        **kwargs: Any,
    ) -> None:
        kwargs["context_settings"] = {**SETTINGS, **(kwargs.get("context_settings") or {})}
        super().__init__(*args, **kwargs)
        for param in self.params:
            if type(param.type) is StringParamType and param.name in _COMPLETED:
                param.type = _COMPLETED[param.name]()
        self.groups = dict(groups or {})
        self.rare = frozenset(rare)

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        """Hidden, because a reader of the help knows it."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.hidden = True
        return option

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        words = next((one for one in self.params if one.name == "words"), None)
        if words is not None:  # the options are those of the command that the words lead to
            return words.shell_complete(ctx, incomplete)
        return super().shell_complete(ctx, incomplete)

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        params = super().get_params(ctx)
        if self.add_help_option and not any(HELP_ALL in param.opts for param in params):
            params.append(_help_all())
        return params

    def grouped(self, ctx: click.Context) -> dict[str, list[click.Parameter]]:
        """The options under the titles of their groups."""
        named = {f"--{name}": title for title, names in self.groups.items() for name in names}
        found: dict[str, list[click.Parameter]] = {title: [] for title in self.groups}
        rest: list[click.Parameter] = []
        for param in self.get_params(ctx):
            if not isinstance(param, click.Option) or param.hidden:
                continue
            title = next((named[opt] for opt in param.opts if opt in named), None)
            (rest if title is None else found[title]).append(param)
        for title, names in self.groups.items():
            order = [f"--{name}" for name in names]
            found[title].sort(key=lambda one: min(order.index(o) for o in one.opts if o in order))
        if rest:
            found["Further options" if self.groups else "Options"] = rest
        return found

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        whole = ctx.meta.get(HELP_ALL, False)
        left = 0
        for title, options in self.grouped(ctx).items():
            shown = [o for o in options if whole or not self._is_rare(o)]
            left += len(options) - len(shown)
            records = [(o, r) for o in shown if (r := o.get_help_record(ctx))]
            if not records:
                continue
            if not whole:
                first = min(max(len(record[0]) for _, record in records), _FIRST_COLUMN) + 4
                records = [(o, _brief(o, r, formatter.width - first)) for o, r in records]
            with formatter.section(title):
                formatter.write_dl([record for _, record in records], col_max=_FIRST_COLUMN)
        if left:
            formatter.write_paragraph()
            noun = "option" if left == 1 else "options"
            formatter.write_text(
                f"{left} more {noun}, and all details: {ctx.command_path} {HELP_ALL}"
            )

    def _is_rare(self, option: click.Parameter) -> bool:
        return any(name.removeprefix("--") in self.rare for name in option.opts)


class Group(click.Group):
    """A group that says which of its commands was meant."""

    command_class = Command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands:
            known = nearest(args[0], self.list_commands(ctx))
            raise UsageError(f"unknown command '{self.name} {args[0]}'", known)
        return super().resolve_command(ctx, args)


def _help_all() -> click.Option:
    def show(ctx: click.Context, _param: click.Parameter, wanted: bool) -> None:
        if wanted and not ctx.resilient_parsing:
            ctx.meta[HELP_ALL] = True
            click.echo(ctx.get_help(), color=ctx.color)
            ctx.exit()

    return click.Option(
        [HELP_ALL], is_flag=True, is_eager=True, expose_value=False, hidden=True, callback=show
    )


command: Callable[..., Callable[[Callable[..., Any]], Command]] = functools.partial(
    click.command, cls=Command
)
"""The decorator of a command with such a help."""
