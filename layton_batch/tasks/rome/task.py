"""rome: questions in words (split ``llm``) or about pictures (split ``vlm``), graded by rules or by a jury.

Rows have the published columns of ROME: ``question_id, question, reference, evaluator, evaluator_kwargs``, ``task`` (a
category) and, for ``vlm``, ``img`` (base64, or a list of it) or ``img_path``: files below the folder of the items'
file, or below the one that the setting ``pictures`` names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from layton_batch.errors import DataError
from layton_batch.files.items import item_list
from layton_batch.records import Grade, Image, Item, JsonValue, Prediction, Prompt, Response, Verdict
from layton_batch.states import FinishReason, PredictionKind
from layton_batch.tasks.benchmark_rows import ItemRow, bundled_file, with_folders
from layton_batch.tasks.protocol import Candidate, Task, TaskOptions, TaskSettings
from layton_batch.tasks.reply_json import (
    ENDINGS,
    as_bool,
    failure,
    object_schema,
    read_verdict,
    unread,
    without_thoughts,
)
from layton_batch.tasks.rome import published, reader
from layton_batch.tasks.rome.published import ORIGINAL, RomeGrade
from layton_batch.tasks.templates import Templates, TemplateVariables, block, fence, message
from layton_batch.text import without_surrogates

SPLITS = ("llm", "vlm")
TRUNCATED, REFUSED = ENDINGS[FinishReason.LENGTH], ENDINGS[FinishReason.REFUSAL]

_SHOWN = "has_image images"
_SLOTS: Mapping[str, TemplateVariables] = {
    "participant_system": TemplateVariables(may=_SHOWN),
    "participant_question": TemplateVariables("question", _SHOWN),
    "participant_form": TemplateVariables(may=f"{_SHOWN} evaluator chinese"),
    "judge_system": TemplateVariables(may=_SHOWN),
    "judge_question": TemplateVariables("question reference response", _SHOWN),
}
Rule = tuple[str, Mapping[str, JsonValue]]
"""An evaluator's name and its arguments."""
_MARKER = re.compile(r"<image (\d{1,2})>")
_CHINESE = re.compile("[\u4e00-\u9fff]")
_CHINESE_SHARE = 0.2
_FIELD = "is_answer_correct"
# The reasoning comes first, so that a judge writes it before it commits to a verdict.
_VERDICT_SCHEMA = object_schema("answer_verdict", {"reasoning": "string", _FIELD: "boolean"})


class RomeSettings(TaskSettings):
    """``judge``: a jury grades, no rule. ``pictures``: the folder that ``img_path`` starts in, from the manifest's; by
    default the folder of the file the row is in."""

    protocol: Literal["corrected", "original"] = "corrected"
    judge: bool = False
    pictures: str | None = None


@dataclass(frozen=True, slots=True)
class RuleGrade(Grade):
    """A grade with what the evaluator said, which the published files have too."""

    mark: RomeGrade = field(kw_only=True)


