"""rome: questions in words (split ``llm``) or about pictures (split ``vlm``), graded by rules or by a jury.

Rows have the published columns of ROME: ``question_id, question, reference, evaluator, evaluator_kwargs``, ``task`` (a
category) and, for ``vlm``, ``img`` (base64, or a list of it) or ``img_path``: files below the folder of the items'
file, or below the one that the setting ``pictures`` names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from layton_batch.errors import DataError, ManifestError
from layton_batch.files.item_list import item_list
from layton_batch.records import Grade, Image, Item, JsonValue, Prediction, Prompt, Response, Verdict
from layton_batch.states import FinishReason, PredictionKind
from layton_batch.tasks.benchmark_rows import has_pictures, id_of, needed_text, pictures_of, text_of, with_folders
from layton_batch.tasks.protocol import Candidate, Task, TaskOptions
from layton_batch.tasks.reply_json import ending, failure
from layton_batch.tasks.rome_rules import corrected_evaluators, original_evaluators
from layton_batch.tasks.rome_rules.corrected_evaluators import stated_answer
from layton_batch.tasks.rome_rules.grades import CORRECTED, ORIGINAL, PROTOCOLS, RomeGrade
from layton_batch.tasks.rome_rules.judging import VERDICT_SCHEMA, published_judgement, verdict_of
from layton_batch.tasks.templates import Templates, TemplateVariables, block, fence, without_surrogates
from layton_batch.tasks.thoughts import without_thoughts

if TYPE_CHECKING:
    from layton_batch.tasks.offline import GradingOptions
    from layton_batch.tasks.rome_rules.rome_files import RomeForm

HERE = Path(__file__).parent
SPLITS = ("llm", "vlm")
TRUNCATED, REFUSED = "truncated", "refused"
ENDINGS: Mapping[FinishReason | None, str] = {FinishReason.LENGTH: TRUNCATED, FinishReason.REFUSAL: REFUSED}

_SHOWN = frozenset({"has_image", "images"})
_SLOTS: Mapping[str, TemplateVariables] = {
    "participant_system": TemplateVariables(_SHOWN),
    "participant_question": TemplateVariables(_SHOWN | {"question"}, must=frozenset({"question"})),
    "participant_form": TemplateVariables(_SHOWN | {"evaluator", "chinese"}),
    "judge_system": TemplateVariables(_SHOWN),
    "judge_question": TemplateVariables(
        _SHOWN | {"question", "reference", "response"}, must=frozenset({"question", "reference", "response"})
    ),
}
Rule = tuple[str, Mapping[str, JsonValue]]
"""An evaluator's name and its arguments."""
_MARKER = re.compile(r"<image (\d{1,2})>")
_CHINESE = re.compile("[\u4e00-\u9fff]")
_CHINESE_SHARE = 0.2


@dataclass(frozen=True, slots=True)
class RuleGrade(Grade):
    """A grade with what the evaluator said, which the published files have too."""

    mark: RomeGrade = field(kw_only=True)


_RULES = {ORIGINAL: original_evaluators.grade, CORRECTED: corrected_evaluators.grade}


