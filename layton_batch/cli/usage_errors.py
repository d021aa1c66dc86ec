"""Messages for a command line that no command takes: what to write instead of a wrong word, option or value."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence

from layton_batch.errors import ManifestError
from layton_batch.text import did_you_mean, plural

_NO_COMMAND = re.compile(r"No such command '(.+?)'")
"""Typer's words for a command that there is not."""
_TOO_MANY = re.compile(r"Got unexpected extra arguments? *(?:\(s\) )?\((?P<words>.+)\)")
"""Typer's words for arguments that a command does not take."""
_INPUT = re.compile(r"Input should be (?P<form>[^,]+)")
"""Typer's words for a value of another form than an option takes."""
_NO_VALUE = re.compile(r"Option '(?P<option>--[\w-]+)' requires an argument")
"""Typer's words for an option that ends the command line and takes a value."""
_PLAIN_FORMS = {"a valid integer": "a whole number", "a valid number": "a number"}

_DOLLARS = " Write dollars as a number without $, such as 5.00: a shell replaces $5 by nothing, $50 by 0."
"""Advice on ``--max-usd``, which is often given with a $."""

MANIFEST_KEYS = {
    "--limit": "`limit` under [items]",
    "--items": "`source` under [items]",
    "--max-usd": "`max_usd` under [budget]",
    "--model": "a table [[models]] with name, provider and model",
}
"""Options of `run` that `plan` reads from the manifest, with their keys."""

_SAME_OPTIONS = {
    **dict.fromkeys(("-o", "--output", "--out-dir", "--output-dir", "--out-file", "--dir", "--to"), "--out"),
    **dict.fromkeys(("-m", "--models"), "--model"),
    **dict.fromkeys(("-n", "--n", "--num", "--max-samples", "--num-samples", "--n-samples", "--head"), "--limit"),
    **dict.fromkeys(("-y", "--no-confirm", "--assume-yes"), "--yes"),
    **dict.fromkeys(("--dataset", "--data", "--questions"), "--items"),
    **dict.fromkeys(("--csv", "--md", "--markdown"), "--format"),
    **dict.fromkeys(("--run-dir", "--runs-dir", "--workspace"), "--runs"),
    "--watch": "--follow",
    "--follow": "--watch",
}
"""Options of other programs and commands, by the option that means the same here."""

_IN_THE_MANIFEST = "a model's settings stand in the manifest, such as params = {{ {key} = … }} under its [[models]]"
_KEYS = "keys are variables such as OPENAI_API_KEY, in the environment or in .env; `layton-batch doctor` checks them"
_ADDRESSES = "addresses are variables such as OPENAI_BASE_URL, in the environment; `layton-batch doctor` checks them"
_WORDS_FOR_OPTIONS = {
    **dict.fromkeys(("--api-key", "--key", "--token", "--env", "--env-file"), _KEYS),
    **dict.fromkeys(("--base-url", "--url", "--endpoint", "--api-base"), _ADDRESSES),
    "--proxy": "a proxy is the variable HTTPS_PROXY in the environment",
    **dict.fromkeys(
        ("--budget", "--max-cost"), "`run --max-usd 5.00` names the most that a run may cost in dollars"
    ),
    "--dry-run": "`layton-batch plan MANIFEST` shows what `run` would send and cost, and sends nothing; "
    "`run --sandbox` rehearses it without a key",
    **dict.fromkeys(("-v", "--verbose", "--debug"), "`layton-batch events RUN` shows every step of a run"),
    **dict.fromkeys(("-q", "--quiet", "--silent"), "`2>/dev/null` behind the command hides its notes"),
    **dict.fromkeys(("--resume", "--continue"), "`layton-batch run` continues a run by itself"),
    **dict.fromkeys(("-c", "--config", "--manifest", "--file"), "name the file without an option"),
    **{
        f"--{key.replace('_', '-')}": _IN_THE_MANIFEST.format(key=key)
        for key in ("temperature", "top_p", "seed", "max_tokens")
    },
}  # fmt: skip
"""Advice on options that no command has, or not this one."""

