"""The commands, for Typer. A command's module is loaded when the command is called."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from typing import Any, NamedTuple, cast

import typer
from typer.core import TyperGroup

from layton_batch import __version__

PROGRAM = "layton-batch"


class CommandEntry(NamedTuple):
    """Place of a command's function, and the command's line in ``--help``.

    A function of ``commands`` returns a document; one of ``cli`` is Typer's as it is, or a group of commands.
    """

    place: str
    help: str


GROUPS: Mapping[str, Mapping[str, CommandEntry]] = {
    "Start": {
        "demo": CommandEntry("cli.demo.demo", "See it all work: bundled items, made-up models, no key."),
        "init": CommandEntry("cli.init.init", "Write a manifest to start from, and a file of three items."),
        "check": CommandEntry("commands.check.check", "Check this machine, a manifest, or a file of items."),
    },
    "Run": {
        "plan": CommandEntry("commands.plan.plan", "Check a manifest and say what it would cost; pays nothing."),
        "run": CommandEntry("commands.run.run", "Start or continue a manifest's run."),
        "overnight": CommandEntry(
            "commands.overnight.overnight", "Work on several manifests through the night, and publish what is complete."
        ),
        "judge": CommandEntry("commands.judge.judge_file", "Put answers that are there already before a jury."),
        "cancel": CommandEntry("commands.cancel.cancel", "Stop paying: cancel a run's batches at the providers."),
        "retry": CommandEntry("commands.retry.retry", "Give requests without an answer one more attempt."),
        "resolve": CommandEntry(
            "commands.resolve.resolve", "Say what became of a `lost` batch, or ignore those of a copy."
        ),
    },
    "Look": {
        "status": CommandEntry("cli.status_command.status", "Show where runs stand, and what to do next."),
        "leaderboard": CommandEntry("commands.leaderboard.leaderboard", "Rank models from runs or files."),
        "compare": CommandEntry("commands.compare.compare", "Tell which of two models is better, and how surely."),
        "judges": CommandEntry("commands.judges.judges", "Measure the judges against people."),
        "cost": CommandEntry("commands.cost.cost", "Show what runs cost, and what the same tokens cost live."),
    },
    "Label": {
        "label": CommandEntry("cli.labelling.label", "Label answers in the browser; choose and import labels."),
    },
    "Publish": {
        "site": CommandEntry("commands.site.site", "Write static pages of a run, or one site of several."),
        "verify": CommandEntry("commands.verify.verify", "Compute a run or a site again, and name what differs."),
    },
    "Files": {
        "grade": CommandEntry("commands.grade.grade", "Grade predictions by a benchmark's rules."),
        "import": CommandEntry("commands.import_.import_", "Take in answers and verdicts made elsewhere."),
        "export": CommandEntry("commands.export.export", "Write a run down in the forms that others read."),
        "sandbox": CommandEntry(
            "cli.sandbox_command.sandbox", "Play the providers' batch APIs on 127.0.0.1 until stopped."
        ),
    },
}
"""Commands by group, as ``--help`` lists them."""


class _Commands(Mapping[str, Any]):
    """The commands by name, each loaded when somebody asks for it."""

    _places: Mapping[str, str] = {name: entry.place for group in GROUPS.values() for name, entry in group.items()}

    def __getitem__(self, name: str) -> Any:
        return _loaded(name, self._places[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)


@functools.cache
def _loaded(name: str, place: str) -> Any:
    module, _, function = place.rpartition(".")
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
        super().__init__(**settings)
        self.commands = cast("MutableMapping[str, Any]", _Commands())

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        for title, commands in GROUPS.items():
            with formatter.section(title):
                formatter.write_dl([(name, command.help) for name, command in commands.items()])


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
