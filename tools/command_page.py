"""``docs/commands.md``: every command of the program, read from the Typer app itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import cast

import typer
from typer.core import TyperCommand, TyperGroup

from layton_batch.cli.app import GROUPS, app

PROGRAM = "layton-batch"
_SHARED_BY = 3
"""An option that as many commands describe alike stands once, above them."""
_INTRO = f"""# Commands

Every command, argument and option, as `{PROGRAM} COMMAND --help` prints them.
[Exit codes](troubleshooting.md#exit-codes) and [formats](formats.md) have pages of their own.

RUN is a run's name, its folder or its manifest. In a workspace with one run it may be left out. `-h` is `--help`."""
Record = tuple[str, str]
"""A parameter as ``--help`` prints it: how it is written, and what it means."""


def commands_page() -> str:
    """Return the page: all commands by group, the options that many share, then a section for each command."""
    commands = dict(_commands())
    records = {name: list(_records(name, command)) for name, command in commands.items()}
    counts = Counter(record for rows in records.values() for record in rows)
    shared = {record for record, count in counts.items() if count >= _SHARED_BY}
    groups = [
        f"- {title}: {', '.join(_link(name) for name in commands if name.split()[0] in group)}"
        for title, group in GROUPS.items()
    ]
    parts = [_INTRO, "\n".join(groups), "## Options of several commands", _list(sorted(shared))]
    for name, command in commands.items():
        parts.append(f"## `{PROGRAM} {name}`")
        parts += _paragraphs(command)
        own = [record for record in records[name] if record not in shared]
        if own:
            parts.append(_list(own))
        others = [f"`{left.split()[0]}`" for left, _ in records[name] if (left, _) in shared]
        if others:
            parts.append(f"Also: {', '.join(others)}.")
    return "\n\n".join(parts) + "\n"


def _commands() -> Iterator[tuple[str, TyperCommand]]:
    """Yield each command with its full name, in the order of the help; a hidden one has the name of its group."""
    commands = typer.main.get_group(app)
    for name in (name for group in GROUPS.values() for name in group):
        command = commands.get_command(typer.Context(commands), name)
        if isinstance(command, TyperGroup):
            inner = ((name if item.hidden else f"{name} {word}", item) for word, item in command.commands.items())
            yield from ((full_name, cast("TyperCommand", item)) for full_name, item in inner)
        else:
            yield name, cast("TyperCommand", command)


def _records(name: str, command: TyperCommand) -> Iterator[Record]:
    """Yield the parameters of a command as ``--help`` shows them."""
    context = typer.Context(command, info_name=name, help_option_names=["-h", "--help"])  # a command keeps its option
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is not None and "--help" not in parameter.opts:
            left, right = record
            yield left, " ".join(right.split())


def _link(name: str) -> str:
    return f"[`{name}`](#{PROGRAM}-{name.replace(' ', '-')})"


def _paragraphs(command: TyperCommand) -> list[str]:
    return [_escaped(" ".join(text.split())) for text in (command.help or "").split("\n\n")]


def _list(records: list[Record]) -> str:
    return "\n".join(f"- `{left}`: {_escaped(right)}" for left, right in records)


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;")