_RESULTS = (
    "`layton-batch leaderboard RUN` shows the results, `layton-batch site RUN --out DIR` writes pages, "
    "`layton-batch export RUN` writes files"
)
_WORDS_FOR_COMMANDS = {
    **dict.fromkeys(("login", "auth", "configure", "key", "keys", "set-key"), _KEYS),
    **dict.fromkeys(("results", "result", "show", "report", "view", "scores", "board", "rank", "summary"), _RESULTS),
    **dict.fromkeys(("list", "ls", "runs", "ps"), "`layton-batch status` lists the runs"),
    **dict.fromkeys(("stop", "kill", "abort", "pause"), "`layton-batch cancel RUN` stops a run's batches"),
    **dict.fromkeys(
        ("delete", "rm", "remove", "clean", "reset"),
        "no command deletes a run, because its answers would be paid for again; `layton-batch cancel RUN` stops paying",
    ),
    **dict.fromkeys(("logs", "log", "history", "watch", "tail"), "`layton-batch events RUN` shows what happened"),
    **dict.fromkeys(("new", "create", "setup", "config"), "`layton-batch init` writes a manifest to start from"),
    **dict.fromkeys(
        ("check", "validate", "lint", "test"),
        "`layton-batch plan MANIFEST` checks a manifest, `layton-batch doctor` keys and addresses, "
        "`layton-batch items check FILE` questions",
    ),
    **dict.fromkeys(
        ("price", "prices", "estimate", "budget", "bill"),
        "`layton-batch plan MANIFEST` says what a run would cost, `layton-batch cost RUN` what it cost",
    ),
    **dict.fromkeys(("label", "labels", "ui"), "`layton-batch annotate RUN` opens the labelling app"),
    **dict.fromkeys(("models", "providers"), "`layton-batch doctor` lists the providers and the keys that are set"),
    "help": "`layton-batch -h` lists the commands, `layton-batch COMMAND -h` explains one",
    "version": "`layton-batch --version` prints the version",
}  # fmt: skip
"""Commands of other programs, by what does the same here."""


def usage_message(error: Exception, command_line: Sequence[str]) -> str | None:
    """Return what to write instead; None for an error that is no usage error of Typer's."""
    return (
        _unknown_option(error, command_line)
        or _missing_word(error)
        or _missing_value(error, command_line)
        or _wrong_value(error)
        or _too_many_words(error)
    )


def _unknown_option(error: Exception, command_line: Sequence[str]) -> str | None:
    """Return what to type instead of an option that the command does not have; None for any other usage error."""
    option, context = getattr(error, "option_name", None), getattr(error, "ctx", None)
    if context is None or option is None or not hasattr(error, "possibilities"):  # Typer's error of an unknown option
        return None
    commands = getattr(context.command, "commands", {})
    if its_commands := _commands_with(commands, option):
        named = [word for word in command_line if word in its_commands]
        command = (*named, "run" if "run" in its_commands else its_commands[0])[0]
        return f"name the command before its options: `{context.command_path} {command} … {option}`"
    own = [name for parameter in context.command.params for name in parameter.opts if name.startswith("--")]
    there_is_no = f"{context.info_name} has no {option}"
    word = option.lstrip("-").upper()
    if word in re.findall(r"\w+", " ".join(_arguments(context.command))):
        return f"{there_is_no}; write {word} without an option: `{context.command_path} {word}`"
    advice = _instead(option, context.info_name, own, context.parent)
    if advice:
        return f"{there_is_no}; {advice}"  # what stands after a colon is hidden as a key
    options = f"; its options are {', '.join(own)}" if own else ""
    return f"{there_is_no}{did_you_mean(option, own, cutoff=0.8) or options}; see `{context.command_path} -h`"


def _instead(option: str, command: str, own: Sequence[str], program: object) -> str:
    """Return the words for an option of another program or command; nothing where there are none."""
    if command == "plan" and option in MANIFEST_KEYS:
        return f"set {MANIFEST_KEYS[option]} in the manifest; `layton-batch init` writes one to start from"
    if command == "export" and option == "--format":
        return "--to names the form, such as --to csv"
    if option == "--sandbox":
        from layton_batch.runs.folders import DEFAULT_RUNS, sandbox_runs

        return (
            f"the runs of `run --sandbox` are in a folder of their own, and "
            f"`layton-batch {command} … --runs {sandbox_runs(DEFAULT_RUNS)}` takes them"
        )
    same = _SAME_OPTIONS.get(option)
    if same in own:
        return f"write {same}"
    if same == "--out" and "--format" in own:
        return f"`layton-batch {command} … --format csv > FILE` writes a file"
    if words := _WORDS_FOR_OPTIONS.get(option):
        return words
    commands = _commands_with(getattr(getattr(program, "command", None), "commands", {}), option)
    return f"it is an option of {', '.join(f'`{name}`' for name in commands)}" if 0 < len(commands) <= 4 else ""


def _commands_with(commands: Mapping[str, object], option: str) -> list[str]:
    """Return the names of the commands that take the option."""
    return [
        name
        for name, command in commands.items()
        if any(option in parameter.opts for parameter in getattr(command, "params", ()))
    ]


