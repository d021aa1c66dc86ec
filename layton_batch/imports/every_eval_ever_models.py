"""Models of Every Eval Ever lines: what they answered, and, in lines of our own, what judges said of it."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from layton_batch.errors import DataError
from layton_batch.files.sources import check_file
from layton_batch.files.wrong_rows import unknown_item
from layton_batch.grading.harnesses.every_eval_ever_logs import (
    HINTS_MARK,
    JUDGE_MARK,
    SAMPLE_MARK,
    is_line,
    whole_number,
)
from layton_batch.grading.harnesses.score_file import Object, json_lines, object_at, text_at
from layton_batch.imports.prediction_files import IMPORTED, ImportedModel, asked_as, verdict_text
from layton_batch.records import ModelSpec, Response
from layton_batch.states import PredictionKind
from layton_batch.tasks.offline import no_response, response

_PROVIDER = re.compile(r"[a-z0-9_-]{1,40}")
_VERDICT = re.compile(r"is_answer_correct=(true|false|unknown) is_justification_correct=(true|false|unknown)")
_WORDS = {"true": True, "false": False, "unknown": None}


@dataclass(slots=True)
class _Model:
    spec: ModelSpec
    source: str
    answers: dict[str, Response] = field(default_factory=dict)
    verdicts: dict[str, dict[str, Response]] = field(default_factory=dict)


_Asked = tuple[str, int | None, int]


def models(paths: Collection[Path], items: Collection[str], levels: Sequence[int]) -> list[ImportedModel]:
    """The models of the files, each sample and each of the run's numbers of hints (``levels``) apart. Lines of several
    metrics say the same of an item; what differs is refused. Raises DataError with file, line and reason."""
    models_found: dict[_Asked, _Model] = {}
    for path in paths:
        check_file(path, path)
        for place, row in json_lines(path):
            if not is_line(row):
                raise DataError(f"{place}: is no line of Every Eval Ever")
            _add(models_found, row, place, str(path), items, levels)
    return [ImportedModel(model.spec, model.answers, model.source, model.verdicts) for model in models_found.values()]


def _add(
    models: dict[_Asked, _Model], row: Object, place: str, source: str, items: Collection[str], levels: Sequence[int]
) -> None:
    model_id, item, about = text_at(row, "model_id", place), text_at(row, "sample_id", place), _about(row)
    if item not in items:
        raise DataError(f"{place}: {unknown_item(item, items)}")
    told_hints, told_sample = (whole_number(about.get(mark)) for mark in (HINTS_MARK, SAMPLE_MARK))
    hints, sample = asked_as(told_hints, told_sample, levels, place)
    name = about.get("layton_batch.model") or model_id
    spec = replace(_spec(name, model_id, about), hints=hints, sample=sample)
    model = models.setdefault((name, hints, sample), _Model(spec, source))
    reply = _reply(row, place, about)
    if model.answers.setdefault(item, reply) != reply:
        raise DataError(f"{place}: model {name!r} has another answer to item {item!r} already")
    for key, words in about.items():
        if key.startswith(JUDGE_MARK):
            model.verdicts.setdefault(key.removeprefix(JUDGE_MARK), {})[item] = _verdict(words, place, key)


def _about(row: Object) -> Mapping[str, str]:
    about = row.get("metadata")
    if not isinstance(about, Mapping):
        return {}
    return {key: value for key, value in about.items() if isinstance(value, str)}


def _spec(name: str, model_id: str, about: Mapping[str, str]) -> ModelSpec:
    provider = about.get("layton_batch.provider", "")
    family = model_id.partition("/")[0] if "/" in model_id else name
    return ModelSpec(name, provider if _PROVIDER.fullmatch(provider) else IMPORTED, name, family)


def _reply(row: Object, place: str, about: Mapping[str, str]) -> Response:
    replies = object_at(row, "output", place).get("raw")
    if not isinstance(replies, list) or not all(isinstance(text, str) for text in replies):
        raise DataError(f"{place}: 'output.raw' must be a list of texts")
    if len(replies) > 1:
        raise DataError(f"{place}: has {len(replies)} answers; a run has one an item")
    error = row.get("error")
    if not replies or about.get("kind") == str(PredictionKind.MISSING) or (error and not replies[0]):
        return no_response(error if isinstance(error, str) else "no reply")
    ending = about.get("finish_reason")
    return response(str(replies[0]), {"finish_reason": ending} if ending else {})


def _verdict(words: str, place: str, key: str) -> Response:
    matched = _VERDICT.fullmatch(words)
    if matched is None:
        raise DataError(f"{place}: 'metadata.{key}' is no verdict")
    return response(verdict_text(*(_WORDS[word] for word in matched.groups())), {})
