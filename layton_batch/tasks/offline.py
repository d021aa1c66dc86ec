"""Predictions made elsewhere, graded by a task's own ``parse`` and ``grade``: what ``grade`` needs of a benchmark.

``OfflineForm`` is the plain form, which every rule task has: items in the task's own form, and predictions as rows of
``item_id`` (or ``id``), ``response`` (text; null: no reply came) and, if they like, ``finish_reason`` and ``error``
(why none came). A benchmark with published files and reports of its own derives its form from it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt
from pathlib import Path
from typing import IO, TYPE_CHECKING, ClassVar, Protocol, runtime_checkable

import orjson

from layton_batch.errors import DataError, ManifestError
from layton_batch.files.item_ids import unknown_item
from layton_batch.files.sources import json_list, read_rows, stream_rows
from layton_batch.records import Grade, Item, JsonValue, Prediction, Response
from layton_batch.settings import Settings
from layton_batch.states import FinishReason, RequestOutcome
from layton_batch.tasks import validate_items
from layton_batch.tasks.protocol import RuleTask, mark_span, stratum_of
from layton_batch.text import NONE, Table

if TYPE_CHECKING:
    import altair as alt

FileRow = Mapping[str, JsonValue]
"""A row of a file of predictions or items, as it was read."""
_ENDINGS = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "eos"), FinishReason.STOP),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "truncated"), FinishReason.LENGTH),
    **dict.fromkeys(("refusal", "content_filter", "safety"), FinishReason.REFUSAL),
}


@dataclass(frozen=True, slots=True)
class GradingOptions:
    """Options of ``grade`` that only some benchmarks use. ``samples``: how several outputs make one answer.

    ``named_ensembles``: by name the models that vote as one. ``every_run``: of a folder all runs of a model
    count. ``keep_rows``: include every graded row in the document.
    ``title``: title of charts.
    """

    samples: str | None = None
    named_ensembles: Mapping[str, Sequence[str]] = field(default_factory=dict)
    benchmark: str | None = None
    every_run: bool = False
    keep_rows: bool = True
    title: str = ""


@dataclass(frozen=True, slots=True)
class GradedReply:
    """A row of predictions, graded by its item."""

    row: FileRow
    item: Item
    prediction: Prediction
    grade: Grade


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """Result of an item on a board: its mark (None: outside the score), a kind of ``PredictionKind``, and the failure.

    ``failure``: None for a right answer. ``stratum``: the item's kind, for benchmarks composed of kinds.
    """

    mark: float | None
    kind: str
    failure: str | None
    stratum: str = ""


class Report(Protocol):
    """One model's graded replies, added up as they come."""

    def add(self, reply: GradedReply) -> None: ...

    def document(self) -> dict[str, JsonValue]:
        """The report in the form ``grade`` writes."""
        ...


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of one model. ``published``: its totals, where the file has these and no replies."""

    name: str
    path: Path
    published: Report | None = None


@dataclass(slots=True)
class GradedModel:
    """A model's predictions, graded. ``report`` and ``document`` are None for the mean of several rounds.

    ``outcomes``, by item: only where there will be a board. ``asked``: by item, something that differs where the
    questions do; empty where all models are graded by one file. ``twice``: an item with several predictions.
    ``is_published``: totals alone, without replies.
    ``unanswered``: ids in the file of items that have no prediction.
    """

    name: str
    where: str
    provider: str
    report: Report | None = None
    document: Mapping[str, JsonValue] | None = None
    outcomes: dict[str, ItemOutcome] = field(default_factory=dict)
    asked: dict[str, object] = field(default_factory=dict)
    twice: str | None = None
    n_rows: int = 0
    is_published: bool = False
    n_hints: int = 0
    unanswered: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class GradedSet:
    """Everything that was graded: one of each model in the order given, all rounds by model, and the ranked names."""

    models: Sequence[GradedModel]
    rounds: Mapping[str, Sequence[GradedModel]]
    ranked: Sequence[str] = ()


class OfflineForm:
    """The plain form. ``options``: the options of ``grade`` that the benchmark knows, each with what else to tell those
    who use it elsewhere. ``protocol``: by which it grades, None where it has none. ``no_reply``: what stands in the
    column of texts where no reply came."""

    options: ClassVar[Mapping[str, str]] = {}
    id_columns: Sequence[str] = ("item_id", "id")
    text_column = "response"
    gold_columns: Sequence[str] = ()
    no_reply: JsonValue = None
    protocol: str | None = None

    def __init__(self, task: RuleTask, options: GradingOptions) -> None:
        self.asked = options
        self._task = task

    @property
    def metrics(self) -> Sequence[str]:
        """Return the metrics that can rank a board; the first is the default."""
        return self._task.metrics

    def span(self, metric: str) -> tuple[float, float]:
        """The least and the greatest mark by this metric."""
        return mark_span(self._task, metric)

    # ---- files -----------------------------------------------------------------------------------------------------

    def predictions(self, path: Path, settings: Settings) -> Iterable[FileRow]:
        """A file of predictions. Raises DataError (file, line, reason): not there, empty, in another form."""
        return json_list(path) or stream_rows(settings.cwd / path)

    def item_rows(self, path: Path, settings: Settings) -> Sequence[FileRow]:
        """A file of items. Raises DataError as for predictions."""
        return json_list(path) or read_rows(str(path), settings.cwd, settings)

    def model_file(self, path: Path) -> ModelFile:
        """Identify the model of a file of predictions."""
        return ModelFile(path.stem, path)

    def model_files(self, folder: Path) -> Sequence[ModelFile]:
        """The models of a folder in the benchmark's own layout; none in any other folder."""
        return ()

    # ---- rows ------------------------------------------------------------------------------------------------------

    def items(self, rows: Sequence[FileRow]) -> Sequence[Item]:
        """The items of a file. Raises DataError naming the row that is wrong."""
        items = self._task.items(rows)
        validate_items(items)
        return items

    def item(self, row: FileRow, where: str) -> Item:
        """The item of a prediction that carries it. Raises DataError, or ManifestError where predictions do not."""
        raise ManifestError(f"grade: --items is needed: predictions of {self._task.name} do not carry their items")

    def graded(self, items: Sequence[Item] | None, rows: Iterable[FileRow], model: str) -> Iterator[GradedReply]:
        """Each prediction as the task reads and grades it, one at a time; without ``items`` they carry their own.

        Raises DataError naming the row that is wrong.
        """
        shelf = None if items is None else _by_id(items)
        for number, row in enumerate(rows, 1):
            name, where = self.named(row, number)
            if shelf is not None and name not in shelf:
                raise DataError(f"prediction {number}: {unknown_item(name, shelf)}")
            item = self.item(row, where) if shelf is None else self.found(shelf[name], row, where)
            prediction, grade = self.grade(item, row, where, model)
            if lacking := [metric for metric in self._task.metrics if metric not in grade.marks]:
                raise DataError(f"{where}: task {self._task.name!r} gives no mark for its metric {lacking[0]!r}")
            yield GradedReply(row, item, prediction, grade)

    def named(self, row: FileRow, number: int) -> tuple[str, str]:
        """A prediction's item id, and what errors call the row."""
        name = item_id(row, self.id_columns, f"prediction {number}")
        return name, f"prediction {number} (item {name!r})"

    def found(self, items: Sequence[Item], row: FileRow, where: str) -> Item:
        """Choose the item of a prediction among the items with its id: one at least."""
        return items[-1]

    def grade(self, item: Item, row: FileRow, where: str, model: str) -> tuple[Prediction, Grade]:
        """One prediction by the task itself."""
        return self.judged(item, self.response(row, where), model)

    def judged(self, item: Item, response: Response, model: str) -> tuple[Prediction, Grade]:
        """One reply by the task itself."""
        prediction = self._task.parse(item, model, response)
        return prediction, self._task.grade(item, prediction)

    def check_text(self, row: FileRow, where: str) -> None:
        """Raise DataError where the column of replies is missing."""
        if self.text_column not in row:
            raise DataError(
                f"{where}: column {self.text_column!r} is missing; the columns are {', '.join(row)}: rename the one "
                f"with the model's whole replies to {self.text_column!r}"
            )

    def response(self, row: FileRow, where: str) -> Response:
        """A prediction's reply."""
        if "error" not in row:
            self.check_text(row, where)
        text, error = row.get(self.text_column), row.get("error")
        if text is None:
            return no_response(error if isinstance(error, str) else "no reply")
        if not isinstance(text, str):
            raise DataError(f"{where}: column {self.text_column!r} must be text or null, not {type(text).__name__}")
        return response(text, row)

    @property
    def notes(self) -> Sequence[str]:
        """Return what a reader has to know of how predictions were read."""
        return ()

    # ---- reports ---------------------------------------------------------------------------------------------------

    def report(self, items: Sequence[Item] | None, updated: RowsFile | None = None) -> Report:
        """An empty report. ``items``: what may have been asked, where that is known. ``updated`` takes every prediction
        with its grade, in the forms that know ``--updated``."""
        return PlainReport(self._task.metrics, keep_rows=self.asked.keep_rows)

    def outcome(self, reply: GradedReply, metric: str) -> ItemOutcome:
        """Return the result of an item by one metric."""
        mark, stratum = float(reply.grade.marks[metric]), stratum_of(self._task, reply.item)
        return ItemOutcome(mark, str(reply.prediction.kind), reply.grade.tag, stratum)

    @property
    def default_output(self) -> str | None:
        """Return the file name that one model's report has beside its predictions where nobody names any; None: none
        is written."""
        return None

    def report_text(self, document: JsonValue) -> str:
        """The report of one model as a file."""
        return orjson.dumps(document, option=orjson.OPT_INDENT_2).decode() + "\n"

    def lines(self, document: Mapping[str, JsonValue]) -> Iterator[tuple[str, str]]:
        """Yield the totals of one model as text, a line each."""
        metrics = document["metrics"]
        for name, total in metrics.items() if isinstance(metrics, Mapping) else ():
            if isinstance(total, Mapping):
                error = total["se"]
                spread = f" ± {100 * float(error):.2f}" if isinstance(error, int | float) else ""
                yield name, f"{percent(total['mean'])}{spread}"
        yield "n", NONE if document["n"] is None else str(document["n"])

    def tables_of_one(self, model: GradedModel) -> Iterator[Table]:
        """Yield this benchmark's own tables for one model."""
        yield from ()

    def tables(self, graded: GradedSet) -> Iterator[Table]:
        """Yield this benchmark's own tables for several models."""
        yield from ()

    def extras(self, graded: GradedSet) -> Mapping[str, JsonValue]:
        """Return this benchmark's own fields in the document of several models."""
        return {}

    def rounds(self, rounds: Sequence[GradedModel]) -> Mapping[str, JsonValue]:
        """A model's rounds in the document of several models, for forms that know ``--rounds``."""
        return {}

    def rounds_tables(self, graded: GradedSet) -> Iterator[Table]:
        """Yield the rounds as tables."""
        yield from ()

    def unranked(self, graded: GradedSet) -> Iterator[Table]:
        """Tables of models of which no board is made."""
        raise NotImplementedError

    def published_table(self, graded: GradedSet) -> str:
        """The table that ``--table`` asks for, as text."""
        raise NotImplementedError

    def chart(self, graded: GradedSet) -> alt.LayerChart:
        """The chart that ``--chart`` asks for. Raises DataError where there is nothing to draw."""
        raise NotImplementedError


