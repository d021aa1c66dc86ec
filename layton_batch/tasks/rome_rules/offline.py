"""Predictions made elsewhere, graded: ROME's rows in, its ``scores.json`` form out. No row is kept in memory."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import JsonValue
from layton_batch.tasks.rome_rules import corrected, original
from layton_batch.tasks.rome_rules.mark import CORRECTED, ORIGINAL, PROTOCOLS, Mark
from layton_batch.tasks.rome_rules.statement import Source, final_statement
from layton_batch.tasks.rome_rules.tally import Tally

Row = Mapping[str, JsonValue]
Sink = Callable[[Row], None]

CUT = frozenset({"length", "max_tokens", "max_output_tokens", "truncated"})
REFUSED = frozenset({"refusal", "content_filter", "safety"})
"""What the providers say of a reply that reached the output limit, and of one that was refused."""

_GRADERS: Mapping[str, Callable[[str, Row, str], Mark]] = {ORIGINAL: original.grade, CORRECTED: corrected.grade}


def grade_rows(
    items: Iterable[Row] | None,
    predictions: Iterable[Row],
    protocol: str = CORRECTED,
    *,
    sink: Sink,
) -> dict[str, JsonValue]:
    """Grade predictions ``question_id, answer`` by annotations ``question_id, evaluator, evaluator_kwargs``.

    Without items the predictions carry the annotations' fields. One may have ``finish_reason``, which the corrected
    protocol minds: no answer is found in a refusal, nor in a reply cut off before its answer. Returns the published
    ``scores.json``; ``sink`` gets every graded row in order, as the published ``updated_predictions.json`` has it.
    Raises DataError naming the row (an unknown question, no rows), ManifestError for an unknown protocol.
    """
    questions = None if items is None else _questions(items, protocol)
    tally = Tally()
    for mark, row in graded(questions, predictions, protocol):
        tally.add(row, mark.score)
        sink(row)
    if not tally.count:
        raise DataError("there are no predictions to grade")
    return tally.to_json(protocol)


def grader(protocol: str) -> Callable[[str, Row, str], Mark]:
    """The rules of a protocol. Raises ManifestError for one there is none of."""
    if protocol not in PROTOCOLS:
        raise ManifestError(f"protocol {protocol!r}: the rome task has {' and '.join(PROTOCOLS)}")
    return _GRADERS[protocol]


def arguments_of(value: JsonValue) -> Row | None:
    """``evaluator_kwargs`` as an object. Tables keep it as JSON text, or with a null for every name of other rows."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, Mapping):
        return None
    return {name: argument for name, argument in value.items() if argument is not None}


def graded(
    questions: Mapping[str, Row] | None, predictions: Iterable[Row], protocol: str
) -> Iterator[tuple[Mark, Row]]:
    """Each prediction's mark, and the row as the published file has it."""
    rules = grader(protocol)
    for number, prediction in enumerate(predictions, 1):
        question_id = _text_id(prediction.get("question_id"), f"prediction {number}")
        question = prediction if questions is None else questions.get(question_id)
        if question is None:
            raise DataError(f"prediction {number}: question_id {question_id!r} is not among the annotations")
        mark = _mark(question, prediction, rules)
        yield mark, _updated(prediction, question, mark, protocol)


def _questions(items: Iterable[Row], protocol: str) -> dict[str, Row]:
    questions: dict[str, Row] = {}
    for number, row in enumerate(items, 1):
        question_id = _text_id(row.get("question_id"), f"annotation {number}")
        if question_id in questions and protocol != ORIGINAL:  # as published, the last one counts
            raise DataError(f"annotation {number}: question_id {question_id!r} is there already")
        questions[question_id] = row
    return questions


def _text_id(value: JsonValue, where: str) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int | float) or value == "":
        raise DataError(f"{where}: question_id must be a text or a number")
    return str(value)


def _mark(question: Row, prediction: Row, rules: Callable[[str, Row, str], Mark]) -> Mark:
    """As published: what the annotation must have, then what the prediction must have."""
    evaluator, arguments = question.get("evaluator"), arguments_of(question.get("evaluator_kwargs"))
    answer = prediction.get("answer")
    if not isinstance(evaluator, str) or arguments is None:
        return Mark(0, "", "KeyError: the annotation must include 'evaluator' and 'evaluator_kwargs'")
    if not isinstance(answer, str):
        return Mark(0, "", "KeyError: the prediction must include 'answer', a text")
    if rules is corrected.grade and _gave_no_answer(prediction.get("finish_reason"), answer):
        return Mark(0, "")
    return rules(evaluator, arguments, answer)


def _gave_no_answer(ending: JsonValue, answer: str) -> bool:
    """Whether a reply was refused, or cut off before it stated anything: then no rule shall find an answer in it."""
    said = ending.strip().lower() if isinstance(ending, str) else ""
    return said in REFUSED or (said in CUT and final_statement(answer).source is Source.WHOLE)


def _updated(prediction: Row, question: Row, mark: Mark, protocol: str) -> dict[str, JsonValue]:
    """The prediction with ``raw_answer``, ``answer`` as read, the question's fields (which win) and ``correct``."""
    row = dict(prediction)
    if "answer" in prediction:
        row["raw_answer"] = prediction["answer"]
        row["answer"] = mark.read
    if question is not prediction:
        row |= question
    if "answer" in prediction and protocol != ORIGINAL:
        row["answer"] = mark.read
    row["correct"] = mark.score
    row["judgement_response"] = None
    if mark.error is not None:
        row["error"] = mark.error
    return row
