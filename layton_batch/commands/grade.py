"""grade: bring your own predictions."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, TypeAlias, cast

import polars as pl
import typer

from layton_batch.columns import text_table
from layton_batch.commands.notes import warn
from layton_batch.commands.parameters import Runs, environment, names_of, runs_folder
from layton_batch.errors import DataError, ManifestError
from layton_batch.files import atomic
from layton_batch.grading.submissions import (
    DEFAULT_SPLIT,
    GradedModel,
    SearchSettings,
    check_option,
    chosen_metric,
    form_of,
    graded_by_rule,
    items_of,
    ranked,
    submissions,
    to_json,
)
from layton_batch.grading.submissions import grade as grade_submission
from layton_batch.manifest.asked import BUNDLED
from layton_batch.manifest.item_check import FIRST_IS_NEVER_RIGHT, first_is_never_right
from layton_batch.records import JsonValue
from layton_batch.reports.leaderboard_tables import Leaderboard
from layton_batch.reports.table import Document, print_table, say_line
from layton_batch.tasks import grade_help, load_task
from layton_batch.tasks.offline import Document as Report
from layton_batch.tasks.offline import FileRow, GradingOptions, OfflineForm, json_text
from layton_batch.tasks.protocol import TaskOptions, mark_span
from layton_batch.text import NONE, first_of, one_line, percent, plural, range_text

PICTURES, STDOUT, JSON = (".svg", ".png"), "-", "json"


@dataclass(frozen=True, slots=True)
class GradeDocument(Document):
    """Reports of models by a benchmark's rules. ``board``: None for every run, and for one file whose items cannot be
    on a board; ``is_one``: whether it is of one file.

    ``table_file``: the file for the benchmark's own table, if that was asked for; ``output``: the file that the
    benchmark's own program writes beside the predictions.
    """

    task: str
    form: OfflineForm
    metric: str
    models: Sequence[GradedModel]
    ensembles: Mapping[str, Report]
    board: pl.DataFrame | None
    notes: Sequence[str]
    is_one: bool
    table_file: str | None
    output: Path | None

    @property
    def reports(self) -> Mapping[str, Report]:
        """Return the reports of models and ensembles by name, in the order given."""
        reports = {model.name: model.document for model in self.models if model.document is not None}
        return {**reports, **self.ensembles}

    @property
    def leaderboard(self) -> Leaderboard:
        """Return the board of several files, or of the one file. Raises DataError for a file that has none."""
        if self.board is None:
            raise DataError("grade: these items cannot be on a leaderboard: some have several predictions, or none")
        return Leaderboard(self.board)

    @property
    def table(self) -> str | None:
        """Return the benchmark's own table as Markdown, if that was asked for."""
        return None if self.table_file is None else self.form.table(self.reports)

    def as_json(self) -> Report:
        text = json_text(self._content()).encode("utf-8", "replace")  # JSON in UTF-8 has no lone surrogates
        return cast("Report", json.loads(text))

    def _content(self) -> Report:
        """Return the report of one file; for several files the models in the order given, with their rows on the
        board."""
        board, samples, ranking = self.board, self.form.asked.samples, dict[str, JsonValue]()
        rows: list[JsonValue] = [{"name": name, **report} for name, report in self.ensembles.items()]
        ensembles: Report = {"ensembles": rows} if rows else {}
        if self.is_one:
            return {**(self.models[0].document or {}), **ensembles}
        if board is not None:
            ranking = {"metric": self.metric, **({} if samples is None else {"samples": samples})}
            ranking |= {"n_items": max(board["n_items"], default=0), "notes": list(self.notes)}
        models: list[JsonValue] = [
            {
                "name": model.name,
                "source": model.where,
                **({} if board is None else to_json(board, model)),
                "report": model.document,
            }
            for model in self.models
        ]
        return {"task": self.task, "protocol": self.form.protocol, **ranking, "models": models, **ensembles}

    def show(self) -> None:
        if self.table_file == STDOUT:
            sys.stdout.write(self.table or "")
        elif self.form.asked.every_run:
            _print_reports("every run", self.reports)
        elif self.output is not None:
            sys.stdout.write(f"{json_text(self.as_json())}\n")
        elif self.board is None or self.is_one:
            lines = [*_totals(self._content()), *self._interval()]
            print_table(text_table(self.task, ["metric", "value"], lines), first=True)
        else:
            if self.board.height:
                self.leaderboard.show()
            for note in self.notes:
                say_line(note, "yellow")
            _print_reports("reports", self.reports)

    def _interval(self) -> Iterator[tuple[str, str]]:
        """Yield the interval that the one file would have on a board with others, as name and text."""
        ends = () if self.board is None else self.board.select("level", "lower", "upper").drop_nulls().iter_rows()
        for level, lower, upper in ends:
            name = self.metric.replace("_", " ")
            yield f"{name}: {percent(level)} CI (new items)", f"{range_text(lower, upper)} %"

    def files(self, chart: Path | None) -> Iterator[tuple[Path, bytes]]:
        """Yield path and content of each file to write. Raises DataError for a picture without data."""
        if self.output is not None:
            yield self.output, json_text(self.as_json()).encode("utf-8", "replace")
        if self.table_file not in (None, STDOUT):
            yield Path(self.table_file or ""), (self.table or "").encode("utf-8", "replace")
        if chart is not None:
            from layton_batch.drawing import rendered  # loads the renderer

            picture = self.form.chart(self.reports, one_line(self.form.asked.benchmark or ""))
            yield chart, rendered(picture, chart.suffix)


