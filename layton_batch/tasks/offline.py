"""Predictions made elsewhere: a benchmark reads them into a frame, one graded prediction a row, and reports the frame.

``OfflineForm`` is the plain form, which every rule task has: items in the task's own form, and predictions as rows of
``item_id`` (or ``id``), ``response`` (text; null: no reply came) and, if they like, ``finish_reason`` and ``error``
(why none came). A benchmark with published files and reports of its own derives its form from it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from importlib import import_module
from itertools import islice
from math import sqrt
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import msgspec
import polars as pl

from layton_batch.errors import DataError, ManifestError
from layton_batch.files.sources import placed_rows, unknown_item
from layton_batch.records import Grade, Item, JsonValue, Prediction, Response
from layton_batch.settings import Settings
from layton_batch.states import FinishReason, RequestOutcome
from layton_batch.tasks import validate_items
from layton_batch.tasks.protocol import RuleTask, stratum_of
from layton_batch.text import without_surrogates

if TYPE_CHECKING:
    import altair as alt

FORMS = {
    "mcq_idk": "layton_batch.tasks.mcq_idk.files:McqForm",
    "zebralogic": "layton_batch.tasks.zebralogic.files:ZebraForm",
    "rome": "layton_batch.tasks.rome.files:RomeForm",
}
"""The benchmarks with files and reports of their own; all others have the plain form."""

FileRow = Mapping[str, JsonValue]
"""A row of a file of predictions or items, as it was read."""
Document = Mapping[str, JsonValue]
"""A report. Its ``metrics`` have ``mean`` and ``se`` each, its ``summary`` texts."""
Columns = Mapping[str, "type[pl.DataType] | pl.DataType"]
GRADED: Columns = dict.fromkeys(("item_id", "set", "kind", "tag", "stratum", "asked"), pl.String)
"""Columns of every graded prediction, before a column a metric. ``asked``: differs if the questions do."""
_ASKED = ("prompt_sha1", "asked", "query", "question", "puzzle")
"""Columns with the question that was asked."""
_ROWS_AT_ONCE = 500
_ENDINGS = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "eos"), FinishReason.STOP),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "truncated"), FinishReason.LENGTH),
    **dict.fromkeys(("refusal", "content_filter", "safety"), FinishReason.REFUSAL),
}


@dataclass(frozen=True, slots=True)
class GradingOptions:
    """Options of ``grade`` that only some benchmarks use. ``samples``: how several outputs make one answer.

    ``benchmark``: which of a folder with several. ``every_run``: each run of a model in a folder counts.
    """

    samples: str | None = None
    benchmark: str | None = None
    every_run: bool = False


@dataclass(frozen=True, slots=True)
class ModelFile:
    """A file of one model. ``published``: the report of a file that has totals and no replies."""

    name: str
    path: Path
    published: Document | None = None


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean and its standard error, as fractions; one observation has no standard error."""

    mean: float
    se: float | None


ModelEstimates = Mapping[str, Mapping[str, Estimate]]
"""Estimates by metric of each model or ensemble; a missing one prints as "-"."""


