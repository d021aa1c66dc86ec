"""layton: riddles in words (split ``llm``) or with a picture (split ``vlm``), graded by a jury.

Rows have the published columns of layton-eval: ``id, split, category, description, first_hint, second_hint, third_hint,
special_hint, solution, answer, justification`` and, for ``vlm``, ``img`` (a base64 image).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal

from layton_batch.errors import DataError, ManifestError
from layton_batch.files.item_list import item_list
from layton_batch.records import Image, Item, JsonValue, Prediction, Prompt, Response, Verdict
from layton_batch.states import PredictionKind
from layton_batch.tasks.layton_rules import original
from layton_batch.tasks.layton_rules.original import CORRECTED, ORIGINAL, check_prompts
from layton_batch.tasks.protocol import Candidate, TaskOptions
from layton_batch.tasks.reply_json import as_bool, as_text, contradiction, failure, joined, object_schema, read_reply
from layton_batch.tasks.rows import id_of, needed_text, picture_in, text_of
from layton_batch.tasks.templates import Slots, Templates, block, fence, without_surrogates

HERE = Path(__file__).parent
SPLITS = ("llm", "vlm")
HINT_COLUMNS = ("first_hint", "second_hint", "third_hint", "special_hint")
HINT_LABELS = ("First hint", "Second hint", "Third hint", "Special hint")

_SUBMITTED = ("submitted_answer", "submitted_justification")
_SLOTS: Mapping[str, Slots] = {
    "participant_system": Slots(frozenset({"has_image"})),
    "participant_question": Slots(frozenset({"question", "has_image"}), must=frozenset({"question"})),
    "participant_hints": Slots(frozenset({"hints"}), must=frozenset({"hints"})),
    "judge_system": Slots(frozenset({"has_image"})),
    "judge_question": Slots(frozenset({"question", "has_image"}), must=frozenset({"question"})),
    "judge_submission": Slots(
        frozenset({"hints", "answer", "solution", "justification", "submission", *_SUBMITTED}),
        must=frozenset({"submission"}),
        instead=frozenset(_SUBMITTED),
    ),
}

# The reasoning comes first, so that a model writes it before it commits to an answer.
ANSWER_SCHEMA = object_schema("riddle_answer", {"justification": "string", "answer": "string"})
_VERDICT_FIELDS = ("is_answer_correct", "is_justification_correct")
VERDICT_SCHEMA = object_schema("riddle_verdict", dict.fromkeys(_VERDICT_FIELDS, "boolean"))


class LaytonTask:
    """The layton task for one split and hint level. Template names: see ``prompts/layton/``.

    ``fence = False``: the manifest's own templates get the words of riddles and participants as they are. ``protocol =
    "original"``: the published form of the requests (``layton_rules/original.py``), under the manifest's own
    instructions.
    """

    name: str = "layton"
    metrics: Sequence[str] = ("both_correct", "answer_correct", "justification_correct")
    uses_jury: Literal[True] = True
    prompts: str = "layton"
    """The folder of the packaged templates."""
    slots: Mapping[str, Slots] = _SLOTS

    def __init__(self, options: TaskOptions, protocol: str = CORRECTED, fence: bool | None = None) -> None:
        if options.split not in SPLITS:
            raise ManifestError(f"split {options.split!r}: the layton task has {' and '.join(SPLITS)}")
        if not 0 <= options.hints <= len(HINT_COLUMNS):
            raise ManifestError(f"hints {options.hints}: the layton task has levels 0 to {len(HINT_COLUMNS)}")
        check_prompts(protocol, fence, options.prompts or {})
        self._options, self.protocol = options, protocol
        as_written = protocol == ORIGINAL or fence is False
        self._templates = Templates(HERE / "prompts" / self.prompts, self.slots, options.prompts, as_written=as_written)

    @property
    def shows_unfenced(self) -> bool:
        return self.protocol == ORIGINAL or self._templates.is_as_written("judge_submission")

    def items(self, rows: Iterable[Mapping[str, JsonValue]]) -> Sequence[Item]:
        """Rows of this task's split as items; rows that say they belong to the other split are passed over."""
        split = self._options.split
        chosen = ((number, row) for number, row in enumerate(rows, 1) if row.get("split") in (split, None))
        found = ((_item(row, number, split), row) for number, row in chosen)
        if self.protocol == ORIGINAL:
            return item_list(original.with_references(item, row) for item, row in found)
        return item_list(item for item, _ in found)

    def bundled(self, split: str) -> Path:
        if split not in SPLITS:
            raise DataError(f"no bundled items for split {split!r}; there are {' and '.join(SPLITS)}")
        return HERE / "data" / "layton" / f"riddles_{split}.jsonl"

    def prompt(self, item: Item) -> Prompt:
        has_image, hints = bool(item.images), item.hints[: self._options.hints]
        system = self._templates.render("participant_system", has_image=has_image)
        if self.protocol == ORIGINAL:
            return Prompt(system, original.asked(item, hints), ANSWER_SCHEMA)
        told = self._hints("participant_hints", hints)
        rest = self._templates.render("participant_hints", hints=told) if told else ""
        return Prompt(system, _parts(self._question("participant_question", item), item.images, rest), ANSWER_SCHEMA)

    def parse(self, item: Item, model: str, response: Response) -> Prediction:
        """``answered`` with a text answer; ``unparsed`` with the reason in the note; ``missing`` without a reply."""
        raw = without_surrogates(response.text) if response.text is not None else None
        kind, answer, justification = PredictionKind.MISSING, None, None
        note = failure(response)
        if note is None:
            kind = PredictionKind.UNPARSED
            reply = read_reply(response)
            note = reply.note
            if reply.value is not None:
                answer, justification, note = _submission(reply.value, note)
                kind = PredictionKind.UNPARSED if answer is None else PredictionKind.ANSWERED
        return Prediction(item.id, model, kind, answer, justification, raw, note)

    def judge_prompt(self, candidate: Candidate) -> Prompt:
        item, said = candidate.item, candidate.prediction
        system = self._templates.render("judge_system", has_image=bool(item.images))
        if self.protocol == ORIGINAL:
            return Prompt(system, original.judged(item, said), VERDICT_SCHEMA)
        name = "judge_submission"
        show = self._form_of(name)
        participants = without_surrogates if self._templates.is_as_written(name) else fence
        answer, justification = participants(said.answer or ""), participants(said.justification or "")
        material = self._templates.render(
            name,
            hints=self._hints(name, item.hints),
            # A reference that fell back on the solution is not shown twice.
            answer=_shown(show, item.answer, unless=item.solution),
            solution=_shown(show, item.solution),
            justification=_shown(show, item.justification, unless=item.solution),
            submission=_framed(answer, justification, fenced=not self._templates.is_as_written(name)),
            submitted_answer=answer,
            submitted_justification=justification,
        )
        return Prompt(system, _parts(self._question("judge_question", item), item.images, material), VERDICT_SCHEMA)

    def _form_of(self, name: str) -> Callable[[str], str]:
        """How the data set's words are shown in a template."""
        return without_surrogates if self._templates.is_as_written(name) else block

    def _question(self, name: str, item: Item) -> str:
        question = self._form_of(name)(item.question)
        return self._templates.render(name, question=question, has_image=bool(item.images))

    def _hints(self, name: str, hints: Sequence[str | None]) -> Hints:
        show = self._form_of(name)
        labelled = zip(HINT_LABELS, hints, strict=False)
        return Hints({"label": label, "text": show(hint)} for label, hint in labelled if hint)

    def parse_verdict(self, item_id: str, model: str, judge: str, response: Response) -> Verdict:
        note = failure(response) or contradiction(response.text or "", [(name,) for name in _VERDICT_FIELDS])
        if note is not None:
            return Verdict(item_id, model, judge, None, None, note)
        reply = read_reply(response)
        if reply.value is None:
            return Verdict(item_id, model, judge, None, None, reply.note)
        answer, justification = (as_bool(reply.value.get(name)) for name in _VERDICT_FIELDS)
        unread = [name for name, mark in zip(_VERDICT_FIELDS, (answer, justification), strict=True) if mark is None]
        note = joined(reply.note, *(f"{name} is not true or false" for name in unread))
        return Verdict(item_id, model, judge, answer, justification, note)