GradeFile: TypeAlias = str | Path | None


def grade(
    task: Annotated[str | None, str | None, typer.Argument(metavar="TASK", help=grade_help.TASK)],
    predictions: Annotated[
        str | Path | Sequence[str | Path],
        list[str] | None,
        typer.Option("--predictions", metavar="[NAME=]FILE|FOLDER|RUN", help="Repeat it to rank several models."),
    ],
    *,
    items: Annotated[
        GradeFile,
        Path | None,
        typer.Option("--items", help="The gold, or `bundled`; may be left out if rows carry it."),
    ] = None,
    protocol: Annotated[str | None, typer.Option("--protocol", help=grade_help.PROTOCOL)] = None,
    metric: Annotated[str | None, typer.Option("--metric", help=grade_help.METRIC)] = None,
    samples: Annotated[str | None, typer.Option("--samples", metavar="MODE", help=grade_help.SAMPLES)] = None,
    updated: Annotated[GradeFile, Path | None, typer.Option("--updated", help=grade_help.UPDATED)] = None,
    table: Annotated[GradeFile, str | None, typer.Option("--table", metavar="FILE.md", help=grade_help.TABLE)] = None,
    chart: Annotated[
        GradeFile, Path | None, typer.Option("--chart", metavar="FILE.svg|png", help=grade_help.CHART)
    ] = None,
    ensemble: Annotated[
        str | Sequence[str] | None,
        list[str] | None,
        typer.Option("--ensemble", metavar="NAME=MODEL,MODEL,…", help=grade_help.ENSEMBLE),
    ] = None,
    benchmark: Annotated[str | None, typer.Option("--benchmark", help=grade_help.BENCHMARK)] = None,
    every_run: Annotated[bool, typer.Option("--every-run", help=grade_help.EVERY_RUN)] = False,
    runs: Runs = None,
    shown_as: str = JSON,
) -> GradeDocument:
    sources, table_file = names_of(predictions, "predictions"), None if table is None else str(table)
    settings = environment()
    if task is None or not sources:
        tasks = ", ".join(graded_by_rule())
        raise ManifestError(f"grade: give TASK and --predictions FILE; tasks that rules grade: {tasks}")
    if table_file == STDOUT and shown_as == JSON:
        raise ManifestError("grade: --table - and --json both write on stdout; give --table a file")
    groups, options = _groups(names_of(ensemble, "ensemble")), GradingOptions(samples, benchmark, every_run)
    form = form_of(task, protocol, options)
    ranked_by = chosen_metric(task, form, metric)
    given = {
        "--samples": samples, "--updated": updated, "--every-run": every_run, "--chart": chart, "--table": table,
        "--ensemble": groups, "--benchmark": benchmark,
    }  # fmt: skip
    for option in filter(given.get, given):
        check_option(form, option)
    drawn, updated_file = (None if name is None else Path(name) for name in (chart, updated))
    if drawn is not None and drawn.suffix.lower() not in PICTURES:
        raise ManifestError(f"grade: --chart {chart}: a picture's name ends in {' or '.join(PICTURES)}")
    output = None if shown_as == JSON else _own_output(form, sources)
    table_path = Path(table_file) if table_file and table_file != STDOUT else None
    _check_files(filter(None, (output, updated_file, drawn, table_path)), filter(None, (*sources, items)))
    items_file = load_task(task, TaskOptions(DEFAULT_SPLIT)).bundled(DEFAULT_SPLIT) if str(items) == BUNDLED else items
    entries = submissions(sources, SearchSettings(task, form, runs_folder(runs, settings), settings))
    if updated_file is not None and len(entries) != 1:
        raise ManifestError(f"grade: --updated is for the predictions of one model; here are {len(entries)}")
    gold = None if items_file is None else items_of(form, form.rows(Path(items_file), settings))
    updated_rows: list[FileRow] | None = None if updated_file is None else []
    with_rows = shown_as == JSON or output is not None
    models = [grade_submission(entry, gold, ranked_by, updated_rows, with_rows=with_rows) for entry in entries]
    _warn_of_predictions(models)
    if gold and first_is_never_right(gold):
        warn((f"{items}: {FIRST_IS_NEVER_RIGHT}",))
    is_one = len(entries) == 1 and entries[0].is_file and not every_run
    is_ranked = models[0].twice is None and models[0].marks["mark"].count() > 0 if is_one else not every_run
    board, notes = ranked(models, ranked_by, mark_span(form.task, ranked_by)) if is_ranked else (None, [])
    document = GradeDocument(
        task, form, ranked_by, models,
        {name: _ensemble(form, name, names, models) for name, names in groups.items()},
        board, notes, is_one, table_file, output,
    )  # fmt: skip
    files = list(document.files(drawn))
    if updated_file is not None:
        files.append((updated_file, json_text(updated_rows).encode("utf-8", "replace")))
    for path, content in files:
        atomic.write_bytes(path, content)
    return document


