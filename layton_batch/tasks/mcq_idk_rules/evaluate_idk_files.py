"""Replies made elsewhere: evaluate-idk's files, and its table, ensembles and bar chart of several models.

Predictions have ``item_id``, ``response`` (text; null is an empty reply; a list is several replies, of which the best
counts per metric) and, where no items are given, ``gold`` (a letter) and ``n_options`` (real options, default 4). Items
have ``item_id`` or ``id`` and the same two, or their options and the right one in any form of this task. Such items
name no letter: a letter of a prediction means the order of the prediction's own ``options``, else its own ``gold``,
else the order of the options in the file of items. A prediction may have ``finish_reason``: the corrected protocol
reads no answer out of a refusal, and minds that a reply was cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, ClassVar

import polars as pl

from layton_batch.errors import DataError
from layton_batch.records import Grade, Item, JsonValue, Prediction, Response
from layton_batch.settings import Settings
from layton_batch.states import PredictionKind
from layton_batch.tasks.mcq_idk import CORRECTED, McqIdkTask, tag_of
from layton_batch.tasks.mcq_idk_rules import result_files
from layton_batch.tasks.mcq_idk_rules.mcq_items import MAX_OPTIONS, MIN_OPTIONS, in_order_of, item_from, option_letters
from layton_batch.tasks.mcq_idk_rules.metrics import METRICS, McqGrade, best_of
from layton_batch.tasks.mcq_idk_rules.published_table import (
    TableRow,
    ensemble_votes,
    markdown,
    ordered,
    vote_estimates,
)
from layton_batch.tasks.offline import (
    Columns,
    Document,
    FileRow,
    GradingOptions,
    ModelFile,
    OfflineForm,
    as_json,
    estimates_in,
    id_in,
    no_response,
    response,
)
from layton_batch.text import first_of, plural

if TYPE_CHECKING:
    import altair as alt

DEFAULT_OPTIONS = 4
_OPTION_COLUMNS = frozenset({"options", "choices", "correct answer", "a", "option_a"})


class McqForm(OfflineForm):
    """evaluate-idk's form."""

    options: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("--chart", "--table", "--ensemble", "--benchmark", "--every-run"), ""
    )
    id_columns = ("item_id", "id", "sample_id")
    gold_columns = ("gold", "n_options")
    columns: ClassVar[Columns] = {"letter": pl.String, "in_order_of_items": pl.Boolean}
    shown = ("letter",)
    metrics = ("idk_score", "trad_score")

    def __init__(self, task: McqIdkTask, options: GradingOptions) -> None:
        super().__init__(task, options)
        self.protocol, self._key = task.protocol, task.key

    # ---- files to frames -------------------------------------------------------------------------------------------

    def models(self, path: Path) -> Sequence[ModelFile]:
        if path.is_dir():
            replies, totals = result_files.results_in(path, self.asked.benchmark, every_run=self.asked.every_run)
            published = (ModelFile(name, Path(result.path), _totals(result)) for name, result in totals.items())
            return [*(ModelFile(name, file) for name, file in replies.items()), *published]
        if totals := result_files.totals_in(path):
            result = totals[result_files.chosen(set(totals), str(path), self.asked.benchmark)]
            return [ModelFile(result.model.rpartition("/")[2], path, _totals(result))]
        is_detail = path.match(result_files.DETAILS)
        return [ModelFile(result_files.detail_of(path.absolute())[0] if is_detail else path.stem, path)]

    def rows(self, path: Path, settings: Settings) -> Iterable[FileRow]:
        rows = iter(super().rows(path, settings))
        first = next(rows)  # there is one, or reading has raised
        rows = chain([first], rows)
        return result_files.detail_rows(rows, str(path)) if result_files.is_detail(first) else rows

    def items(self, rows: Iterable[FileRow]) -> Sequence[Item]:
        items_by_id: dict[str, Item] = {}
        for number, row in enumerate(rows, 1):
            if row.get("gold") is None and not _OPTION_COLUMNS.isdisjoint(name.strip().lower() for name in row):
                item = item_from(row, number, split="", seed=None)
            else:
                name = id_in(row, self.id_columns, f"item row {number}")
                item = _item(name, row, f"item row {number} (item {name!r})")
            if self._key(items_by_id.setdefault(item.id, item)) != self._key(item):
                raise DataError(f"item row {number}: item {item.id!r} is there twice, with different gold")
        return list(items_by_id.values())

    def _item(self, row: FileRow, where: str) -> Item:
        if row.get("gold") is None:
            raise DataError(
                f"{where}: nothing says which letter is right: give the items with --items FILE, or the predictions a "
                "column 'gold'"
            )
        return _item(id_in(row, self.id_columns, where), row, where)

    def _chosen(self, items: Sequence[Item], row: FileRow, where: str) -> Item:
        item = super()._chosen(items, row, where)
        if "order" not in item.payload:
            return item  # the file of items names the letter
        if row.get("options") is not None:
            return in_order_of(row["options"], item, where)
        if row.get("gold") is not None:
            return self._item(row, where)
        if item.payload["order"] is None:
            raise DataError(
                f"{where}: the items' columns 'Correct Answer' and 'Incorrect Answer 1' … have no order, so that no "
                "letter has a meaning: give the predictions a column 'options' (as the model saw them) or 'gold'"
            )
        return item

    def _grade(self, item: Item, row: FileRow, where: str) -> tuple[Prediction, Grade]:
        self._check_text(row, where)
        answer = row["response"]
        if isinstance(answer, list) and answer:
            return _best(item, [self._judged(item, _reply(part, row, where)) for part in answer])
        return self._judged(item, _reply("" if answer == [] else answer, row, where))

    def _record(self, row: FileRow, item: Item, prediction: Prediction, grade: Grade) -> dict[str, object]:
        in_order = "order" in item.payload and row.get("options") is None
        record = super()._record(row, item, prediction, grade)
        return {**record, "letter": prediction.answer, "in_order_of_items": in_order}

    # ---- frames to documents ---------------------------------------------------------------------------------------

    def notes(self, frame: pl.DataFrame) -> Sequence[str]:
        notes = []
        if frame["in_order_of_items"].any():
            notes.append(
                "letters are read in the order of the options in the file of items; if the model saw another order, "
                "give the predictions a column 'options' (as the model saw them) or 'gold' (the right letter)"
            )
        if unread := frame.filter(kind=str(PredictionKind.UNPARSED))["item_id"].to_list():
            replies = plural(len(unread), "reply counts", "replies count")
            notes.append(
                f"{replies} as wrong because no letter can be read ({first_of(unread)}): a reply says its letter as in "
                "`Answer: B`"
            )
        return notes

    def ensemble(self, frames: Sequence[pl.DataFrame]) -> Document:
        votes = ensemble_votes(frames)
        if not votes:
            raise DataError("they have no item in common")
        return {"metrics": as_json(vote_estimates(votes)), "n": len(votes)}

    def table(self, documents: Mapping[str, Document]) -> str:
        return markdown(_table_rows(documents)) + "\n"

    def chart(self, documents: Mapping[str, Document], title: str) -> alt.LayerChart:
        from layton_batch.tasks.mcq_idk_rules.bar_chart import bar_chart

        return bar_chart(_table_rows(documents), title, clip_negative=self.protocol != CORRECTED)


