"""label plan: the answers that people should label next."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import orjson
import polars as pl
import typer

from layton_batch.columns import DATA, Column, Table
from layton_batch.commands.notes import warn
from layton_batch.commands.parameters import (
    JurySources,
    Runs,
    ThisSet,
    environment,
    names_of,
    runs_folder,
)
from layton_batch.commands.sources import named_sources, read_judged_sources
from layton_batch.errors import DataError, ManifestError
from layton_batch.files import atomic
from layton_batch.files.sources import file_rows, user_path
from layton_batch.grading.board_sources import BoardOptions, run_sources
from layton_batch.reports.label_sheet import (
    SheetTexts,
    count_filled_rows,
    is_row_to_label,
    sheet_csv,
    sheet_row,
    sheet_texts,
)
from layton_batch.reports.table import Document, heading, say_line, show
from layton_batch.runs.folders import find_run
from layton_batch.runs.open import read_run
from layton_batch.scoring.annotations import AnswerKey, label_row
from layton_batch.scoring.compare import find_entrant
from layton_batch.scoring.evidence import VOTES
from layton_batch.scoring.label_plan import LabellingPlan, LabelTarget, ModelPlan, plan_next
from layton_batch.text import percent, plural

_SHOWN_ROWS = 10
MODELS: tuple[Column[ModelPlan], ...] = (
    Column("model", is_text=True),
    Column("provider", surfaces=DATA),
    Column("n_hints", "hints"),
    Column("labels", "to label"),
    Column("unlabelled"),
    Column("half_width_now", "now", "{:.2f}"),
    Column("half_width_then", "expected", "{:.2f}"),
    Column("half_width_least", "with all", "{:.2f}"),
)
"""Labels to add to each model, and half widths in points."""


@dataclass(frozen=True, slots=True)
class LabelPlanDocument(Document):
    """Answers to label, the most useful first, and what the labels will do. ``is_written``: a file has all answers."""

    plan: LabellingPlan
    is_written: bool

    @property
    def frame(self) -> pl.DataFrame:
        """Return a row an answer, the most useful first."""
        schema = {name: VOTES[name] for name in AnswerKey._fields}
        return pl.DataFrame(list(self.plan.rows), schema, orient="row")

    def show(self) -> None:
        """Print labels by model with half widths before and after, and the first answers to label."""
        plan, labels = self.plan, plural(len(self.plan.rows), "label")
        heading(f"{labels} to add · half widths for {plan.target} at {percent(plan.level)}, in points")
        show(Table(MODELS, plan.models))
        if limited := _out_of_reach(plan):
            say_line(limited)
        for row in plan.rows[:_SHOWN_ROWS]:
            say_line(f"{row.item_id}  {row.model}")
        if len(plan.rows) > _SHOWN_ROWS:
            advice = "" if self.is_written else ": --out FILE writes them all, as .csv or .jsonl"
            say_line(f"and {len(plan.rows) - _SHOWN_ROWS} more{advice}", "dim")

    def as_json(self) -> object:
        rows = [row._asdict() for row in self.plan.rows]
        return asdict(self.plan) | {"models": Table(MODELS, self.plan.models).records(), "rows": rows}


def _out_of_reach(plan: LabellingPlan) -> str:
    """Say where the items, and not the labels, keep intervals from the half width that was asked for."""
    least = [model.half_width_least for model in plan.models if model.half_width_least > (plan.half_width or math.inf)]
    if not least:
        return ""
    models = "the interval" if len(least) == 1 else f"the intervals of {len(least)} models"
    return (
        f"More labels cannot make {models} shorter than ±{min(least):.1f}"
        f"{'' if len(least) == 1 else f' to ±{max(least):.1f}'}; more items can. "
        "For these items alone: --this-set."
    )


def label_plan(
    source: JurySources = None,
    *,
    half_width: Annotated[float | None, typer.Option("--half-width", help="In points of 100: 1.0 is ± 1 %.")] = None,
    labels: Annotated[int | None, typer.Option("--labels", help="How many labels there is time for.")] = None,
    this_set: ThisSet = False,
    out: Annotated[
        str | Path | None,
        Path | None,
        typer.Option("--out", metavar="FILE", help="Write the answers to label into this .csv or .jsonl file."),
    ] = None,
    models: str | Sequence[str] = (),
    metric: str | None = None,
    runs: Runs = None,
) -> LabelPlanDocument:
    """Choose the answers that people should label next.

    Either until every interval is short enough, or to make the best of so many labels.

    --out: a row an answer, of runs with question, reference and answer, so that anyone can label in a spreadsheet:
    fill in answer_correct (true, false) and justification_correct; `label import RUN FILE` takes the file back.
    Only a FILE of `label plan` in which nobody filled in a row is replaced.
    \f
    In Python ``models`` names the only models to label.
    """
    target = LabelTarget(None if half_width is None else half_width / 100, labels, this_set)
    path = None if out is None else user_path(out)
    if path is not None:
        _check_replaceable(path)
    board = read_judged_sources(source, BoardOptions(metric=metric), runs).rounds[0]
    plan = plan_next(board, target, [find_entrant(board.entrants, name) for name in names_of(models, "models")])
    unlabelled = sum(model.unlabelled for model in plan.models)
    if labels is not None and unlabelled < labels:
        few = plural(unlabelled, "answer of these models is", "answers of these models are")
        warn((f"only {few} without a label; --labels asks for {labels}",))
    if path is not None:
        _write_sheet(path, plan.rows, source, runs)
    return LabelPlanDocument(plan, path is not None)


def _check_replaceable(path: Path) -> None:
    """Raise ManifestError for another ending, and unless a file at the path is a label plan without labels and notes
    of people."""
    if path.suffix.lower() not in (".csv", ".jsonl"):
        raise ManifestError(f"label plan: --out {path}: name a file that ends in .csv or .jsonl")
    if not path.is_file():
        return
    try:
        rows = [label_row(row, location) for location, row in file_rows(path, str(path))]
    except DataError as error:
        raise ManifestError(f"label plan: --out {path}: name another file: {error}") from error
    if not all(map(is_row_to_label, rows)):
        raise ManifestError(f"label plan: --out {path}: the file there is not of `label plan`; name another file")
    if filled := count_filled_rows(rows):
        raise ManifestError(
            f"label plan: --out {path}: {plural(filled, 'row')} filled in, which would be replaced: import them "
            f"(`layton-batch label import RUN {path}`) and name another file"
        )


def _write_sheet(path: Path, answers: Sequence[AnswerKey], source: object, runs: str | Path | None) -> None:
    """Write the answers to label, with the texts of the runs among the sources."""
    settings, texts = environment(), dict[AnswerKey, SheetTexts]()
    place = runs_folder(runs, settings)
    names = [name for name in named_sources(source).values() if isinstance(name, str)]
    for name in run_sources(names, place) if names or source is None else ():
        with read_run(find_run(name, place), settings) as run:
            texts |= sheet_texts(run)
    shown = [texts.get(answer) for answer in answers]
    rows = [sheet_row(answer, text) for answer, text in zip(answers, shown, strict=True)]
    is_csv = path.suffix.lower() == ".csv"
    atomic.write_bytes(path, sheet_csv(rows) if is_csv else b"".join(orjson.dumps(row) + b"\n" for row in rows))
    warn((f"{len(rows)} predictions to label: {path}",))
    if pictures := sum(bool(text[1].images) for text in shown if text):
        warn((f"{pictures} of them are about a picture, which a table does not show: `label` does",))