grade.__doc__ = f"""Grade predictions by a benchmark's rules.

One file gives its report. Several, a folder of files or a run give a leaderboard with rank boxes. {grade_help.FORMS}
A benchmark that an entry point adds takes --items in its own form, and predictions with item_id and response.
\f
All files are made before the first is written: what cannot be drawn leaves nothing behind. ``shown_as``: ``json`` gives
reports a row a prediction; ``table`` also writes the file that the benchmark's own program writes. Raises
ManifestError, DataError, FileError.
"""


# ---- arguments -----------------------------------------------------------------------------------------------------


def _groups(texts: Sequence[str]) -> dict[str, tuple[str, ...]]:
    """Return the models of each named ensemble. Raises ManifestError for what is no NAME=MODEL,MODEL."""
    groups: dict[str, tuple[str, ...]] = {}
    for text in texts:
        name, _, listed = text.partition("=")
        models = tuple(dict.fromkeys(model.strip() for model in listed.split(",") if model.strip()))
        if not name.strip() or len(models) < 2 or name.strip() in groups:
            raise ManifestError(f"grade: --ensemble {text!r}: a new NAME=MODEL,MODEL with two models or more")
        groups[name.strip()] = models
    return groups


def _own_output(form: OfflineForm, sources: Sequence[str]) -> Path | None:
    """Return the file that the benchmark's own program writes for one file of predictions, if it writes one."""
    path = Path(sources[0])
    has_output = form.default_output is not None and len(sources) == 1 and path.is_file()
    return path.with_name(form.default_output or "") if has_output else None


