"""Beginning and end of commands: exit codes, and errors as sentences instead of tracebacks."""

from __future__ import annotations

import atexit
import gc
import sys
from collections.abc import Sequence

from layton_batch import log
from layton_batch.cli.app import invoke
from layton_batch.cli.notes import notes_said
from layton_batch.cli.terminal import forgiving_streams, lost_output, say
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
    """Run a command and exit with its code (CLI.md: 0, 1, 2, 3, 4, 5, 74, 75)."""
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