# ---- rows to items -------------------------------------------------------------------------------------------------


def _item(row: Mapping[str, JsonValue], number: int, split: str) -> Item:
    name = row.get("id")
    where = f"row {number}" + (f" (item {name!r})" if isinstance(name, str) else "")
    solution = text_of(row, "solution", where)
    answer, justification = text_of(row, "answer", where), text_of(row, "justification", where)
    return Item(
        id=id_of(row, "id", where, numbers=True),
        split=split,
        category=text_of(row, "category", where) or "",
        question=needed_text(row, "description", where),
        images=_images(row, split, where),
        hints=tuple(text_of(row, column, where) for column in HINT_COLUMNS),
        answer=answer or solution,
        justification=justification or solution,
        solution=solution or justification or answer,
        picarats=_picarats(row.get("picarats")),
    )


def _picarats(value: JsonValue) -> int | None:
    """A table may have made a float of it, with the riddles that have none; in a file of CSV everything is text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value)
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1 >= 0
    return int(value) if is_whole else None  # type: ignore[arg-type]


def _images(row: Mapping[str, JsonValue], split: str, where: str) -> tuple[Image, ...]:
    value = row.get("img")
    if isinstance(value, Mapping):  # the form Parquet files of image data sets have
        value = value.get("bytes")
    if value is None:
        if split == "vlm":
            state = "null" if "img" in row else "missing"
            raise DataError(f"{where}: column 'img' is {state}; split vlm needs an image")
        return ()
    return (picture_in(value, f"{where}: column 'img'")[0],)


# ---- items to prompts ----------------------------------------------------------------------------------------------


def _parts(question: str, images: tuple[Image, ...], rest: str) -> tuple[str | Image, ...]:
    if images:
        return (question, *images, rest) if rest else (question, *images)
    return (f"{question}\n\n{rest}",) if rest else (question,)


class Hints(list[dict[str, str]]):
    """Hints for a template's loop; written out by themselves, a line each, where a template only names them."""

    def __str__(self) -> str:
        return "\n".join(f"{hint['label']}: {hint['text']}" for hint in self)


