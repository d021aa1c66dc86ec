"""import: answers and verdicts that were given elsewhere, into a run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, ClassVar, TypeAlias

import polars as pl
import typer

from layton_batch.commands.notes import TextDocument, warn
from layton_batch.commands.parameters import (
    Family,
    Files,
    OneRun,
    Runs,
    environment,
    names_of,
    run_name,
    runs_folder,
)
from layton_batch.commands.sources import named_sources
from layton_batch.frames import as_files
from layton_batch.interchange.into_run import ImportedFiles, ImportResult, import_answers, open_for_import
from layton_batch.text import first_of, one_line, plural

if TYPE_CHECKING:
    from layton_batch.frames import Frame


Predictions: TypeAlias = "str | Path | Frame | None"
"""A file of predictions, or a table of them."""


@dataclass(frozen=True, slots=True)
class ImportDocument(TextDocument):
    """Answers and verdicts that were taken in, by model."""

    FORMATS: ClassVar = ("table", "json")

    results: Sequence[ImportResult]

    @property
    def frame(self) -> pl.DataFrame:
        """Return a row a model."""
        return pl.DataFrame([asdict(result) for result in self.results], infer_schema_length=None)

    def as_json(self) -> object:
        return [asdict(result) for result in self.results]


def import_(
    run: OneRun = None,
    *,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="Whose predictions or verdicts.")] = None,
    predictions: Annotated[
        Predictions,
        Path | None,
        typer.Option("--predictions", metavar="FILE", help="JSON, JSONL, Parquet or CSV, a row an item."),
    ] = None,
    verdicts: Annotated[
        Files,
        list[Path] | None,
        typer.Option("--verdicts", metavar="FILE", help="A judge's file; repeat it."),
    ] = None,
    eee: Annotated[
        Files,
        list[Path] | None,
        typer.Option("--eee", metavar="FILE", help="Every Eval Ever lines; repeat it."),
    ] = None,
    results: Annotated[
        Files,
        list[Path] | None,
        typer.Option("--results", metavar="FILE", help="A batch's results, sent by hand; repeat it."),
    ] = None,
    family: Family = None,
    runs: Runs = None,
) -> ImportDocument:
    """Take in answers and verdicts made elsewhere.

    Nothing that a file holds is asked or paid for. RUN may be a manifest whose run is not begun, also one without
    [[models]]: the run begins with the import.

    --predictions: a model's answers, judged by the run's jury at the next `run` and ranked beside the others.
    layton-eval's result files (`custom_id`, JSON in `answer`) are predictions as they are.
    --verdicts: layton-eval's judge files (`custom_id`, `answer`, `model`) on a model of the run, or on the one that
    comes with --predictions. --eee: the models of Every Eval Ever lines, with the verdicts in our own exports.
    --results: what a provider answered to files of `plan --out` that you sent yourself; they count in the bill, and the
    next `run` asks what they lack. Files
    are checked as a whole before anything changes; the same import twice changes nothing. Ends with 75 where another
    process drives the run.

    Labels are taken in by `label import`.
    """
    settings = environment()
    with as_files({} if predictions is None else named_sources(predictions, "predictions")) as given:
        files = ImportedFiles(
            model, Path(given[0]) if given else None, tuple(map(Path, names_of(verdicts, "verdicts"))),
            tuple(map(Path, names_of(eee, "eee"))), family, tuple(map(Path, names_of(results, "results"))),
        )  # fmt: skip
        files.check()
        with open_for_import(run_name(run), runs_folder(runs, settings), settings) as opened:
            entered = import_answers(opened, files, settings, lambda line: warn((line,)))
            has_options = any(isinstance(item.payload.get("options"), list) for item in opened.items)
    if isinstance(predictions, str | Path) and has_options:
        order = (
            f"letters of {predictions} are read in the order in which {opened.id} shows the options; if the model saw "
            f"another order, use `layton-batch grade {opened.task.name} --predictions {predictions} --items FILE`"
        )
        warn((order,))
    return ImportDocument(tuple(one_line(_summary(result)) for result in entered), entered)


def _summary(entry: ImportResult) -> str:
    parts = [plural(entry.answers, "answer") if entry.is_new else "nothing new of its answers"]
    if entry.missing:
        parts.append(f"{plural(len(entry.missing), 'item')} of the run without one ({first_of(entry.missing)})")
    if entry.unparsed:
        parts.append(
            f"{entry.unparsed} in another form than the task asks for, counted as wrong (a plain answer belongs in "
            "a column 'answer')"
        )
    if entry.verdicts:
        parts.append(plural(entry.verdicts, "verdict"))
    if entry.to_ask:
        parts.append(f"{plural(entry.to_ask, 'verdict')} to be asked for by the next `run`")
    times = "" if entry.hints is None else f" with {entry.hints} hints"
    times += "" if entry.sample == 1 else f", sample {entry.sample}"
    return f"{entry.model}{times}: {', '.join(parts)}"
