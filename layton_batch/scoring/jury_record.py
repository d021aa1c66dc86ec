"""Records in a gold set of the judges whose votes it holds: optional columns, the same in every row.

``judge_provider_<judge>``, ``judge_model_<judge>`` (the provider's id of the model), ``judge_settings_<judge>`` (a JSON
object) and ``judge_prompt_sha256_<judge>``. Published sets have none of these; what is not there is unknown.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields

from layton_batch.errors import DataError
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
        """Return the fields that both records have with different values: name, own value, other value."""
        pairs = [(name, value, asdict(other)[name]) for name, value in asdict(self).items()]
        return [
            (name, own, others_value)
            for name, own, others_value in pairs
            if None not in (own, others_value) and own != others_value
        ]


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


def record_columns_of(judges: Sequence[str]) -> list[tuple[str, str, str]]:
    """The columns that a file may have of these judges: the judge, the name of what is said, and the column."""
    names = [field.name for field in fields(JudgeRecord)]
    return [(judge, name, f"{_PREFIX}{name}_{judge}") for judge in judges for name in names]


def recorded_value(name: str, value: str, where: str) -> str:
    """A value of a column, as a record has it. Raises DataError for settings that are no JSON object."""
    if not value:
        raise DataError(f"{where} must be text or null, not {value!r:.60}")
    return _settings(value, where) if name == "settings" else value


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