def _shown(show: Callable[[str], str], text: str | None, unless: str | None = None) -> str | None:
    return show(text) if text and text != unless else None


def _framed(answer: str, justification: str, *, fenced: bool) -> str:
    """The participant's words, as the strings of a JSON object where they are fenced: nothing in them can end one."""
    if not fenced:
        return f"Answer: {answer}\nJustification: {justification}"
    return f'{{\n"answer": {answer},\n"justification": {justification}\n}}'


# ---- replies to predictions ----------------------------------------------------------------------------------------


def _submission(value: Mapping[str, JsonValue], note: str | None) -> tuple[str | None, str | None, str | None]:
    """Answer, justification and note of a reply's object; no answer means it cannot be judged."""
    answer, answer_note = _field(value, "answer")
    justification, justification_note = _field(value, "justification")
    if answer is not None and not answer.strip():
        # Some models leave their answer to the end of the justification; the paper's juries saw those and passed some.
        answer, answer_note = ("" if (justification or "").strip() else None), "blank answer"
    return answer, justification or "", joined(note, answer_note, justification_note)


def _field(value: Mapping[str, JsonValue], name: str) -> tuple[str | None, str | None]:
    text = as_text(value.get(name))
    if text is not None:
        return text, None
    return None, f"{name} is not text" if value.get(name) is not None else f"no {name}"
