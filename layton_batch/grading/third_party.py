"""Tasks that entry points add: graded through the task itself, ``items``, ``parse`` and ``grade``.

Predictions are rows ``item_id`` (or ``id``), ``response`` (text; null: no reply came) and, if they like,
``finish_reason`` and ``error`` (why none came).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import sqrt

from layton_batch.errors import DataError, ManifestError
from layton_batch.grading.one_file import RULE_GRADED, Row
from layton_batch.grading.submissions import DEFAULT_SPLIT
from layton_batch.records import Grade, Item, JsonValue, Prediction, Response
from layton_batch.states import FinishReason, RequestOutcome
from layton_batch.tasks import BUILT_IN, NO_SETTINGS, load_task, setting_names, task_names, validate_items
from layton_batch.tasks.protocol import RuleTask, TaskOptions

_ENDINGS = {
    **dict.fromkeys(("stop", "end_turn", "stop_sequence", "eos"), FinishReason.STOP),
    **dict.fromkeys(("length", "max_tokens", "max_output_tokens", "truncated"), FinishReason.LENGTH),
    **dict.fromkeys(("refusal", "content_filter", "safety"), FinishReason.REFUSAL),
}


def load(
    name: str, protocol: str | None, split: str = DEFAULT_SPLIT, settings: Mapping[str, JsonValue] = NO_SETTINGS
) -> RuleTask:
    """The task under a protocol, if it has any. Raises ManifestError: not graded by rule, or without protocols."""
    if name in BUILT_IN or name not in task_names():
        raise ManifestError(_unknown(name))
    if protocol is not None and "protocol" not in setting_names(name):
        raise ManifestError(f"grade: --protocol {protocol}: task {name!r} has no protocols")
    chosen: Mapping[str, JsonValue] = {} if protocol is None else {"protocol": protocol}
    task = load_task(name, TaskOptions(split), {**settings, **chosen})
    if task.uses_jury:
        raise ManifestError(_unknown(name))
    return task


def graded_by_rule() -> list[str]:
    """The names of such tasks."""
    return [name for name in task_names() if name not in BUILT_IN and _is_graded_by_rule(name)]


def _unknown(name: str) -> str:
    return f"grade: {name!r} is not graded by rule; there are {', '.join((*RULE_GRADED, *graded_by_rule()))}"


def _is_graded_by_rule(name: str) -> bool:
    try:
        return not load_task(name, TaskOptions(DEFAULT_SPLIT)).uses_jury
    except Exception:  # somebody else's code, which may not even load, must not hide the others
        return False


@dataclass(slots=True)
class Totals:
    """Means with the sample's standard error (n - 1), by metric, as numbers come."""

    metrics: Sequence[str]
    n: int = 0
    _means: dict[str, float] = field(default_factory=dict)
    _squares: dict[str, float] = field(default_factory=dict)

    def add(self, marks: Mapping[str, float]) -> None:
        self.n += 1
        for name in self.metrics:
            value, mean = float(marks[name]), self._means.get(name, 0.0)
            self._means[name] = mean + (value - mean) / self.n
            self._squares[name] = self._squares.get(name, 0.0) + (value - mean) * (value - self._means[name])

    def to_json(self) -> dict[str, JsonValue]:
        return {name: {"mean": self._means.get(name), "se": self._error(name)} for name in self.metrics}

    def _error(self, name: str) -> float | None:
        return sqrt(self._squares[name] / (self.n - 1) / self.n) if self.n > 1 else None


def items_of(task: RuleTask, rows: Sequence[Row] | None) -> Sequence[Item]:
    """The file of items as the task's items. Raises ManifestError without one, DataError for what are no items."""
    if rows is None:
        raise ManifestError(f"grade: --items is needed: predictions of {task.name} do not carry their items")
    try:
        items = task.items(rows)
        validate_items(items)
    except DataError as error:
        raise DataError(f"--items: {error}") from error
    return items


def graded(
    task: RuleTask, items: Sequence[Item], rows: Iterable[Row], model: str
) -> Iterator[tuple[Prediction, Grade]]:
    """Each prediction as the task reads and marks it, one at a time. Raises DataError naming the row that is wrong."""
    by_id = {item.id: item for item in items}
    for number, row in enumerate(rows, 1):
        name = next((row[column] for column in ("item_id", "id") if row.get(column) is not None), None)
        if isinstance(name, bool) or not isinstance(name, str | int):
            raise DataError(f"prediction {number}: column 'item_id' must be text or a whole number")
        where = f"prediction {number} (item {str(name)!r})"
        item = by_id.get(str(name))
        if item is None:
            raise DataError(f"{where}: there is no item of this id")
        prediction = task.parse(item, model, _response(row, where))
        grade = task.grade(item, prediction)
        if lacking := [metric for metric in task.metrics if metric not in grade.marks]:
            raise DataError(f"{where}: task {task.name!r} gives no mark for its metric {lacking[0]!r}")
        yield prediction, grade


def row_of(grade: Grade) -> dict[str, JsonValue]:
    """A graded row of the report."""
    return {"item_id": grade.item_id, "tag": grade.tag, **{name: float(mark) for name, mark in grade.marks.items()}}


def _response(row: Row, where: str) -> Response:
    if "response" not in row and "error" not in row:
        raise DataError(f"{where}: column 'response' is missing")
    text, error, ending = row.get("response"), row.get("error"), row.get("finish_reason")
    if text is None:
        return Response("", RequestOutcome.ERRORED, error_message=error if isinstance(error, str) else "no reply")
    if not isinstance(text, str):
        raise DataError(f"{where}: column 'response' must be text or null, not {type(text).__name__}")
    said = ending.strip().lower() if isinstance(ending, str) else ""
    reason = _ENDINGS.get(said, FinishReason.OTHER) if said else None
    return Response("", RequestOutcome.SUCCEEDED, text, reason, ending if isinstance(ending, str) else None)