def _check_files(written: Iterable[Path], read: Iterable[str | Path]) -> None:
    """Raise ManifestError before the work for a file that is written twice, is read too, or cannot be written."""
    paths, inputs = list(written), {Path(name).absolute() for name in read}
    for path in paths:
        if [each.absolute() for each in paths].count(path.absolute()) > 1:
            raise ManifestError(f"grade: {path} is to be written twice")
        if path.absolute() in inputs:
            raise ManifestError(f"grade: {path} is read; write into another file")
        if path.is_dir():
            raise ManifestError(f"grade: {path} is a folder; name a file to write")
        folder = next(parent for parent in path.absolute().parents if parent.exists())
        if not folder.is_dir() or not os.access(folder, os.W_OK):
            raise ManifestError(f"grade: {path} cannot be written: {folder} is no folder that we may write in")


# ---- grading -------------------------------------------------------------------------------------------------------


def _warn_of_predictions(graded: Iterable[GradedModel]) -> None:
    """Say of each model which items have no prediction, and are in none of its figures, or have several."""
    for model in graded:
        sentences = list(model.notes)
        if model.twice is not None:
            sentences.insert(0, f"item {model.twice!r} has several predictions, and each counts in the figures")
        if model.unanswered:
            items = plural(len(model.unanswered), "item has", "items have")
            ids = first_of(model.unanswered, 5)
            sentences.insert(0, f"{items} no prediction ({ids}); the figures are of the others")
        warn(one_line(f"{model.name}: {sentence}") for sentence in sentences)


def _ensemble(form: OfflineForm, name: str, names: Sequence[str], models: Sequence[GradedModel]) -> Report:
    """Report models as one. Raises ManifestError for an unknown name and for models without a common item."""
    frames = {model.name: model.frame for model in models if model.frame is not None}
    if unknown := [model for model in names if model not in frames]:
        raise ManifestError(
            f"grade: --ensemble {name}: there are no replies of {', '.join(unknown)}, only of {', '.join(frames)}"
        )
    try:
        return form.ensemble([frames[model] for model in names])
    except DataError as error:
        raise ManifestError(f"grade: --ensemble {name}: {error}") from error


# ---- texts ---------------------------------------------------------------------------------------------------------


def _totals(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the totals of a report as name and text; lists of rows are left out."""
    for name, value in report.items():
        match value:
            case Mapping() if "mean" not in value:
                group = "" if name in ("metrics", "summary") else f"{name}: "
                yield from ((f"{group}{part}", text) for part, text in _totals(value))
            case [int() | float() as total, int() as count, *_]:
                yield name, f"{total} of {count}"
            case list():
                continue
            case _:
                yield name, _shown(value, " %")


def _shown(value: JsonValue, sign: str = "") -> str:
    """Return a value of a report as text; a mean and its standard error in percent."""
    match value:
        case {"mean": int() | float() as mean, **rest}:
            error = rest.get("se")
            return f"{100 * mean:.2f}{sign}" + (f" ± {100 * error:.2f}" if isinstance(error, int | float) else "")
        case None:
            return NONE
        case float():
            return f"{value:.4g}"
    return str(value)


def _print_reports(title: str, reports: Mapping[str, Report]) -> None:
    """Print the figures of reports in columns: a report's summary, else its metrics."""
    summaries = {name: report.get("summary") or report.get("metrics") for name, report in reports.items()}
    figures = {name: summary for name, summary in summaries.items() if isinstance(summary, Mapping)}
    columns = list(dict.fromkeys(chain.from_iterable(figures.values())))
    if columns:
        heads = ["model", *(column.replace(" ", "\n") for column in columns)]
        lines = [[name, *(_shown(summary.get(column)) for column in columns)] for name, summary in figures.items()]
        print_table(text_table(title, heads, lines))
