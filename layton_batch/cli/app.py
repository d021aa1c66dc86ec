"""The commands, for Typer, and their beginning and end: exit codes, and errors as sentences instead of tracebacks.

A command's module is loaded when the command is called.
"""

from __future__ import annotations

import atexit
import functools
import gc
import sys
from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from layton_batch import __version__, log
from layton_batch.cli.terminal import forgiving_streams, lost_output, notes_said, say
from layton_batch.errors import LaytonBatchError, ManifestError, StorageError, refusal_of_system
from layton_batch.files import limits
from layton_batch.processes import (
    bypass_proxy,
    count_stops_only,
    end_at_second_stop,
    one_thread_a_product,
    terminating,
)
from layton_batch.settings import Settings

PROGRAM = "layton-batch"


GROUPS: Mapping[str, Mapping[str, str]] = {
    "Start": {
        "demo": "See it all work: bundled items, made-up models, no key.",
        "init": "Write a manifest to start from, and a file of three items.",
        "check": "Check this machine, a manifest, or a file of items.",
    },
    "Run": {
        "plan": "Check a manifest and say what it would cost; pays nothing.",
        "run": "Start or continue a manifest's run.",
        "overnight": "Work on several manifests through the night, and publish what is complete.",
        "judge": "Put answers that are there already before a jury.",
        "cancel": "Stop paying: cancel a run's batches at the providers.",
        "retry": "Give requests without an answer one more attempt.",
        "resolve": "Say what became of a `lost` batch, or ignore those of a copy.",
    },
    "Look": {
        "status": "Show where runs stand, and what to do next.",
        "leaderboard": "Rank models from runs or files.",
        "compare": "Tell which of two models is better, and how surely.",
        "judges": "Measure the judges against people.",
        "cost": "Show what runs cost, and what the same tokens cost live.",
    },
    "Label": {
        "label": "Label answers in the browser; choose and import labels.",
    },
    "Publish": {
        "site": "Write static pages of a run, or one site of several.",
        "verify": "Compute a run or a site again, and name what differs.",
    },
    "Files": {
        "grade": "Grade predictions by a benchmark's rules.",
        "import": "Take in answers and verdicts made elsewhere.",
        "export": "Write a run down in the forms that others read.",
        "sandbox": "Play the providers' batch APIs on 127.0.0.1 until stopped.",
    },
}
"""Commands by group, each with its line, as ``--help`` lists them."""
_PLACES = {
    "demo": "cli.demo.demo",
    "init": "cli.init.init",
    "status": "cli.status_command.status",
    "label": "cli.labelling.label",
    "import": "commands.import_.import_",
    "sandbox": "cli.sandbox_command.sandbox",
}
"""Places of functions that are not in ``commands`` under the command's name. A function of ``commands`` returns a
document; one of ``cli`` is Typer's as it is, or a group of commands."""


@functools.cache
def _loaded(name: str) -> Any:
    """Load a command when somebody asks for it."""
    module, _, function = _PLACES.get(name, f"commands.{name}.{name}").rpartition(".")
    target = getattr(import_module(f"layton_batch.{module}"), function)
    if isinstance(target, typer.Typer):
        return typer.main.get_group(target)
    if module.startswith("commands."):
        from layton_batch.cli.surface import command  # loads the manifest's form, which `--help` need not

        target = command(target)
    own = typer.Typer(rich_markup_mode=None, add_completion=False)
    own.command(name)(target)
    return typer.main.get_command(own)


class _LazyGroup(TyperGroup):
    """The commands, listed by group."""

    def __init__(self, **settings: Any) -> None:
        commands: Any = dict.fromkeys(name for group in GROUPS.values() for name in group)
        super().__init__(**(settings | {"commands": commands}))

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return _loaded(cmd_name) if cmd_name in self.commands else None

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl(list(commands.items()))


