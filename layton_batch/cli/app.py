"""The commands and how they end: exit codes, and errors as sentences instead of tracebacks."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import typer

from layton_batch.cli import inspect_commands, money_commands, run_commands, sandbox_commands
from layton_batch.errors import LaytonBatchError

INTERRUPTED = 75

app = typer.Typer(
    name="layton-batch",
    help="Evaluate language and vision models through paid batch APIs: a manifest in, a leaderboard and a bill out.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for commands in (run_commands, inspect_commands, money_commands, sandbox_commands):
    commands.register(app)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        from layton_batch import __version__

        typer.echo(f"layton-batch {__version__}")
        raise typer.Exit


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code (CLI.md: 0, 1, 2, 3, 4, 5, 75)."""
    try:
        code = app(args=list(arguments) if arguments is not None else None, standalone_mode=False)
    except LaytonBatchError as error:
        _complain(str(error))
        code = error.exit_code
    except KeyboardInterrupt:
        _complain("stopped. Batches already submitted go on at the provider; the same command picks them up again.")
        code = INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        code = 0
    except Exception as error:
        code = _other(error)
    sys.exit(code if isinstance(code, int) else 0)


def _other(error: Exception) -> int:
    """Usage errors of the command line itself; anything else is a bug and keeps its traceback."""
    show, code = getattr(error, "show", None), getattr(error, "exit_code", None)
    if callable(show) and isinstance(code, int):
        show()
        return code
    raise error


def _complain(message: str) -> None:
    from layton_batch.cli.terminal import plain

    print(f"layton-batch: {plain(message)}", file=sys.stderr)  # noqa: T201
