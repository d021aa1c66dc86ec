"""Replies made elsewhere: evaluate-idk's files, and its table, ensembles and bar chart of several models.

Predictions have ``item_id``, ``response`` (text; null is an empty reply; a list is several replies, of which the best
counts per metric) and, where no items are given, ``gold`` (a letter) and ``n_options`` (real options, default 4). Items
have ``item_id`` or ``id`` and the same two, or their options and the right one in any form of this task. Such items
name no letter: a letter of a prediction means the order of the prediction's own ``options``, else its own ``gold``,
else the order of the options in the file of items. A prediction may have ``finish_reason``: the corrected protocol
reads no answer out of a refusal, and minds that a reply was cut off.

lighteval writes evaluate-idk's own files below a folder ``results``: ``results/<model>/results_<time>.json`` has the
totals of a run, and ``details/<model>/<time>/details_<task>_<time>.parquet`` its replies, a row a question, with
``doc`` (query, choices, gold_index, id) and ``model_response`` (text).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from string import ascii_uppercase
from typing import TYPE_CHECKING, ClassVar, TypeVar

import polars as pl

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import Grade, Item, JsonValue, Prediction, Response
from layton_batch.settings import Settings
from layton_batch.states import PredictionKind
from layton_batch.tasks.mcq_idk.items import (
    MAX_OPTIONS,
    MIN_OPTIONS,
    in_order_of,
    item_from,
    item_key,
    option_letters,
)
from layton_batch.tasks.mcq_idk.metrics import ABSTAINED, CORRECT, METRICS, NO_LETTER, WRONG, best_of
from layton_batch.tasks.mcq_idk.published_table import (
    TableRow,
    ensemble_votes,
    markdown,
    ordered,
    vote_estimates,
)
from layton_batch.tasks.mcq_idk.task import CORRECTED, tag_of
from layton_batch.tasks.offline import (
    Columns,
    Document,
    Estimate,
    FileRow,
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
TOTALS, DETAILS = "results_*.json", "details_*.parquet"
"""The names of lighteval's two kinds of file."""
_OPTION_COLUMNS = frozenset({"options", "choices", "correct answer", "a", "option_a"})
_DAY = len("2025-10-09")
_TIME = re.compile(r"_\d{4}-\d\d-\d\dT[\d.:-]+$")
_Run = TypeVar("_Run")


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

    # ---- files to frames -------------------------------------------------------------------------------------------

    def models(self, path: Path) -> Sequence[ModelFile]:
        if path.is_dir():
            return _models_of_folder(path, self.asked.benchmark, every_run=self.asked.every_run)
        if totals := _totals(path):
            return [totals[_benchmark(set(totals), path, self.asked.benchmark)]]
        return [ModelFile(_detail_of(path)[0] if path.match(DETAILS) else path.stem, path)]

    def rows(self, path: Path, settings: Settings) -> Iterable[FileRow]:
        rows = iter(super().rows(path, settings))
        first = next(rows)  # there is one, or reading has raised
        rows = chain([first], rows)
        is_detail = isinstance(first.get("doc"), Mapping) and isinstance(first.get("model_response"), Mapping)
        return _detail_rows(rows, path) if is_detail else rows

    def items(self, rows: Iterable[FileRow]) -> Sequence[Item]:
        items_by_id: dict[str, Item] = {}
        first_alone = self.protocol != CORRECTED
        for number, row in enumerate(rows, 1):
            if row.get("gold") is None and not _OPTION_COLUMNS.isdisjoint(name.strip().lower() for name in row):
                item = item_from(row, number, split="", seed=None)
            else:
                name = id_in(row, self.id_columns, f"item row {number}")
                item = _item(name, row, f"item row {number} (item {name!r})")
            other = items_by_id.setdefault(item.id, item)
            if item_key(other, first_alone=first_alone) != item_key(item, first_alone=first_alone):
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
        from layton_batch.tasks.mcq_idk.bar_chart import bar_chart  # a second, which tables need not pay

        return bar_chart(_table_rows(documents), title, clip_negative=self.protocol != CORRECTED)