def _missing_word(error: Exception) -> str | None:
    """Return what to type where an argument, an option or a command is missing; None for any other usage error."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    if context is None:
        return None
    if parameter is not None and type(error).__name__ == "MissingParameter":
        options = [option for option in parameter.opts if option.startswith("-")]
        name = options[0] if options else parameter.metavar or parameter.name
        return f"{context.info_name}: {name} is missing{_help_of(parameter)} `{context.command_path} -h` shows more."
    word = _NO_COMMAND.match(str(getattr(error, "message", "")))
    if word is None:
        return None
    if os.path.isfile(word[1]):
        return _command_before(word[1], context.info_name)
    commands: Iterable[str] = getattr(context.command, "commands", ())
    near = did_you_mean(word[1], commands, cutoff=0.7)
    if context.parent is None and not near and (words := _WORDS_FOR_COMMANDS.get(word[1].lower())):
        return f"there is no command {word[1]!r}; {words}"
    run = "`layton-batch run` starts or continues a run, and " if context.parent is None else ""
    return f"there is no command {word[1]!r}{near or ';'} {run}`{context.command_path} -h` lists the commands"


def _command_before(file: str, group: str) -> str:
    """Return which commands take a file that stands where a command belongs."""
    if group == "items":
        return f"items: name the command before the file: `layton-batch items check {file}`"
    if file.endswith(".toml"):
        return f"name the command before {file}: `layton-batch plan {file}` or `layton-batch run {file}`"
    return (
        f"name the command before {file}: `layton-batch run {file} --model PROVIDER:ID` asks its questions, "
        f"`layton-batch leaderboard {file}` ranks its scores, `layton-batch grade TASK {file}` grades its predictions"
    )


def _missing_value(error: Exception, command_line: Sequence[str]) -> str | None:
    """Return what to do where an option ends the command line without its value; None for any other usage error."""
    matched = _NO_VALUE.match(str(getattr(error, "message", "")))
    if matched is None:
        return None
    option, command = matched["option"], command_line[0]
    dollars = _DOLLARS if option == "--max-usd" else ""
    return f"{command}: {option} needs a value.{dollars} `layton-batch {command} -h` describes the options"


def check_dollars(text: str | None) -> str | None:
    """Return the value of ``--max-usd``. Raises ManifestError for an option in its place: a shell replaces $5 by
    nothing."""
    from layton_batch.cli.terminal import say

    if text is not None and text.startswith("--"):
        raise ManifestError(f"--max-usd needs a value, and {text} is an option.{_DOLLARS}")
    if text is not None and not text.strip("0."):
        say(f"--max-usd {text}: nothing can be paid.{_DOLLARS}")
    return text


def _wrong_value(error: Exception) -> str | None:
    """Return what the value of an option must be, in plain words; None for any other usage error."""
    context, parameter = getattr(error, "ctx", None), getattr(error, "param", None)
    form = _INPUT.match(str(getattr(error, "message", "")))
    if context is None or parameter is None or form is None:
        return None
    plain_form = _PLAIN_FORMS.get(form["form"]) or re.sub(
        r"^greater than or equal to (\S+)$", r"\1 or more", form["form"]
    )
    return f"{context.info_name}: {parameter.opts[0]} must be {plain_form}{_help_of(parameter)}"


def _too_many_words(error: Exception) -> str | None:
    """Return which arguments a command takes, where it got more; None for any other usage error."""
    context = getattr(error, "ctx", None)
    words = _TOO_MANY.match(str(getattr(error, "message", "")))
    if context is None or words is None:
        return None
    taken = _arguments(context.command)
    count = plural(len(words["words"].split()), "argument")
    takes = f"it takes {' '.join(taken)}" if taken else "it takes options alone"
    rehearse = "; `layton-batch run … --sandbox` rehearses a run" if context.info_name == "sandbox" else ""
    return (
        f"{context.info_name}: {words['words']}: {count} too many; {takes}{rehearse}. "
        f"`{context.command_path} -h` shows more."
    )


def _arguments(command: object) -> list[str]:
    """Return the arguments that a command takes, as its help writes them."""
    parameters = getattr(command, "params", ())
    return [
        parameter.metavar or parameter.name.upper() for parameter in parameters if not parameter.opts[0].startswith("-")
    ]


def _help_of(parameter: object) -> str:
    help_text = (getattr(parameter, "help", None) or "").removesuffix(".")
    return f": {help_text}." if help_text else "."
