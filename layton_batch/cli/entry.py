"""How commands begin and end: exit codes, and errors as sentences instead of tracebacks."""

from __future__ import annotations

import atexit
import gc
import os
import re
import sys
from collections.abc import Sequence

from layton_batch import log
from layton_batch.cli.terminal import forgiving_streams, lost_output
from layton_batch.errors import LaytonBatchError, StorageError, refusal_of_system
from layton_batch.files import limits
from layton_batch.processes import (
    bypass_proxy,
    count_stops_only,
    end_at_second_stop,
    one_thread_a_product,
    terminating,
)
from layton_batch.settings import Settings
from layton_batch.text import did_you_mean, plain

INTERRUPTED = 75
STOPPED = {
    "run": "stopped. Submitted batches go on at the provider; the same command continues the run.",
    "cancel": "stopped. Batches asked to stop end at the provider; the same command asks the others and collects.",
    "demo": "stopped. The same command continues.",
}
"""What Ctrl-C means for a command; for the others nothing is left undone outside this machine."""

_NO_COMMAND = re.compile(r"No such command '(.+?)'")
"""Typer's words for a command that there is not."""
_INPUT = re.compile(r"Input should be (?P<form>[^,]+)")
"""Typer's words for a value of another form than an option takes."""
_PLAIN_FORMS = {
    "a valid integer": "a whole number",
    "a valid number": "a number",
    "greater than or equal to 0": "0 or more",
}

MANIFEST_KEYS = {
    "--limit": "`limit` under [items]",
    "--items": "`source` under [items]",
    "--max-usd": "`max_usd` under [budget]",
    "--model": "a table [[models]] with name, provider and model",
}
"""Options of `run` that `plan` reads from the manifest, with their keys."""


_KEYS = "keys are variables such as OPENAI_API_KEY, in the environment or in .env; `layton-batch doctor` checks them"
_ADDRESSES = "addresses are variables such as OPENAI_BASE_URL, in the environment; `layton-batch doctor` checks them"
_CONTINUES = "the same `layton-batch run` command continues a run"
_EVENTS = "`layton-batch events RUN` shows what happened, and `layton-batch status RUN` where every batch is"
_OPTION_ADVICE = {
    **dict.fromkeys(("--api-key", "--key", "--token", "--env", "--env-file"), _KEYS),
    **dict.fromkeys(("--base-url", "--url", "--endpoint", "--api-base"), _ADDRESSES),
    "--proxy": "a proxy is the variable HTTPS_PROXY in the environment",
    **dict.fromkeys(("--resume", "--continue", "--restart"), _CONTINUES),
    **dict.fromkeys(("--verbose", "-v", "--debug", "--log-level"), _EVENTS),
}
"""Options that other programs have, with what does the same here."""
_COMMAND_ADVICE = {
    **dict.fromkeys(("login", "auth", "config", "configure", "key", "keys", "set-key"), _KEYS),
    **dict.fromkeys(("log", "logs"), _EVENTS),
    "version": "`layton-batch --version` prints the version",
    "help": "`layton-batch -h` lists the commands",
}
"""Commands that other programs have, with what does the same here."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run a command and exit with its code (CLI.md: 0, 1, 2, 3, 4, 5, 74, 75)."""
    command_line = list(sys.argv[1:] if arguments is None else arguments)
    try:
        prepare_process()
        with terminating():
            from layton_batch.cli.app import invoke  # Typer, and the options of every command

            code = _printed(command_line, invoke([*command_line]))
    except KeyboardInterrupt:
        count_stops_only()
        code = _complain(STOPPED.get(command_line[0] if command_line else "", "stopped."), INTERRUPTED)
    except Exception as error:
        code = complain_of(error)
    sys.exit(code)


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
    return _complain(f"stdout cannot be written: {lost.strerror or lost}", code)


def complain_of(error: Exception) -> int:
    """Say what went wrong and return the exit code: errors of this program, usage errors of the command line, and what
    the operating system refuses where nobody expected it. Anything else is a bug and keeps its traceback."""
    if isinstance(error, LaytonBatchError):
        return _complain(str(error), error.exit_code)
    if isinstance(error, OSError) and (refusal := refusal_of_system(error, "run the same command again")) is not None:
        return _complain(str(refusal), refusal.exit_code)
    show, code = getattr(error, "show", None), getattr(error, "exit_code", None)
    if callable(show) and isinstance(code, int):
        if (message := _unknown_option(error) or _missing_word(error) or _wrong_value(error)) is not None:
            return _complain(message, code)
        show()
        return code
    raise error


