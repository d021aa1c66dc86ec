"""The commands, for Typer."""

from __future__ import annotations

import functools
import os

import typer

from layton_batch.cli import (
    annotate_command,
    export_command,
    grade_commands,
    import_command,
    inspect_commands,
    item_commands,
    run_commands,
    sandbox_commands,
    starting,
    statistics_commands,
    verify_command,
)
from layton_batch.settings import Settings

PROGRAM, COMPLETE_VARIABLE = "layton-batch", "_LAYTON_BATCH_COMPLETE"
ORDER = ("demo", "init", "plan", "run", "status", "events", "cancel", "retry", "resolve", "score", "leaderboard",
         "compare", "gate", "judges", "label-plan", "annotate", "cost", "site", "verify", "grade", "judge",
         "import", "export")  # fmt: skip
"""How ``--help`` lists the commands: the way of a run; the rest after them."""

app = typer.Typer(
    name=PROGRAM,
    help="Evaluate language and vision models through paid batch APIs: a manifest in, a leaderboard and a bill out.",
    no_args_is_help=True,
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
    annotate_command,
    item_commands,
    verify_command,
    starting,
):
    commands.register(app)
app.registered_commands.sort(key=lambda command: (*ORDER, command.name).index(command.name))


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        from layton_batch import __version__

        typer.echo(f"layton-batch {__version__}")
        raise typer.Exit


_built = functools.cache(typer.main.get_command)
"""Built once: it takes 40 ms, and a program may give many commands in one process."""


def invoke(arguments: list[str]) -> int:
    """Carry a command out; returns its exit code. Not through Typer's own main: it swallows Ctrl-C and closed pipes.

    A shell that completes a command line sets a variable, and gets its suggestions from Typer, which ends the process.
    """
    command = _built(app)
    if COMPLETE_VARIABLE in os.environ:  # noqa: TID251  the shell sets it for one call, and Typer reads it there
        command.main([], PROGRAM, COMPLETE_VARIABLE)
    try:
        with command.make_context(PROGRAM, arguments, default_map=_from_environment_file()) as context:
            command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return 0


def _from_environment_file() -> dict[str, dict[str, str]]:
    """Return the options that the working folder's ``.env`` sets, by command: Typer reads the environment alone."""
    runs = Settings.from_process().get("LAYTON_BATCH_RUNS")
    names = [str(command.name) for command in app.registered_commands]
    return {} if runs is None else {name: {"runs": runs} for name in names}