class _Rome:
    """ROME under one protocol, without its grader. Template names: see ``prompts/rome/``."""

    name: str = "rome"
    uses_jury: bool

    def __init__(self, options: TaskOptions, settings: RomeSettings = RomeSettings()) -> None:  # noqa: B008 - frozen
        options.check(self.name, SPLITS)
        self._options, self.protocol = options, settings.protocol
        self._is_original = settings.protocol == ORIGINAL
        self._pictures = (options.folder or Path()) / settings.pictures if settings.pictures else None
        self._templates = Templates(f"rome/{self.protocol}", _SLOTS, options.prompts)

    def items(self, rows: Iterable[Mapping[str, JsonValue]]) -> Sequence[Item]:
        """Rows of this task's split as items; a row with a picture is ``vlm`` unless its ``split`` says otherwise."""
        numbered = enumerate(with_folders(rows), 1)
        items = (self._item(row, number, self._pictures or folder) for number, (row, folder) in numbered)
        return item_list(item for item in items if item is not None)

    def bundled(self, split: str) -> Path:
        return bundled_file(f"rome/questions_{split}.jsonl", split, SPLITS)

    def prompt(self, item: Item) -> Prompt:
        shown = {"has_image": bool(item.images), "images": len(item.images)}
        question = without_surrogates(item.question).strip()
        is_chinese = len(_CHINESE.findall(question)) >= _CHINESE_SHARE * len(question)
        form = self._templates.render(
            "participant_form", evaluator=item.payload["evaluator"], chinese=is_chinese, **shown
        )
        text = self._templates.render(
            "participant_question", question=question if self._is_original else block(question), **shown
        )
        parts = _at_markers(text, item.images) if self._is_original else _numbered(text, item.images)
        return Prompt(self._templates.render("participant_system", **shown), message(*parts, form))

    def parse(self, item: Item, model: str, response: Response) -> Prediction:
        """``answered`` with the answer as the reply states it; ``unparsed`` where there is none, with the reason."""
        prediction = unread(item, model, response)
        if prediction.kind is PredictionKind.MISSING:
            return prediction
        answer, note = self._answer(prediction.raw_text or "", prediction.ending)
        kind = PredictionKind.UNPARSED if answer is None else PredictionKind.ANSWERED
        return replace(prediction, kind=kind, answer=answer, note=note)

    def _item(self, columns: Mapping[str, JsonValue], number: int, folder: Path | None) -> Item | None:
        row, split = ItemRow.numbered(columns, number, "question_id"), self._options.split
        question_id, question = row.id("question_id"), row.needed("question", numbers=True)
        if _split(columns) != split:
            return None
        images: tuple[Image, ...] = ()
        if split == "vlm":
            images = row.pictures("img", folder) or row.pictures("img_path", folder)
            if not images:
                raise DataError(f"{row.place}: column 'img' is missing; split vlm needs a picture")
        reference = row.text("reference", numbers=True)
        if self.uses_jury and reference is None:
            raise DataError(f"{row.place}: column 'reference' is empty; a jury needs it")
        return Item(
            id=question_id,
            split=split,
            category=row.text("task", numbers=True) or "all",
            question=question,
            images=images,
            answer=reference,
            solution=reference,
            payload=_payload(row),
        )

    def _answer(self, text: str, ended: FinishReason | None) -> tuple[str | None, str | None]:
        """The stated answer, or None and why there is none. The published code takes every reply for an answer."""
        is_cut = ended is FinishReason.LENGTH
        if self._is_original and text:
            return published.prepare(text), TRUNCATED if is_cut else None
        if ended is FinishReason.REFUSAL:
            return None, REFUSED
        statement = reader.stated_answer(text)
        if is_cut and not statement.is_marked:
            return None, TRUNCATED  # it never came to its answer
        answer = statement.text.strip()
        return (answer, TRUNCATED if is_cut else None) if answer else (None, "empty reply")


class RomeTask(_Rome):
    """Graded by the evaluator that each item names."""

    uses_jury: Literal[False] = False
    metrics: Sequence[str] = ("accuracy",)

    def grade(self, item: Item, prediction: Prediction) -> RuleGrade:
        """``accuracy``: the rule's score, 0 where there is nothing to grade. The tag is the kind of failure."""
        rule = rule_of(item)
        mark = self._mark(rule, prediction)
        if prediction.kind is PredictionKind.ANSWERED:
            score, tag, note = float(mark.score), _tag(mark, rule), mark.error
            if tag == "wrong_answer" and prediction.ending is FinishReason.LENGTH and not self._is_original:
                tag = TRUNCATED  # the cut may have gone through the answer itself
        else:
            none = "no_answer" if prediction.kind is PredictionKind.UNPARSED else str(prediction.kind)
            score, tag, note = 0.0, ENDINGS.get(prediction.ending, none), prediction.note
        return RuleGrade(item.id, prediction.model, {"accuracy": score}, tag, note, mark=mark)

    def _mark(self, rule: Rule | None, prediction: Prediction) -> RomeGrade:
        if rule is None:
            return RomeGrade(0, "", "KeyError: the annotation must include 'evaluator' and 'evaluator_kwargs'")
        reply = _reply(prediction)
        if self._is_original:
            return published.grade(*rule, reply)
        is_cut = prediction.ending is FinishReason.LENGTH and not reader.stated_answer(reply).is_marked
        if is_cut or prediction.ending is FinishReason.REFUSAL:
            return RomeGrade(0, "")  # a reply that was refused, or cut off before it stated anything, has no answer
        return reader.grade(*rule, reply)


