"""Errors as sentences on stderr, with the exit code of the command that they end."""

from __future__ import annotations

import sys

from layton_batch import log
from layton_batch.errors import LaytonBatchError, refusal_of_system
from layton_batch.text import plain


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
    sys.stderr.write(f"layton-batch: {plain(log.redact(message))}\n")
    return code
