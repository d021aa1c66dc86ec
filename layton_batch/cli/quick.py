"""A way past Typer for the two commands that are given again and again: its parsing takes longer than they do.

What is written plainly is read here, as Typer reads it; all else (help, an option twice, anything that is wrong) is
left to Typer, which has the words for it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

RUNS, RUNS_VARIABLE = Path("runs"), "LAYTON_BATCH_RUNS"
_FLAGS = {"status": {"--json": "json"}, "events": {"--json": "json", "--follow": "follow", "-f": "follow"}}


@dataclass(frozen=True, slots=True)
class Asked:
    """A command line that was read. ``flags``: those that are set, by their long names without dashes."""

    command: str
    run_name: str | None
    runs: Path
    flags: frozenset[str]


def quick_command(arguments: Sequence[str]) -> Callable[[], int] | None:
    """What carries the command out and returns its exit code; None where that is Typer's business."""
    asked = read(arguments, os.environ.get(RUNS_VARIABLE))  # noqa: TID251  as Typer reads it: not from .env
    return None if asked is None else lambda: _carry_out(asked)


def read(arguments: Sequence[str], runs_variable: str | None) -> Asked | None:
    """The command line, where nothing about it is unusual."""
    command, *rest = arguments or [""]
    flags, names, folders, tokens = set(), [], [], iter(rest)
    for token in tokens:
        if (flag := _FLAGS.get(command, {}).get(token)) is not None:
            flags.add(flag)
        elif (folder := _folder(token, tokens)) is not None:
            folders.append(folder)
        else:
            names.append(token)
    unusual = any(not one or one.startswith("-") for one in (*names, *folders)) or len(names) > 1 or len(folders) > 1
    if unusual or command not in _FLAGS or (command == "events" and not names):
        return None
    runs = Path(folders[0] if folders else runs_variable or RUNS)
    if ":" in str(runs):
        return None  # an address
    return Asked(command, names[0] if names else None, runs, frozenset(flags))


def _folder(token: str, following: Iterator[str]) -> str | None:
    """The value of ``--runs``, empty where there is none; None where this is another token."""
    if token == "--runs":  # noqa: S105  no password
        return next(following, "")
    return token.removeprefix("--runs=") if token.startswith("--runs=") else None


def _carry_out(asked: Asked) -> int:
    from layton_batch.cli.looking import show_events, show_status

    as_json = "json" in asked.flags
    if asked.command == "status":
        return show_status(asked.run_name, asked.runs, as_json=as_json)
    show_events(asked.run_name or "", asked.runs, follow="follow" in asked.flags, as_json=as_json)
    return 0