class JudgedRomeTask(_Rome):
    """Graded by a jury, which is shown each item's reference."""

    uses_jury: Literal[True] = True
    metrics: Sequence[str] = ("answer_correct",)

    def judge_prompt(self, candidate: Candidate) -> Prompt:
        item, reply = candidate.item, _reply(candidate.prediction)
        shown = {"has_image": bool(item.images), "images": len(item.images)}
        reference = without_surrogates(item.answer or "")
        question = self._templates.render(
            "judge_question",
            question=without_surrogates(item.question) if self._is_original else block(item.question),
            reference=reference if self._is_original else block(reference),
            response=fence(reply if self._is_original else without_thoughts(reply)),
            **shown,
        )
        schema = None if self._is_original else _VERDICT_SCHEMA
        return Prompt(self._templates.render("judge_system", **shown), (question,), schema)

    def parse_verdict(self, item_id: str, model: str, judge: str, response: Response) -> Verdict:
        """Read the answer's part of a verdict; there is no justification to judge."""
        if self._is_original and failure(response) is None:
            return Verdict(item_id, model, judge, published.judgement(response.text or ""), None)
        reply = read_verdict(response, (_FIELD,))
        is_correct = as_bool((reply.value or {}).get(_FIELD))
        return Verdict(item_id, model, judge, is_correct, None, reply.note)


def rome_task(options: TaskOptions, settings: RomeSettings) -> Task:
    """Return the task under one protocol, graded by rule or by a jury."""
    return JudgedRomeTask(options, settings) if settings.judge else RomeTask(options, settings)


# ---- rows to items -------------------------------------------------------------------------------------------------


def _split(row: Mapping[str, JsonValue]) -> JsonValue:
    return row.get("split") or ("vlm" if row.get("img") or row.get("img_path") else "llm")


def rule_of(item: Item) -> Rule | None:
    """Return the rule that grades the item, or None where the item names no rule."""
    evaluator, arguments = item.payload.get("evaluator"), _arguments(item.payload.get("evaluator_kwargs"))
    return (evaluator, arguments) if isinstance(evaluator, str) and arguments is not None else None


def _arguments(value: JsonValue) -> Mapping[str, JsonValue] | None:
    """``evaluator_kwargs`` as an object. Tables keep it as JSON text, or with a null for every name of other rows."""
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    if not isinstance(value, Mapping):
        return None
    return {name: argument for name, argument in value.items() if argument is not None}


def _payload(row: ItemRow) -> Mapping[str, JsonValue]:
    arguments = _arguments(row.columns.get("evaluator_kwargs"))
    if arguments is None:
        raise DataError(f"{row.place}: column 'evaluator_kwargs' must be an object, or the JSON text of one")
    return {"evaluator": row.needed("evaluator"), "evaluator_kwargs": arguments}


# ---- items to prompts ----------------------------------------------------------------------------------------------


def _numbered(text: str, images: tuple[Image, ...]) -> list[str | Image]:
    """The text, which calls them <image 1> …, and then the pictures, each behind its name where there are several."""
    if len(images) < 2:
        return [text, *images]
    parts: list[str | Image] = [text]
    for place, image in enumerate(images, 1):
        parts += [f"<image {place}>:", image]
    return parts


def _at_markers(text: str, images: tuple[Image, ...]) -> list[str | Image]:
    """Every picture where the text names it; before the text, the ones it does not name."""
    parts: list[str | Image] = []
    shown: set[int] = set()
    end = 0
    for marker in _MARKER.finditer(text):
        place = int(marker.group(1))
        if 1 <= place <= len(images) and place not in shown:
            shown.add(place)
            parts += [text[end : marker.start()].strip(), images[place - 1]]
            end = marker.end()
    parts.append(text[end:].strip())
    return [*(image for place, image in enumerate(images, 1) if place not in shown), *parts]


# ---- replies to marks ----------------------------------------------------------------------------------------------


def _reply(prediction: Prediction) -> str:
    return prediction.raw_text if prediction.raw_text is not None else prediction.answer or ""


def _tag(mark: RomeGrade, rule: Rule | None) -> str | None:
    if mark.error is not None:
        return "ungradable"
    if not mark.score:
        return "wrong_answer" if mark.read.strip() else "no_answer"
    fine = rule[1].get("fine_grained_score", 1.0) if rule else 1.0
    return "coarse_location" if isinstance(fine, int | float) and mark.score < min(1.0, fine) else None
