"""What a gold set records of the judges whose votes it holds: optional columns, the same in every row.

``judge_provider_<judge>``, ``judge_model_<judge>`` (the provider's id of the model), ``judge_settings_<judge>`` (a JSON
object) and ``judge_prompt_sha256_<judge>``. Published sets have none of these; what is not there is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from layton_batch.errors import DataError
from layton_batch.files.sources import Place, Row
from layton_batch.records import JsonValue, ModelSpec

_PREFIX = "judge_"


@dataclass(frozen=True, slots=True)
class JudgeRecord:
    """A judge as a gold set knows it; None: unknown. ``settings`` is canonical JSON text."""

    provider: str | None = None
    model: str | None = None
    settings: str | None = None
    prompt_sha256: str | None = None

    @property
    def is_empty(self) -> bool:
        return not any(asdict(self).values())

    def differences(self, other: JudgeRecord) -> list[tuple[str, str, str]]:
        """What both know and is not the same: its name, here and there."""
        pairs = [(name, value, asdict(other)[name]) for name, value in asdict(self).items()]
        return [(name, here, there) for name, here, there in pairs if None not in (here, there) and here != there]


def judge_record(spec: ModelSpec, prompt_sha256: str | None) -> JudgeRecord:
    """All that is known of a judge of one of our own runs."""
    named: dict[str, JsonValue] = {
        "effort": spec.reasoning.effort,
        "budget_tokens": spec.reasoning.budget_tokens,
        "max_output_tokens": spec.max_output_tokens,
    }
    settings: dict[str, JsonValue] = {name: value for name, value in named.items() if value is not None}
    if spec.params:
        settings["params"] = dict(spec.params)
    return JudgeRecord(spec.provider, spec.model, _canonical(settings), prompt_sha256)


def record_columns(judge: str, record: JudgeRecord) -> dict[str, str]:
    """The columns of what is known."""
    return {f"{_PREFIX}{name}_{judge}": value for name, value in asdict(record).items() if value is not None}


class Records:
    """What the rows of a gold set tell of judges, row by row. Rows tell the same: most are compared with the one
    before."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}
        self._faults: dict[str, DataError] = {}
        self._last: tuple[Sequence[str], Sequence[JsonValue]] = (), ()

    def take(self, row: Row, place: Place, columns: Sequence[str]) -> None:
        """Those of the ``columns`` that are about judges."""
        values = [row[column] for column in columns]
        if (columns, values) == self._last:
            return
        self._last = columns, values
        for column, value in zip(columns, values, strict=True):
            if value is not None and column.startswith(_PREFIX) and column not in self._faults:
                try:
                    self._take(column, value, place)
                except DataError as error:
                    self._faults[column] = error  # perhaps no judge goes by that name

    def _take(self, column: str, value: JsonValue, place: Place) -> None:
        if not isinstance(value, str) or not value:
            raise DataError(f"{place}: column {column!r} must be text or null, not {value!r:.60}")
        is_json = column.startswith(f"{_PREFIX}settings_")
        value = _settings(value, f"{place}: column {column!r}") if is_json else value
        if self._known.setdefault(column, value) != value:
            raise DataError(f"{place}: column {column!r} is not what it is in rows before; one gold set has one jury")

    def of(self, judges: Sequence[str]) -> Mapping[str, JudgeRecord]:
        """By judge, what is known; judges of whom nothing is are left out.

        Raises DataError where a column does not say the same in every row that has it: such votes are of several
        juries.
        """
        names = [field.name for field in fields(JudgeRecord)]
        for column in (f"{_PREFIX}{name}_{judge}" for judge in judges for name in names):
            if column in self._faults:
                raise self._faults[column]
        found = {
            judge: JudgeRecord(**{name: self._known.get(f"{_PREFIX}{name}_{judge}") for name in names})
            for judge in judges
        }
        return {judge: record for judge, record in found.items() if not record.is_empty}


def _settings(text: str, where: str) -> str:
    try:
        settings = json.loads(text)
    except ValueError:
        settings = None
    if not isinstance(settings, dict):
        raise DataError(f"{where} must be a JSON object, not {text!r:.60}")
    return _canonical(settings)


def _canonical(settings: Mapping[str, JsonValue]) -> str:
    return json.dumps(settings, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
