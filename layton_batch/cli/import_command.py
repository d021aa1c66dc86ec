"""import: answers and verdicts that were given elsewhere, into a run."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layton_batch.cli.run_commands import RUNS, Json, RunName, Runs
from layton_batch.text import first_of, plural

if TYPE_CHECKING:
    from layton_batch.interchange.entering import ImportResult


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command("import")(import_)


def import_(
    run_name: RunName = None,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="Whose predictions or verdicts.")] = None,
    predictions: Annotated[
        Path | None, typer.Option("--predictions", metavar="FILE", help="JSON, JSONL, Parquet or CSV, a row an item.")
    ] = None,
    verdicts: Annotated[
        list[Path] | None, typer.Option("--verdicts", metavar="FILE", help="A judge's file; repeat it.")
    ] = None,
    eee: Annotated[
        list[Path] | None, typer.Option("--eee", metavar="FILE", help="Every Eval Ever lines; repeat it.")
    ] = None,
    family: Annotated[
        str | None,
        typer.Option("--family", help="Maker of the model. Judges of the same family do not judge its answers."),
    ] = None,
    provider: Annotated[str | None, typer.Option("--provider", help="Who served it; shown on the board.")] = None,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> None:
    """Take in answers and verdicts made elsewhere.

    Nothing that a file holds is asked or paid for. RUN may be a manifest whose run is not begun, also one without
    [[models]]: the run begins with the import.

    --predictions: a model's answers, judged by the run's jury at the next `run` and ranked beside the others.
    layton-eval's result files (`custom_id`, JSON in `answer`) are predictions as they are.
    --verdicts: layton-eval's judge files (`custom_id`, `answer`, `model`) on a model of the run, or on the one that
    comes with --predictions. --eee: the models of Every Eval Ever lines, with the verdicts in our own exports. Files
    are checked as a whole before anything changes; the same import twice changes nothing. Ends with 75 where another
    process drives the run.

    Labels are taken in by `label import`.
    """
    from layton_batch.cli.terminal import print_json, say
    from layton_batch.interchange.into_run import ImportedFiles, import_answers, open_for_import
    from layton_batch.settings import Settings
    from layton_batch.text import one_line

    files = ImportedFiles(model, predictions, verdicts or (), eee or (), family, provider)
    files.check()
    settings = Settings.from_process()
    with open_for_import(run_name, runs, settings) as opened:
        entered = import_answers(opened, files, settings)
        has_options = any(isinstance(item.payload.get("options"), list) for item in opened.items)
    if predictions is not None and has_options:
        say(
            f"letters of {predictions} are read in the order in which {opened.id} shows the options; if the model saw "
            f"another order, use `layton-batch grade {opened.task.name} --predictions {predictions} --items FILE`"
        )
    if as_json:
        print_json(entered)
        return
    for entry in entered:
        say(one_line(_summary(entry)))


def _summary(entry: ImportResult) -> str:
    parts = [plural(entry.answers, "answer") if entry.is_new else "nothing new of its answers"]
    if entry.missing:
        parts.append(f"{plural(len(entry.missing), 'item')} of the run without one ({first_of(entry.missing)})")
    if entry.unparsed:
        parts.append(
            f"{entry.unparsed} in another form than the task asks for, which count as wrong (a plain answer belongs in "
            "a column 'answer')"
        )
    if entry.verdicts:
        parts.append(plural(entry.verdicts, "verdict"))
    if entry.to_ask:
        parts.append(f"{plural(entry.to_ask, 'verdict')} to be asked for by the next `run`")
    times = "" if entry.hints is None else f" with {entry.hints} hints"
    times += "" if entry.sample == 1 else f", sample {entry.sample}"
    return f"{entry.model}{times}: {', '.join(parts)}"