class _Rome:
    """ROME under one protocol, without its grader. Template names: see ``prompts/rome/``."""

    name: str = "rome"
    uses_jury: bool

    def __init__(self, options: TaskOptions, protocol: str = CORRECTED, pictures: str | None = None) -> None:
        if options.split not in SPLITS:
            raise ManifestError(f"split {options.split!r}: the rome task has {' and '.join(SPLITS)}")
        options.check_no_hints(self.name)
        if pictures is not None and not isinstance(pictures, str):  # a manifest may say anything
            raise ManifestError(f"pictures must be the path of a folder, not {pictures!r}")
        if protocol not in PROTOCOLS:
            raise ManifestError(f"protocol {protocol!r}: the rome task has {' and '.join(PROTOCOLS)}")
        self._rules = _RULES[protocol]
        self._options, self.protocol = options, protocol
        self._pictures = (options.folder or Path()) / pictures if pictures else None
        self._templates = Templates(HERE / "prompts" / "rome" / protocol, _SLOTS, options.prompts)

    def items(self, rows: Iterable[Mapping[str, JsonValue]]) -> Sequence[Item]:
        """Rows of this task's split as items; a row with a picture is ``vlm`` unless its ``split`` says otherwise."""
        numbered = enumerate(with_folders(rows), 1)
        items = (self._item(row, number, self._pictures or folder) for number, (row, folder) in numbered)
        return item_list(item for item in items if item is not None)

    def bundled(self, split: str) -> Path:
        if split not in SPLITS:
            raise DataError(f"no bundled items for split {split!r}; there are {' and '.join(SPLITS)}")
        return HERE / "data" / "rome" / f"questions_{split}.jsonl"

    def prompt(self, item: Item) -> Prompt:
        shown = {"has_image": bool(item.images), "images": len(item.images)}
        question = without_surrogates(item.question).strip()
        is_chinese = len(_CHINESE.findall(question)) >= _CHINESE_SHARE * len(question)
        form = self._templates.render(
            "participant_form", evaluator=item.payload["evaluator"], chinese=is_chinese, **shown
        )
        text = self._templates.render(
            "participant_question", question=question if self.protocol == ORIGINAL else block(question), **shown
        )
        parts = _at_markers(text, item.images) if self.protocol == ORIGINAL else _numbered(text, item.images)
        return Prompt(self._templates.render("participant_system", **shown), _joined(*parts, form))

    def parse(self, item: Item, model: str, response: Response) -> Prediction:
        """``answered`` with the answer as the reply states it; ``unparsed`` where there is none, with the reason."""
        raw = without_surrogates(response.text) if response.text is not None else None
        note = failure(response)
        if note is not None:
            return Prediction(item.id, model, PredictionKind.MISSING, raw_text=raw, note=note)
        answer, note = self._answer(response, raw or "")
        kind = PredictionKind.UNPARSED if answer is None else PredictionKind.ANSWERED
        return Prediction(item.id, model, kind, answer, raw_text=raw, note=note, ending=ending(response))

    def _item(self, row: Mapping[str, JsonValue], number: int, folder: Path | None) -> Item | None:
        name = row.get("question_id")
        where = f"row {number}" + (f" (question {name!r})" if isinstance(name, str | int) else "")
        question_id = id_of(row, "question_id", where, numbers=True)
        question = needed_text(row, "question", where, numbers=True)
        if _split(row) != self._options.split:
            return None
        images = pictures_of(row, where, folder) if self._options.split == "vlm" else ()
        if self._options.split == "vlm" and not images:
            raise DataError(f"{where}: column 'img' is missing; split vlm needs a picture")
        reference = text_of(row, "reference", where, numbers=True)
        if self.uses_jury and reference is None:
            raise DataError(f"{where}: column 'reference' is empty; a jury needs it")
        return Item(
            id=question_id,
            split=self._options.split,
            category=text_of(row, "task", where, numbers=True) or "all",
            question=question,
            images=images,
            answer=reference,
            solution=reference,
            payload=_payload(row, where),
        )

    def _answer(self, response: Response, text: str) -> tuple[str | None, str | None]:
        """The stated answer, or None and why there is none. The published code takes every reply for an answer."""
        is_cut = response.finish_reason is FinishReason.LENGTH
        if self.protocol == ORIGINAL and text:
            return original_evaluators.prepare(text), TRUNCATED if is_cut else None
        if response.refusal or response.finish_reason is FinishReason.REFUSAL:
            return None, REFUSED
        statement = stated_answer(text)
        if is_cut and not statement.is_marked:
            return None, TRUNCATED  # it never came to its answer
        answer = statement.text.strip()
        return (answer, TRUNCATED if is_cut else None) if answer else (None, "empty reply")


class RomeTask(_Rome):
    """Graded by the evaluator that each item names."""

    uses_jury: Literal[False] = False
    metrics: Sequence[str] = ("accuracy",)
    protocols: Sequence[str] = PROTOCOLS

    def grade(self, item: Item, prediction: Prediction) -> RuleGrade:
        """``accuracy``: the rule's score, 0 where there is nothing to grade. The tag is the kind of failure."""
        rule = rule_of(item)
        mark = self._mark(rule, prediction)
        if prediction.kind is PredictionKind.ANSWERED:
            score, tag, note = float(mark.score), _tag(mark, rule), mark.error
            if tag == "wrong_answer" and prediction.ending is FinishReason.LENGTH and self.protocol == CORRECTED:
                tag = TRUNCATED  # the cut may have gone through the answer itself
        else:
            none = "no_answer" if prediction.kind is PredictionKind.UNPARSED else str(prediction.kind)
            score, tag, note = 0.0, ENDINGS.get(prediction.ending, none), prediction.note
        return RuleGrade(item.id, prediction.model, {"accuracy": score}, tag, note, mark=mark)

    def offline(self, options: GradingOptions) -> RomeForm:
        """Return the form that reads and reports predictions made elsewhere."""
        from layton_batch.tasks.rome_rules.rome_files import RomeForm

        return RomeForm(self, options)

    def _mark(self, rule: Rule | None, prediction: Prediction) -> RomeGrade:
        if rule is None:
            return RomeGrade(0, "", "KeyError: the annotation must include 'evaluator' and 'evaluator_kwargs'")
        reply = _said(prediction)
        if self.protocol == CORRECTED and _gave_no_answer(prediction.ending, reply):
            return RomeGrade(0, "")
        return self._rules(*rule, reply)