app = typer.Typer(
    name=PROGRAM,
    cls=_LazyGroup,
    help="Evaluate language and vision models through paid batch APIs: a manifest in, a leaderboard and a bill out.",
    no_args_is_help=True,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def _version(version: bool = typer.Option(False, "--version", help="Print the version and leave.")) -> None:
    if version:
        typer.echo(f"layton-batch {__version__}")
        raise typer.Exit


_built = functools.cache(typer.main.get_group)
"""Built once: a program may give many commands in one process."""


def invoke(arguments: list[str]) -> int:
    """Carry a command out; returns its exit code. Not through Typer's own main: it swallows Ctrl-C and closed pipes."""
    try:
        with _built(app).make_context(PROGRAM, arguments) as context:
            context.command.invoke(context)
    except typer.Exit as end:
        return end.exit_code
    return 0


INTERRUPTED = 75
STOPPED = {
    "run": "stopped. Submitted batches go on at the provider; the same command continues the run.",
    "cancel": "stopped. Batches asked to stop end at the provider; the same command asks the others and collects.",
    "judge": "stopped. Submitted batches go on at the provider; the same command continues the run.",
    "demo": "stopped. The same command continues.",
    "overnight": "stopped. Submitted batches go on at the provider; the same command continues.",
}
"""Meaning of Ctrl-C by command; the others leave nothing undone outside this machine."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code (0, 1, 2, 3, 4, 5, 74 or 75)."""
    command_line = list(sys.argv[1:] if arguments is None else arguments)
    try:
        prepare_process()
        with terminating(), notes_said():
            _refuse_empty(command_line)
            code = _printed(command_line, invoke([*command_line]))
    except KeyboardInterrupt:
        count_stops_only()
        code = complain(STOPPED.get(command_line[0] if command_line else "", "stopped."), INTERRUPTED)
    except Exception as error:
        code = complain_of(error)
    sys.exit(code)


def _refuse_empty(command_line: Sequence[str]) -> None:
    """Raise ManifestError for an empty argument: as a path it would be the working folder, as a run the only one."""
    if "" in command_line:
        before = " ".join(["layton-batch", *command_line[: command_line.index("")]])
        raise ManifestError(f"the argument after `{before}` is empty")


def prepare_process() -> None:
    """Set up streams, network and log of a process that is one command. Raises ManifestError for bad settings."""
    atexit.register(gc.freeze)  # at the end nothing is looked for in what goes with the process
    end_at_second_stop(INTERRUPTED)
    forgiving_streams()
    bypass_proxy()
    one_thread_a_product()
    settings = Settings.from_process()
    limits.LIMITS.take(settings)
    log.protect(settings.secrets())  # no key in any log record or message from here on


def _printed(command_line: Sequence[str], code: int) -> int:
    """Return the exit code after printing. A failed write to stdout replaces code 0.

    Commands that move a run keep their code, because it tells the state of the run.
    """
    lost = lost_output()
    if lost is None:
        return code
    if code == 0 and not STOPPED.keys() & set(command_line[:1]):
        code = StorageError.exit_code
    return complain(f"stdout cannot be written: {lost.strerror or lost}", code)


# ---- errors --------------------------------------------------------------------------------------------------------


def complain_of(error: Exception) -> int:
    """Say what went wrong and return the exit code: errors of this program, usage errors of the command line, and what
    the operating system refuses where nobody expected it. Anything else is a bug and keeps its traceback."""
    if isinstance(error, LaytonBatchError):
        return complain(str(error), error.exit_code)
    if isinstance(error, OSError) and (refusal := refusal_of_system(error, "run the same command again")) is not None:
        return complain(str(refusal), refusal.exit_code)
    show, code = getattr(error, "show", None), getattr(error, "exit_code", None)
    if callable(show) and isinstance(code, int):
        if type(error).__name__ == "NoArgsIsHelpError":
            show()
            return code
        return complain(_usage_message(error), code)
    raise error


def _usage_message(error: Exception) -> str:
    """Return what Typer says of a command line, in one line, with the command."""
    context, words = getattr(error, "ctx", None), getattr(error, "format_message", error.__str__)()
    command = "" if context is None else context.command_path.partition(" ")[2]
    return f"{command}: {words}" if command else words


def complain(message: str, code: int) -> int:
    """Print the message, without any key, and return the exit code."""
    say(f"layton-batch: {log.redact(message)}")
    return code
