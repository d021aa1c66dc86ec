"""import: answers and verdicts that were given elsewhere, into a run."""

from __future__ import annotations

import os.path
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layton_batch.cli.option_names import renamed
from layton_batch.cli.run_commands import RUNS, Json, RunName, Runs
from layton_batch.files.item_ids import shift_advice
from layton_batch.text import first_of, plural

if TYPE_CHECKING:
    from layton_batch.imports.entering import ImportResult


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command("import", context_settings={**renamed(annotations="labels"), "allow_extra_args": True})(import_)


def import_(
    context: typer.Context,
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
    labels: Annotated[
        list[Path] | None,
        typer.Option(
            "--labels",
            metavar="FILE",
            help="Labels that people gave: rows of any tool, or the filled-in file of `label-plan`; may be repeated.",
        ),
    ] = None,
    family: Annotated[
        str | None,
        typer.Option("--family", help="Maker of the model. Judges of the same family do not judge its answers."),
    ] = None,
    provider: Annotated[str | None, typer.Option("--provider", help="Who served it; shown on the board.")] = None,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> None:
    """Take in answers, verdicts or labels made elsewhere.

    Nothing that a file holds is asked or paid for. RUN may be a manifest whose run is not begun, also one without
    [[models]]: the run begins with the import.

    --predictions: a model's answers, judged by the run's jury at the next `run` and ranked beside the others.
    layton-eval's result files (`custom_id`, JSON in `answer`) are predictions as they are.
    --verdicts: layton-eval's judge files (`custom_id`, `answer`, `model`) on a model of the run, or on the one that
    comes with --predictions. --eee: the models of Every Eval Ever lines, with the verdicts in our own exports. Files
    are checked as a whole before anything changes; the same import twice changes nothing. Ends with 75 where another
    process drives the run.

    Labels (--labels): a row has `item_id` (or `riddle_id`), `model`, `answer_correct` and `justification_correct`
    (or `is_answer_correct` and `is_justification_correct`, as in layton-eval's annotation files), and may have
    `provider`, `n_hints`, `annotator`, `time` and the `answer` and `justification` that were judged. JSONL or Parquet.
    A file is checked as a whole before anything changes. The same file twice changes nothing. A later label of one
    annotator on one prediction takes the place of the earlier. The next `leaderboard` or `run` uses them.

    Or --labels is the file of `label-plan --out`, filled in, as CSV, XLSX, JSONL or Parquet. A row is known by its
    label_id; one without a label is left out; a wrong one is named, and then nothing changes.
    """
    from layton_batch.cli.terminal import print_json, say
    from layton_batch.errors import ManifestError
    from layton_batch.files.content_kinds import ITEM_ENDINGS
    from layton_batch.imports.into_run import ImportedFiles, import_answers, open_for_import
    from layton_batch.settings import Settings
    from layton_batch.text import one_line

    if run_name is not None and Path(run_name).suffix.lower() in ITEM_ENDINGS and os.path.isfile(run_name):
        raise ManifestError(
            f"import: {run_name} is a file, and the run comes first: `layton-batch import RUN --labels {run_name}`, or "
            "--predictions, --verdicts or --eee before the file"
        )
    if context.args:
        raise ManifestError(
            f"import: say what {', '.join(context.args)} holds, an option before each file: --predictions, --verdicts, "
            "--eee or --labels"
        )
    files = ImportedFiles(model, predictions, verdicts or (), eee or (), labels or (), family, provider)
    files.check()
    if labels:
        _labels(run_name, labels, runs, as_json=as_json)
        return
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
        advice = shift_advice(entry.missing, entry.answers)
        parts.append(f"{plural(len(entry.missing), 'item')} of the run without one ({first_of(entry.missing)}{advice})")
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


def _labels(run_name: str | None, files: list[Path], runs: Path, *, as_json: bool) -> None:
    from layton_batch.cli.terminal import print_json, say
    from layton_batch.imports.label_sheets import import_labels
    from layton_batch.runs.folders import find_run
    from layton_batch.runs.open import read_run
    from layton_batch.settings import Settings

    settings = Settings.from_process()
    with read_run(find_run(run_name, runs), settings) as run:
        taken, blank = import_labels(run, files, settings)
    if as_json:
        print_json(taken)
        return
    for line in taken.lines():
        say(line)
    if blank is not None:
        say(blank)