def _table_rows(documents: Mapping[str, Document]) -> list[TableRow]:
    return ordered(TableRow(name, estimates_in(document)) for name, document in documents.items())


# ---- rows ----------------------------------------------------------------------------------------------------------


def _item(name: str, row: FileRow, where: str) -> Item:
    """Make an item of which no more is known than what grading needs."""
    listed, n_options = row.get("options"), row.get("n_options")
    if n_options is None:
        n_options = len(listed) if isinstance(listed, list) else DEFAULT_OPTIONS
    if isinstance(n_options, float) and n_options.is_integer():
        n_options = int(n_options)
    if isinstance(n_options, bool) or not isinstance(n_options, int) or not MIN_OPTIONS <= n_options <= MAX_OPTIONS:
        raise DataError(f"{where}: n_options is {n_options!r}; it must be {MIN_OPTIONS} to {MAX_OPTIONS}")
    gold, letters = row.get("gold"), option_letters(n_options)
    letter = gold.strip().upper() if isinstance(gold, str) else ""
    if len(letter) != 1 or letter not in letters:
        advice = "; a file of items has a column gold, or options and answer" if gold is None else ""
        raise DataError(f"{where}: gold is {str(gold)[:80]!r}; it must be a letter from A to {letters[-1]}{advice}")
    is_whole = isinstance(listed, list) and len(listed) == n_options
    options: JsonValue = listed if is_whole else list(letters)
    return Item(name, "", "", "", payload={"options": options, "gold": letter})


def _reply(value: JsonValue, row: FileRow, where: str) -> Response:
    if value is None:
        return no_response("no reply") if row.get("is_missing") is True else response("", row)
    if not isinstance(value, str):
        raise DataError(f"{where}: column 'response' must be text or null, not {type(value).__name__}")
    return response(value, row)


def _best(item: Item, replies: Sequence[tuple[Prediction, Grade]]) -> tuple[Prediction, Grade]:
    """Return several replies as one: the best mark of every metric, and all letters."""
    first, marks = replies[0][0], best_of([grade.marks for _, grade in replies])
    letters = dict.fromkeys(prediction.answer for prediction, _ in replies if prediction.answer is not None)
    outcome, kind = (WRONG if letters else NO_LETTER), PredictionKind.ANSWERED
    if marks["extract_fail"]:
        kind = PredictionKind.UNPARSED
    elif marks["idk_freq"]:
        outcome, kind = ABSTAINED, PredictionKind.ABSTAINED
    if marks["trad_score"]:
        outcome = CORRECT
    best = Prediction(item.id, first.model, kind, ",".join(letters) or None, ending=first.ending)
    return best, Grade(item.id, first.model, dict(marks), tag_of(outcome, best))


# ---- lighteval's folders -------------------------------------------------------------------------------------------


def _models_of_folder(folder: Path, benchmark: str | None, *, every_run: bool) -> list[ModelFile]:
    """Return the models with replies, and after them those with totals alone.

    Of several runs of a model the one with the largest path counts; with ``every_run`` all do, named by their time.
    """
    details = [(*_detail_of(path), path) for path in sorted(folder.rglob(DETAILS)) if path.is_file()]
    totals = [(name, file) for path in sorted(folder.rglob(TOTALS)) for name, file in _totals(path).items()]
    wanted = _benchmark({name for _, name, _ in details} | {name for name, _ in totals}, folder, benchmark)
    replies = [(model, path) for model, name, path in details if name == wanted]
    published = [file for name, file in totals if name == wanted]
    if every_run:
        graded = _by_date((model, path.parent.name, path) for model, path in replies)
        without = _by_date((file.name, file.path.stem.removeprefix("results_"), file) for file in published)
    else:
        graded, without = dict(replies), {file.name: file for file in published}
    rest = [ModelFile(name, file.path, file.published) for name, file in without.items() if name not in graded]
    return [*(ModelFile(name, path) for name, path in graded.items()), *rest]