def _totals(result: result_files.ResultFile) -> Document:
    return {"metrics": as_json(result.estimates), "n": None, "rows": []}


def _table_rows(documents: Mapping[str, Document]) -> list[TableRow]:
    return ordered(TableRow(name, estimates_in(document)) for name, document in documents.items())


# ---- rows ----------------------------------------------------------------------------------------------------------


def _item(name: str, row: FileRow, where: str) -> Item:
    """An item of which no more is known than what grading needs."""
    listed, n_options = row.get("options"), row.get("n_options")
    if n_options is None:
        n_options = len(listed) if isinstance(listed, list) else DEFAULT_OPTIONS
    if isinstance(n_options, float) and n_options.is_integer():
        n_options = int(n_options)
    if isinstance(n_options, bool) or not isinstance(n_options, int) or not MIN_OPTIONS <= n_options <= MAX_OPTIONS:
        raise DataError(f"{where}: n_options is {n_options!r}; it must be {MIN_OPTIONS} to {MAX_OPTIONS}")
    gold = row.get("gold")
    letter = gold.strip().upper() if isinstance(gold, str) else ""
    if len(letter) != 1 or letter not in ascii_uppercase[:n_options]:
        last = ascii_uppercase[n_options - 1]
        advice = "; a file of items has a column gold, or options and answer" if gold is None else ""
        raise DataError(f"{where}: gold is {str(gold)[:80]!r}; it must be a letter from A to {last}{advice}")
    is_whole = isinstance(listed, list) and len(listed) == n_options
    options: JsonValue = listed if is_whole else list(option_letters(n_options))
    return Item(name, "", "", "", payload={"options": options, "gold": letter})


def _reply(value: JsonValue, row: FileRow, where: str) -> Response:
    if value is None:
        return no_response("no reply") if row.get("is_missing") is True else response("", row)
    if not isinstance(value, str):
        raise DataError(f"{where}: column 'response' must be text or null, not {type(value).__name__}")
    return response(value, row)


def _best(item: Item, replies: Sequence[tuple[Prediction, Grade]]) -> tuple[Prediction, Grade]:
    """Return several replies as one: the best mark of every metric, and all letters."""
    first = replies[0][0]
    marks = best_of([McqGrade(*(int(grade.marks[name]) for name in METRICS)) for _, grade in replies])
    letters = dict.fromkeys(prediction.answer for prediction, _ in replies if prediction.answer is not None)
    kind = PredictionKind.ABSTAINED if marks.idk_freq else PredictionKind.ANSWERED
    kind = PredictionKind.UNPARSED if marks.extract_fail else kind
    best = Prediction(item.id, first.model, kind, ",".join(letters) or None, ending=first.ending)
    values = {name: float(value) for name, value in marks.as_dict().items()}
    return best, Grade(item.id, first.model, values, tag_of(marks.outcome, best))