def _unknown_option(error: Exception) -> str | None:
    """Return what to type instead of an option that another command has; None for any other usage error."""
    option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if context is None or not hasattr(error, "possibilities"):  # Typer's own error of an unknown option has both
        return None
    commands = getattr(context.command, "commands", {})
    if its_commands := [name for name, command in commands.items() if any(option in p.opts for p in command.params)]:
        first = "run" if "run" in its_commands else its_commands[0]
        return f"name the command before its options: `{context.command_path} {first} … {option}`"
    if context.info_name == "plan" and option in MANIFEST_KEYS:
        return (
            f"plan has no {option}: set {MANIFEST_KEYS[option]} in the manifest; `layton-batch init` writes one to "
            "start from"
        )
    if context.info_name == "export" and option == "--format":
        return "export has no --format: --to names the form, such as --to csv"
    if option in ("--budget", "--max-cost"):
        return (
            f"{context.info_name} has no {option}: `run --max-usd 5.00` names the most that a run may cost in dollars"
        )
    if (advice := _OPTION_ADVICE.get(str(option))) is not None:
        return f"{context.info_name} has no {option}; {advice}"  # what stands after a colon is hidden as a key
    if option == "--dry-run":
        return (
            f"{context.info_name} has no --dry-run: `layton-batch plan MANIFEST` shows what `run` would send and cost, "
            "and sends nothing; `run --sandbox` rehearses it without a key"
        )
    if option == "--sandbox":
        from layton_batch.runs.folders import DEFAULT_RUNS, sandbox_runs

        return (
            f"{context.info_name} has no --sandbox: the runs of `run --sandbox` are in a folder of their own, and "
            f"`{context.command_path} … --runs {sandbox_runs(DEFAULT_RUNS)}` takes them"
        )
    return None


def _missing_word(error: Exception) -> str | None:
    """Return what to type where an argument, an option or a command is missing; None for any other usage error."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    if context is None:
        return None
    if parameter is not None and type(error).__name__ == "MissingParameter":
        options = [option for option in parameter.opts if option.startswith("-")]
        name = options[0] if options else parameter.metavar or parameter.name
        help_text = (getattr(parameter, "help", None) or "").removesuffix(".")
        help_text = f": {help_text}." if help_text else "."
        return f"{context.info_name}: {name} is missing{help_text} `{context.command_path} -h` shows more."
    word = _NO_COMMAND.match(str(getattr(error, "message", "")))
    if word is None:
        return None
    if not os.path.isfile(word[1]):
        if context.parent is None and (advice := _COMMAND_ADVICE.get(word[1])) is not None:
            return f"there is no command {word[1]!r}: {advice}"
        near = did_you_mean(word[1], getattr(context.command, "commands", ())) or ";"
        run = "`layton-batch run` starts or continues a run, and " if context.parent is None else ""
        return f"there is no command {word[1]!r}{near} {run}`{context.command_path} -h` lists the commands"
    file = word[1]
    if context.info_name == "items":
        return f"items: name the command before the file: `layton-batch items check {file}`"
    if file.endswith(".toml"):
        return f"name the command before {file}: `layton-batch plan {file}` or `layton-batch run {file}`"
    return (
        f"name the command before {file}: `layton-batch run {file} --model PROVIDER:ID` asks its questions, "
        f"`layton-batch leaderboard {file}` ranks its scores, `layton-batch grade TASK {file}` grades its predictions"
    )


def _wrong_value(error: Exception) -> str | None:
    """Return what the value of an option must be, in plain words; None for any other usage error."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    form = _INPUT.match(str(getattr(error, "message", "")))
    if context is None or parameter is None or form is None:
        return None
    return f"{context.info_name}: {parameter.opts[0]} must be {_PLAIN_FORMS.get(form['form'], form['form'])}"


def _complain(message: str, code: int) -> int:
    sys.stderr.write(f"layton-batch: {plain(log.redact(message))}\n")
    return code
