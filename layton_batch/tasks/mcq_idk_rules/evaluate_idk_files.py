"""Replies made elsewhere: evaluate-idk's files, and its tables, ensembles and charts of several models.

Predictions have ``item_id``, ``response`` (text; null is an empty reply; a list is several replies, of which the best
counts per metric) and, where no items are given, ``gold`` (a letter) and ``n_options`` (real options, default 4). Items
have ``item_id`` or ``id`` and the same two, or their options and the right one in any form of this task. Such items
name no letter: a letter of a prediction means the order of the prediction's own ``options``, else its own ``gold``,
else the order of the options in the file of items. A prediction may have ``finish_reason``: the corrected protocol
reads no answer out of a refusal, and minds that a reply was cut off.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, ClassVar

from layton_batch.errors import DataError
from layton_batch.records import Grade, Item, JsonValue, Prediction, Response
from layton_batch.settings import Settings
from layton_batch.states import PredictionKind
from layton_batch.tasks.mcq_idk import CORRECTED, McqIdkTask, tag_of
from layton_batch.tasks.mcq_idk_rules import model_report, result_files
from layton_batch.tasks.mcq_idk_rules.mcq_items import MAX_OPTIONS, MIN_OPTIONS, in_order_of, item_from, option_letters
from layton_batch.tasks.mcq_idk_rules.metrics import best_of
from layton_batch.tasks.mcq_idk_rules.model_report import (
    AbstentionReport,
    BoardRow,
    PublishedTotals,
    as_json,
    markdown,
    marks_of,
)
from layton_batch.tasks.offline import (
    FileRow,
    GradedModel,
    GradedSet,
    GradingOptions,
    ModelFile,
    OfflineForm,
    RowsFile,
    item_id,
    no_response,
    response,
)
from layton_batch.text import Table, first_of, plural

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
    metrics = ("idk_score", "trad_score")

    def __init__(self, task: McqIdkTask, options: GradingOptions) -> None:
        super().__init__(task, options)
        self.task, self.protocol = task, task.protocol
        self._reads_order_of_items = False
        self._without_letter: list[str] = []

    # ---- files -----------------------------------------------------------------------------------------------------

    def predictions(self, path: Path, settings: Settings) -> Iterable[FileRow]:
        predictions = iter(super().predictions(path, settings))
        first = next(predictions)  # there is one, else reading has told
        rows = chain([first], predictions)
        return result_files.detail_rows(rows, str(path)) if result_files.is_detail(first) else rows

    def model_file(self, path: Path) -> ModelFile:
        totals = result_files.totals_in(path)
        if totals:
            result = totals[result_files.chosen(set(totals), str(path), self.asked.benchmark)]
            return ModelFile(result.model.rpartition("/")[2], path, PublishedTotals(result.estimates))
        is_detail = path.match(result_files.DETAILS)
        return ModelFile(result_files.detail_of(path.absolute())[0] if is_detail else path.stem, path)

    def model_files(self, folder: Path) -> Sequence[ModelFile]:
        replies, totals = result_files.results_in(folder, self.asked.benchmark, every_run=self.asked.every_run)
        return [
            *(ModelFile(name, path) for name, path in replies.items()),
            *(ModelFile(name, Path(result.path), PublishedTotals(result.estimates)) for name, result in totals.items()),
        ]

    # ---- rows ------------------------------------------------------------------------------------------------------

    def items(self, rows: Sequence[FileRow]) -> Sequence[Item]:
        items_by_id: dict[str, Item] = {}
        for number, row in enumerate(rows, 1):
            if row.get("gold") is None and not _OPTION_COLUMNS.isdisjoint(name.strip().lower() for name in row):
                item = item_from(row, number, split="", seed=None)
            else:
                name = item_id(row, self.id_columns, f"item row {number}")
                item = _item(name, row, f"item row {number} (item {name!r})")
            if self.task.key(items_by_id.setdefault(item.id, item)) != self.task.key(item):
                raise DataError(f"item row {number}: item {item.id!r} is there twice, with different gold")
        return list(items_by_id.values())

    def item(self, row: FileRow, where: str) -> Item:
        if row.get("gold") is None:
            raise DataError(
                f"{where}: nothing says which letter is right: give the items with --items FILE, or the predictions a "
                "column 'gold'"
            )
        return _item(item_id(row, self.id_columns, where), row, where)

    def found(self, items: Sequence[Item], row: FileRow, where: str) -> Item:
        item = super().found(items, row, where)
        if "order" not in item.payload:
            return item  # the file of items names the letter
        if row.get("options") is not None:
            return in_order_of(row["options"], item, where)
        if row.get("gold") is not None:
            return self.item(row, where)
        if item.payload["order"] is None:
            raise DataError(
                f"{where}: the items' columns 'Correct Answer' and 'Incorrect Answer 1' … have no order, so that no "
                "letter has a meaning: give the predictions a column 'options' (as the model saw them) or 'gold'"
            )
        self._reads_order_of_items = True
        return item

    @property
    def notes(self) -> Sequence[str]:
        notes = []
        if self._reads_order_of_items:
            notes.append(
                "letters are read in the order of the options in the file of items; if the model saw another order, "
                "give the predictions a column 'options' (as the model saw them) or 'gold' (the right letter)"
            )
        if self._without_letter:
            replies = plural(len(self._without_letter), "reply counts", "replies count")
            notes.append(
                f"{replies} as wrong because no letter can be read ({first_of(self._without_letter)}): a reply says "
                "its letter as in `Answer: B`"
            )
        return notes

    def grade(self, item: Item, row: FileRow, where: str, model: str) -> tuple[Prediction, Grade]:
        self.check_text(row, where)
        answer = row["response"]
        if isinstance(answer, list) and answer:
            best = _best(item, [self.judged(item, _reply(part, row, where), model) for part in answer])
        else:
            best = self.judged(item, _reply("" if answer == [] else answer, row, where), model)
        if best[0].kind is PredictionKind.UNPARSED:
            self._without_letter.append(item.id)
        return best

    # ---- reports ---------------------------------------------------------------------------------------------------

    def report(self, items: Sequence[Item] | None, updated: RowsFile | None = None) -> AbstentionReport:
        return AbstentionReport(self.asked.keep_rows)

    def tables_of_one(self, model: GradedModel) -> Iterator[Table]:
        return model_report.abstention_of_one(model)

    def unranked(self, graded: GradedSet) -> Iterator[Table]:
        yield from model_report.estimates_table("every run", self._rows(graded))

    def tables(self, graded: GradedSet) -> Iterator[Table]:
        yield from model_report.published_table(graded.models)
        yield from model_report.abstention_of_several(graded)
        yield from model_report.estimates_table("ensembles", self._ensembles(graded))

    def extras(self, graded: GradedSet) -> Mapping[str, JsonValue]:
        rows = self._ensembles(graded)
        listed: list[JsonValue] = [{"name": row.name, "metrics": as_json(row.estimates)} for row in rows]
        return {"ensembles": listed} if rows else {}

    def published_table(self, graded: GradedSet) -> str:
        return markdown(self._rows(graded)) + "\n"

    def chart(self, graded: GradedSet) -> alt.LayerChart:
        from layton_batch.tasks.mcq_idk_rules.bar_chart import bar_chart

        return bar_chart(self._rows(graded), self.asked.title, clip_negative=self.protocol != CORRECTED)

    def _rows(self, graded: GradedSet) -> list[BoardRow]:
        return model_report.table_rows(graded.models, self._ensembles(graded))

    def _ensembles(self, graded: GradedSet) -> list[BoardRow]:
        return model_report.ensembles(graded.models, self.asked.named_ensembles)


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
    """Several replies as one: the best mark of every metric, and all letters."""
    first = replies[0][0]
    marks = best_of([marks_of(grade) for _, grade in replies])
    letters = dict.fromkeys(prediction.answer for prediction, _ in replies if prediction.answer is not None)
    kind = PredictionKind.ABSTAINED if marks.idk_freq else PredictionKind.ANSWERED
    kind = PredictionKind.UNPARSED if marks.extract_fail else kind
    best = Prediction(item.id, first.model, kind, ",".join(letters) or None, ending=first.ending)
    values = {name: float(value) for name, value in marks.as_dict().items()}
    return best, Grade(item.id, first.model, values, tag_of(marks.outcome, best))