class OfflineForm:
    """The plain form. ``options``: the options of ``grade`` that the benchmark knows, each with a note for those who
    use the option elsewhere. ``columns``: columns of its graded rows besides ``GRADED`` and the metrics. ``shown``:
    those of them that a report shows. ``protocol``: None for a task without protocols. ``default_output``: name of the
    report beside the predictions, if the published program writes one.
    """

    options: ClassVar[Mapping[str, str]] = {}
    id_columns: Sequence[str] = ("item_id", "id")
    text_column = "response"
    gold_columns: Sequence[str] = ()
    columns: ClassVar[Columns] = {}
    shown: Sequence[str] = ()
    default_output: str | None = None

    def __init__(self, task: RuleTask, options: GradingOptions) -> None:
        self.asked = options
        self.task = task
        self.protocol: str | None = getattr(task, "protocol", None)

    @property
    def metrics(self) -> Sequence[str]:
        """Return the metrics that can rank a board; the first is the default."""
        return self.task.metrics

    # ---- files to frames -------------------------------------------------------------------------------------------

    def models(self, path: Path) -> Sequence[ModelFile]:
        """Return the model of a file, or the models of a folder in the benchmark's own layout (none in any other)."""
        return [] if path.is_dir() else [ModelFile(path.stem, path)]

    def rows(self, path: Path, settings: Settings) -> Iterable[FileRow]:
        """Yield the rows of a file of predictions or items. Raises DataError (file, line, reason)."""
        return (row for _, row in placed_rows(str(path), settings.cwd, settings))

    def items(self, rows: Iterable[FileRow]) -> Sequence[Item]:
        """Return the items of a file. Raises DataError naming the row that is wrong."""
        items = self.task.items(rows)
        validate_items(items)
        return items

    def graded(
        self, rows: Iterable[FileRow], items: Sequence[Item] | None = None, updated: list[FileRow] | None = None
    ) -> pl.DataFrame:
        """Grade predictions; without ``items`` they carry their own. Texts are not kept.

        ``updated`` gets every row with its grade, in the forms that know ``--updated``. Raises DataError naming the
        row that is wrong.
        """
        schema = {**GRADED, **dict.fromkeys(self.task.metrics, pl.Float64), **self.columns}
        records = self._records(rows, items, updated)
        parts = [pl.DataFrame(schema=schema)]
        while part := list(islice(records, _ROWS_AT_ONCE)):
            parts.append(pl.DataFrame(part, schema=schema))
        return pl.concat(parts)

    def _records(
        self, rows: Iterable[FileRow], items: Sequence[Item] | None, updated: list[FileRow] | None
    ) -> Iterator[Mapping[str, object]]:
        by_id: dict[str, list[Item]] = {}
        for item in items or ():
            by_id.setdefault(item.id, []).append(item)
        for number, row in enumerate(rows, 1):
            item_id = self._id(row, f"prediction {number}")
            where = f"prediction {number} (item {item_id!r})"
            if items is not None and item_id not in by_id:
                raise DataError(f"prediction {number}: {unknown_item(item_id, by_id)}")
            item = self._item(row, where) if items is None else self._chosen(by_id[item_id], row, where)
            prediction, grade = self._grade(item, row, where)
            if lacking := [metric for metric in self.task.metrics if metric not in grade.marks]:
                raise DataError(f"{where}: task {self.task.name!r} gives no mark for its metric {lacking[0]!r}")
            if updated is not None:
                updated.append(self._updated(row, item, grade))
            record = {**self._record(row, item, prediction, grade), "asked": _asked(row, self.gold_columns)}
            yield {name: storable(value) for name, value in record.items()}

    def _id(self, row: FileRow, where: str) -> str:
        """Return the id in the first of the columns that has one. Raises DataError for none, and for what is no id."""
        columns = self.id_columns
        if not any(name in row for name in columns):
            listed = " or ".join(map(repr, columns))
            raise DataError(f"{where}: column {listed} is missing; the row has {', '.join(row)}")
        value = next((row[name] for name in columns if row.get(name) is not None), None)
        if isinstance(value, bool) or not isinstance(value, str | int):
            raise DataError(f"{where}: column {columns[0]!r} must be text or a whole number")
        return str(value)

    def _item(self, row: FileRow, where: str) -> Item:
        """Make the item of a prediction that carries it. Raises ManifestError for a form whose predictions do not."""
        raise ManifestError(f"grade: --items is needed: predictions of {self.task.name} do not carry their items")

    def _chosen(self, items: Sequence[Item], row: FileRow, where: str) -> Item:
        """Choose the item of a prediction among the items with its id."""
        return items[-1]

    def _grade(self, item: Item, row: FileRow, where: str) -> tuple[Prediction, Grade]:
        is_missing = row.get("is_missing") is True  # of a run
        return self._judged(item, no_response("no reply") if is_missing else self._response(row, where))

    def _judged(self, item: Item, response: Response) -> tuple[Prediction, Grade]:
        """Grade one reply by the task itself."""
        prediction = self.task.parse(item, "", response)
        return prediction, self.task.grade(item, prediction)

    def _response(self, row: FileRow, where: str) -> Response:
        if "error" not in row and self.text_column not in row:
            raise DataError(
                f"{where}: column {self.text_column!r} is missing; the columns are {', '.join(row)}: rename the one "
                f"with the model's whole replies to {self.text_column!r}"
            )
        text, error = row.get(self.text_column), row.get("error")
        if text is None:
            return no_response(error if isinstance(error, str) else "no reply")
        if not isinstance(text, str):
            raise DataError(f"{where}: column {self.text_column!r} must be text or null, not {type(text).__name__}")
        return response(text, row)

    def _record(self, row: FileRow, item: Item, prediction: Prediction, grade: Grade) -> dict[str, object]:
        """Return a graded row: its values by column."""
        of_set = row.get("set")
        return {
            "item_id": item.id,
            "set": of_set if isinstance(of_set, str) and of_set else None,
            "kind": str(prediction.kind),
            "tag": grade.tag,
            "stratum": stratum_of(self.task, item),
            **{metric: float(grade.marks[metric]) for metric in self.task.metrics},
        }

    def _updated(self, row: FileRow, item: Item, grade: Grade) -> FileRow:
        raise NotImplementedError

    # ---- frames to documents ---------------------------------------------------------------------------------------

    def report(self, frame: pl.DataFrame, *, with_rows: bool = True) -> Document:
        """Report the predictions of one model: means with standard errors by metric, and a row a prediction."""
        metrics = self.task.metrics
        listed = frame.select("item_id", *self.shown, "tag", *metrics) if with_rows else pl.DataFrame()
        rows: list[JsonValue] = [*listed.to_dicts()]
        return {"metrics": as_json(estimates(frame, metrics)), "n": frame.height, "rows": rows}

    def notes(self, frame: pl.DataFrame) -> Sequence[str]:
        """Return what a reader has to know of how predictions were read."""
        return ()

    def ensemble(self, frames: Sequence[pl.DataFrame]) -> Document:
        """Report several models as one, for ``--ensemble``. Raises DataError if they have no item in common."""
        raise NotImplementedError

    def table(self, documents: Mapping[str, Document]) -> str:
        """Return the published table of reports by model, for ``--table``."""
        raise NotImplementedError

    def chart(self, documents: Mapping[str, Document], title: str) -> alt.LayerChart:
        """Return the published chart of reports by model, for ``--chart``."""
        raise NotImplementedError