def _by_date(runs: Iterable[tuple[str, str, _Run]]) -> dict[str, _Run]:
    """Name runs (model, time, run) by model and day; by the time of day too where a day has several."""
    by_name: dict[str, _Run] = {}
    for model, time, run in runs:
        day = f"{model} ({time[:_DAY]})"
        by_name[f"{model} ({time})" if day in by_name else day] = run
    return by_name


def _benchmark(names: set[str], where: Path, benchmark: str | None) -> str:
    """Return the only benchmark, or the named one. Raises ManifestError where there are several to choose from."""
    if benchmark in names or len(names) <= 1:
        return benchmark if benchmark in names else next(iter(names), "")
    listed = ", ".join(sorted(names))
    if benchmark is None:
        raise ManifestError(f"{where}: holds results of {listed}; --benchmark says which")
    raise ManifestError(f"{where}: holds no results of --benchmark {benchmark!r}, but of {listed}")


def _detail_of(path: Path) -> tuple[str, str]:
    """Return model and benchmark of a details file: the folder above its time, and the middle of its name."""
    path = path.absolute()
    return path.parent.parent.name or path.stem, _task_name(_TIME.sub("", path.stem.removeprefix("details_")))


def _task_name(task: str) -> str:
    """Return the middle of a task's name: ``community|gpqa-diamond-idk|0`` is gpqa-diamond-idk."""
    parts = task.split("|")
    return parts[1] if len(parts) > 1 and parts[1] else task


def _detail_rows(rows: Iterable[FileRow], path: Path) -> Iterator[FileRow]:
    """Yield details as predictions that carry their gold. Raises DataError naming the row in another form."""
    for number, row in enumerate(rows, 1):
        doc, reply = row.get("doc"), row.get("model_response")
        if not isinstance(doc, Mapping) or not isinstance(reply, Mapping):
            raise DataError(f"{path}, row {number}: no columns 'doc' and 'model_response'; is this a details file?")
        choices, gold = doc.get("choices"), doc.get("gold_index")
        first = gold[0] if isinstance(gold, list) and gold else gold
        if not isinstance(choices, list) or isinstance(first, bool) or not isinstance(first, int):
            raise DataError(f"{path}, row {number}: doc has no choices, or no gold_index")
        if not 0 <= first < min(len(choices) - 1, len(ascii_uppercase)):
            raise DataError(f"{path}, row {number}: gold_index {first} is no real option of {len(choices) - 1}")
        name = doc.get("id")
        yield {
            "item_id": name if name not in (None, "") else str(number),
            "gold": ascii_uppercase[first],
            "n_options": len(choices) - 1,  # the last choice is "I don't know"
            "query": doc.get("query"),
            "response": reply.get("text"),
        }


def _totals(path: Path) -> dict[str, ModelFile]:
    """Return a run's published totals by benchmark; empty for a file of another kind. A model's name is what follows
    the last slash; the folder names a model that the document does not name."""
    if path.suffix != ".json":
        return {}
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        results = value["results"]
        general = value.get("config_general") or {}
        config = general.get("model_config") or {}
        model = str(config.get("model_name") or general.get("model_name") or path.parent.name)
        return {
            _task_name(task): ModelFile(
                model.rpartition("/")[2], path, {"metrics": as_json(estimates), "n": None, "rows": []}
            )
            for task, row in results.items()
            if task != "all" and isinstance(row, Mapping) and (estimates := _estimates(row))
        }
    except (OSError, ValueError, RecursionError, KeyError, TypeError, AttributeError):
        return {}


def _estimates(row: FileRow) -> dict[str, Estimate]:
    numbers = {name: _number(row.get(name)) for name in METRICS}
    return {
        name: Estimate(mean, _number(row.get(f"{name}_stderr"))) for name, mean in numbers.items() if mean is not None
    }


def _number(value: JsonValue) -> float | None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e6
    return float(str(value)) if is_number else None
