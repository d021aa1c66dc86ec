"""The commands, for Typer."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import typer
from typer.core import TyperGroup

from layton_batch.cli import (
    check_command,
    export_command,
    grade_commands,
    import_command,
    inspect_commands,
    label_commands,
    run_commands,
    sandbox_commands,
    starting,
    statistics_commands,
    verify_command,
)
from layton_batch.settings import Settings

PROGRAM = "layton-batch"
GROUPS: Mapping[str, tuple[str, ...]] = {
    "Start": ("demo", "init", "check"),
    "Run": ("plan", "run", "overnight", "judge", "cancel", "retry", "resolve"),
    "Look": ("status", "leaderboard", "compare", "judges", "cost"),
    "Label": ("label",),
    "Publish": ("site", "verify"),
    "Files": ("grade", "import", "export", "sandbox"),
}
"""Groups of commands in ``--help``."""


class _GroupedCommands(TyperGroup):
    """The commands, listed by group."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, names in GROUPS.items():
            commands = {name: self.commands[name] for name in names}
            with formatter.section(title):
                formatter.write_dl([(name, command.get_short_help_str(100)) for name, command in commands.items()])


app = typer.Typer(
    name=PROGRAM,
    cls=_GroupedCommands,
    help="Evaluate language and vision models through paid batch APIs: a manifest in, a leaderboard and a bill out.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for commands in (
    run_commands,
    inspect_commands,
    grade_commands,
    sandbox_commands,
    statistics_commands,
    import_command,
    export_command,
    label_commands,
    check_command,
    verify_command,
    starting,
):
    commands.register(app)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        from layton_batch import __version__

        typer.echo(f"layton-batch {__version__}")
        raise typer.Exit


_built = functools.cache(typer.main.get_command)
"""Built once: it takes 40 ms, and a program may give many commands in one process."""


def invoke(arguments: list[str]) -> int:
    """Carry a command out; returns its exit code. Not through Typer's own main: it swallows Ctrl-C and closed pipes."""
    try:
        with _built(app).make_context(PROGRAM, arguments, default_map=_from_environment_file()) as context:
            context.command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return 0


def _from_environment_file() -> dict[str, dict[str, Any]]:
    """Return the options that the working folder's ``.env`` sets, by command: Typer reads the environment alone."""
    runs = Settings.from_process().get("LAYTON_BATCH_RUNS")
    if runs is None:
        return {}
    names = [name for group in GROUPS.values() for name in group if name != "label"]
    own = {"runs": runs}
    return {**dict.fromkeys(names, own), "label": dict.fromkeys(label_commands.NAMES, own)}