class JudgedRomeTask(_Rome):
    """Graded by a jury, which is shown each item's reference."""

    uses_jury: Literal[True] = True
    metrics: Sequence[str] = ("answer_correct",)

    def judge_prompt(self, candidate: Candidate) -> Prompt:
        item, reply = candidate.item, _said(candidate.prediction)
        shown = {"has_image": bool(item.images), "images": len(item.images)}
        reference = without_surrogates(item.answer or "")
        is_original = self.protocol == ORIGINAL
        question = self._templates.render(
            "judge_question",
            question=without_surrogates(item.question) if is_original else block(item.question),
            reference=reference if is_original else block(reference),
            response=fence(reply if is_original else without_thoughts(reply)),
            **shown,
        )
        schema = None if is_original else VERDICT_SCHEMA
        return Prompt(self._templates.render("judge_system", **shown), (question,), schema)

    def parse_verdict(self, item_id: str, model: str, judge: str, response: Response) -> Verdict:
        """The answer's part of a verdict; there is no justification to judge."""
        note = failure(response)
        if note is not None:
            return Verdict(item_id, model, judge, None, None, note)
        if self.protocol == ORIGINAL:
            return Verdict(item_id, model, judge, bool(published_judgement(response.text or "")), None)
        value, note = verdict_of(response)
        return Verdict(item_id, model, judge, value, None, note)


def rome_task(
    options: TaskOptions, protocol: str = CORRECTED, judge: bool = False, pictures: str | None = None
) -> Task:
    """The task under one protocol. ``judge``: a jury grades, no rule. ``pictures``: the folder that ``img_path`` starts
    in, from the manifest's; by default the folder of the file the row is in."""
    if not isinstance(judge, bool):  # a manifest may say anything
        raise ManifestError(f"judge must be true or false, not {judge!r}")
    return JudgedRomeTask(options, protocol, pictures) if judge else RomeTask(options, protocol, pictures)


# ---- rows to items -------------------------------------------------------------------------------------------------


def _split(row: Mapping[str, JsonValue]) -> JsonValue:
    return row.get("split") or ("vlm" if has_pictures(row) else "llm")


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


def _payload(row: Mapping[str, JsonValue], where: str) -> Mapping[str, JsonValue]:
    arguments = _arguments(row.get("evaluator_kwargs"))
    if arguments is None:
        raise DataError(f"{where}: column 'evaluator_kwargs' must be an object, or the JSON text of one")
    return {"evaluator": needed_text(row, "evaluator", where, numbers=True), "evaluator_kwargs": arguments}


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


def _joined(*parts: str | Image) -> tuple[str | Image, ...]:
    """The parts without empty ones, neighbouring texts as one."""
    joined: list[str | Image] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, str) and isinstance(last, str):
            joined[-1] = f"{last}\n\n{part}" if part else last
        elif part:
            joined.append(part)
    return tuple(joined)


# ---- replies to marks and verdicts ---------------------------------------------------------------------------------


def _said(prediction: Prediction) -> str:
    return prediction.raw_text if prediction.raw_text is not None else prediction.answer or ""


def _gave_no_answer(ended: FinishReason | None, reply: str) -> bool:
    """Return whether a reply was refused, or cut off before it stated anything: such a reply has no answer."""
    is_cut = ended is FinishReason.LENGTH
    return ended is FinishReason.REFUSAL or (is_cut and not stated_answer(reply).is_marked)


def _tag(mark: RomeGrade, rule: Rule | None) -> str | None:
    if mark.error is not None:
        return "ungradable"
    if not mark.score:
        return "wrong_answer" if mark.read.strip() else "no_answer"
    fine = rule[1].get("fine_grained_score", 1.0) if rule else 1.0
    return "coarse_location" if isinstance(fine, int | float) and mark.score < min(1.0, fine) else None