@runtime_checkable
class GradesFiles(Protocol):
    """A rule task with protocols, and with files and reports of its own for predictions made elsewhere: ``protocols``
    are what its setting ``protocol`` may say, the default first."""

    protocols: Sequence[str]

    def offline(self, options: GradingOptions) -> OfflineForm: ...


def offline_form(task: RuleTask, options: GradingOptions) -> OfflineForm:
    """The task's own form, else the plain one."""
    return task.offline(options) if isinstance(task, GradesFiles) else OfflineForm(task, options)


@dataclass(slots=True)
class PlainReport:
    """Means with the sample's standard error (n - 1), by metric, as grades come."""

    metrics: Sequence[str]
    n: int = 0
    keep_rows: bool = True
    _rows: list[JsonValue] = field(default_factory=list)
    _means: dict[str, float] = field(default_factory=dict)
    _squares: dict[str, float] = field(default_factory=dict)

    def add(self, reply: GradedReply) -> None:
        marks, self.n = reply.grade.marks, self.n + 1
        for name in self.metrics:
            value, mean = float(marks[name]), self._means.get(name, 0.0)
            self._means[name] = mean + (value - mean) / self.n
            self._squares[name] = self._squares.get(name, 0.0) + (value - mean) * (value - self._means[name])
        if self.keep_rows:
            shown = {name: float(mark) for name, mark in marks.items()}
            self._rows.append({"item_id": reply.grade.item_id, "tag": reply.grade.tag, **shown})

    def document(self) -> dict[str, JsonValue]:
        metrics: dict[str, JsonValue] = {
            name: {"mean": self._means.get(name), "se": self._error(name)} for name in self.metrics
        }
        return {"metrics": metrics, "n": self.n, "rows": self._rows}

    def _error(self, name: str) -> float | None:
        return sqrt(self._squares[name] / (self.n - 1) / self.n) if self.n > 1 else None