def offline_form(task: RuleTask, options: GradingOptions) -> OfflineForm:
    """Return the task's own form, else the plain one."""
    module, _, name = FORMS.get(task.name, "").partition(":")
    form: type[OfflineForm] = getattr(import_module(module), name) if module else OfflineForm
    return form(task, options)


# ---- means ---------------------------------------------------------------------------------------------------------


def estimates(frame: pl.DataFrame, metrics: Sequence[str]) -> dict[str, Estimate]:
    """Return means with the sample's standard error (n - 1) by metric; none for an empty frame."""
    return {name: _estimate(frame[name]) for name in metrics} if frame.height else {}


def _estimate(marks: pl.Series) -> Estimate:
    spread = marks.std()
    error = spread / sqrt(len(marks)) if isinstance(spread, float) else None
    return Estimate(sum(marks) / len(marks), error)


def estimates_in(document: Document) -> dict[str, Estimate]:
    """Return the estimates by metric in a report; none in a report of another kind."""
    metrics = document.get("metrics")
    return msgspec.convert(metrics, dict[str, Estimate]) if isinstance(metrics, Mapping) else {}


def as_json(estimates: Mapping[str, Estimate]) -> dict[str, JsonValue]:
    """Return means and standard errors by metric, as a report has them."""
    return {name: asdict(estimate) for name, estimate in estimates.items()}


# ---- rows ----------------------------------------------------------------------------------------------------------


def _asked(row: FileRow, gold_columns: Iterable[str]) -> str | None:
    """Return a text that differs if the questions do; it begins with what was compared."""
    name = next((name for name in _ASKED if isinstance(row.get(name), str)), None)
    if name is not None:
        return f"{name}:{hash(row[name])}"
    gold = [repr(row[name]) for name in gold_columns if row.get(name) is not None]
    return f"gold:{hash(tuple(gold))}" if gold else None


def storable(value: object) -> object:
    """Return a value of a column; lone surrogates in texts, which no encoding has, are replaced."""
    if isinstance(value, list):
        return [storable(part) for part in value]
    return without_surrogates(value) if isinstance(value, str) else value


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


# ---- rows written ---------------------------------------------------------------------------------------------------


def json_text(value: object) -> str:
    """JSON as Python's own programs write it: an indent of 2, letters of every script as they are."""
    return json.dumps(value, ensure_ascii=False, indent=2, default=_plain)


def _plain(value: object) -> str:
    """Write a value that JSON lacks: bytes as base64, times and other types as text."""
    return base64.b64encode(value).decode("ascii") if isinstance(value, bytes) else str(value)