# ---- rows ----------------------------------------------------------------------------------------------------------


def _by_id(items: Iterable[Item]) -> Mapping[str, Sequence[Item]]:
    shelf: dict[str, list[Item]] = {}
    for item in items:
        shelf.setdefault(item.id, []).append(item)
    return shelf


def item_id(row: FileRow, columns: Sequence[str], where: str) -> str:
    """The id in the first of the columns that has one. Raises DataError for none, and for what is no id."""
    if not any(name in row for name in columns):
        raise DataError(f"{where}: column {' or '.join(map(repr, columns))} is missing; the row has {', '.join(row)}")
    value = next((row[name] for name in columns if row.get(name) is not None), None)
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise DataError(f"{where}: column {columns[0]!r} must be text or a whole number")
    return str(value)


def response(text: str, row: FileRow) -> Response:
    """Make a response from a text and the row's finish reason."""
    finish_reason = row.get("finish_reason")
    ending = finish_reason.strip().lower() if isinstance(finish_reason, str) else ""
    reason = _ENDINGS.get(ending, FinishReason.OTHER) if ending else None
    return Response(
        "", RequestOutcome.SUCCEEDED, text, reason, finish_reason if isinstance(finish_reason, str) else None
    )


def no_response(why: str) -> Response:
    """Make the response for a missing reply."""
    return Response("", RequestOutcome.ERRORED, error_message=why)


def percent(value: JsonValue) -> str:
    """A fraction for people."""
    return f"{100 * float(value):.2f} %" if isinstance(value, int | float) else NONE


# ---- rows written ---------------------------------------------------------------------------------------------------


def json_text(value: JsonValue) -> str:
    """JSON as Python's own programs write it: an indent of 2, letters of every script as they are."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=_plain)


def _plain(value: object) -> str:
    """Write a value that JSON lacks: bytes as base64, times and other types as text."""
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else str(value)


class RowsFile:
    """A JSON list in that form, written a row at a time to a text handle."""

    def __init__(self, handle: IO[str]) -> None:
        self._handle = handle
        self._is_empty = True

    def add(self, row: FileRow) -> None:
        text = json_text([dict(row)])
        self._handle.write(("[" if self._is_empty else ",") + text[1:-2])
        self._is_empty = False

    def close(self) -> None:
        """Write the end of the list; the handle stays open."""
        self._handle.write("[]" if self._is_empty else "\n]")
