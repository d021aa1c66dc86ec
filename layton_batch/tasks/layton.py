"""layton: riddles in words (split ``llm``) or with a picture (split ``vlm``), graded by a jury.

It is the task ``qa`` with justifications, its own prompts and protocol, and the published columns of layton-eval: ``id,
split, category, description, first_hint, second_hint, third_hint, special_hint, solution, answer, justification`` and,
for ``vlm``, ``img`` (a base64 image).

Two roles: models answer riddles (``answer``), or write the reference explanation of riddles whose answers are known
(``justify``), which the jury verifies and people confirm. Both are the same jobs, tables and labels.

**The original protocol** is the published form of the requests. The instructions are the system text, word for word,
and stand in files of the benchmark's authors that are not part of this package: a manifest names them. The user's
message is a part a field. Participants get the question, the picture and as many hints as the run gives. Judges get the
question, the picture, every hint, the reference's answer, solution and justification, then the participant's answer and
justification. (Source: the requests that the code of layton-eval makes; the names of the fields are part of the
protocol.) Nothing is fenced. A reference that the row lacks reads ``None``; a hint that it lacks is left out.

What differs from the published requests: a provider of OpenAI's form gets a message without a picture as one text with
blank lines between the fields; a picture is announced as the type that it is, not always as JPEG; the schemas of the
replies have no descriptions; what cannot be encoded in a text is replaced. Not known: the output limits that the paper
set, model by model, and how its judges were asked about a reply without an answer (here, as about a blank one).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from layton_batch.errors import DataError, ManifestError
from layton_batch.files.items import item_list
from layton_batch.records import Image, Item, JsonValue, Prompt, ResponseSchema
from layton_batch.tasks.benchmark_rows import ItemRow, bundled_file
from layton_batch.tasks.protocol import Candidate, TaskOptions, TaskSettings
from layton_batch.tasks.qa import VERDICT_FIELDS, QaSettings, QaTask
from layton_batch.tasks.reply_json import object_schema
from layton_batch.tasks.templates import TemplateVariables
from layton_batch.text import without_surrogates

SPLITS = ("llm", "vlm")
HINT_COLUMNS = ("first_hint", "second_hint", "third_hint", "special_hint")
HINT_LABELS = ("First hint", "Second hint", "Third hint", "Special hint")
ORIGINAL, JUSTIFY = "original", "justify"
_INSTRUCTIONS = ("participant_system", "judge_system")
"""The templates of the original protocol."""
_REFERENCES = {"answer": "Riddle answer", "solution": "Riddle solution", "justification": "Suggested justification"}
_SHOWN_REFERENCES = "participant_references"

_SLOTS: Mapping[str, TemplateVariables] = {
    "participant_system": TemplateVariables(may="has_image"),
    "participant_question": TemplateVariables("question", "has_image"),
    "participant_hints": TemplateVariables("hints"),
    "judge_system": TemplateVariables(may="has_image"),
    "judge_question": TemplateVariables("question", "has_image"),
    "judge_submission": TemplateVariables(
        "submission", "hints answer solution justification", instead="submitted_answer submitted_justification"
    ),
}

# The reasoning comes first, so that a model writes it before it commits to an answer.
ANSWER_SCHEMA = object_schema("riddle_answer", {"justification": "string", "answer": "string"})
VERDICT_SCHEMA = object_schema("riddle_verdict", dict.fromkeys(VERDICT_FIELDS, "boolean"))


class LaytonSettings(TaskSettings):
    """``fence = false``: the manifest's own templates get the words of riddles and participants as they are."""

    protocol: Literal["corrected", "original"] = "corrected"
    fence: bool | None = None
    role: Literal["answer", "justify"] = "answer"


class LaytonTask(QaTask):
    """The layton task for one split and hint level. Template names: see ``prompts/layton/``."""

    name = "layton"
    prompts = "layton"
    slots: Mapping[str, TemplateVariables] = _SLOTS
    splits = SPLITS
    hint_labels = HINT_LABELS
    answer_schemas: Mapping[bool, ResponseSchema] = {True: ANSWER_SCHEMA}
    verdict_schemas: Mapping[bool, ResponseSchema] = {True: VERDICT_SCHEMA}
    gives_reasons = False

    def __init__(self, options: TaskOptions, settings: LaytonSettings = LaytonSettings()) -> None:  # noqa: B008 - frozen
        self._is_original = settings.protocol == ORIGINAL
        if self._is_original:
            _check_original(settings, options.prompts or {})
        fence = False if self._is_original and settings.fence is None else settings.fence
        super().__init__(options, QaSettings(justification=True, fence=fence))

    @property
    def shows_unfenced(self) -> bool:
        return self._is_original or super().shows_unfenced

    def items(self, rows: Iterable[Mapping[str, JsonValue]]) -> Sequence[Item]:
        """Rows of this task's split as items; rows that say they belong to the other split are passed over."""
        split = self._options.split
        chosen = ((number, row) for number, row in enumerate(rows, 1) if row.get("split") in (split, None))
        items = ((_item(row, number, split), row) for number, row in chosen)
        if self._is_original:  # the references as the row has them: nothing stands in for a missing one
            return item_list(
                replace(item, payload={name: row.get(name) for name in _REFERENCES}) for item, row in items
            )
        return item_list(item for item, _ in items)

    def bundled(self, split: str) -> Path:
        return bundled_file(f"layton/riddles_{split}.jsonl", split, SPLITS)

    def prompt(self, item: Item) -> Prompt:
        if not self._is_original:
            return super().prompt(item)
        system = self._templates.render("participant_system", has_image=bool(item.images))
        return Prompt(system, tuple(_riddle(item, item.hints[: self._options.hints])), ANSWER_SCHEMA)

    def _rest(self, item: Item) -> str:
        hints = self._hints("participant_hints", item.hints[: self._options.hints])
        return self._templates.render("participant_hints", hints=hints) if hints else ""

    def judge_prompt(self, candidate: Candidate) -> Prompt:
        if not self._is_original:
            return super().judge_prompt(candidate)
        item, prediction = candidate.item, candidate.prediction
        parts = (
            *_riddle(item, item.hints),
            *(_field(label, item.payload.get(name)) for name, label in _REFERENCES.items()),
            _field("Participant answer", prediction.answer or ""),
            _field("Participant justification", prediction.justification or ""),
        )
        return Prompt(self._templates.render("judge_system", has_image=bool(item.images)), parts, VERDICT_SCHEMA)


class JustifyTask(LaytonTask):
    """Asks for the explanation that leads from a riddle to its recorded answer, with all hints and the solution in
    sight; a recorded explanation is shown to nobody. Template names: see ``prompts/layton_justify/``."""

    all_metrics: Sequence[str] = ("justification_correct", "answer_correct", "both_correct")
    prompts = "layton_justify"
    slots: Mapping[str, TemplateVariables] = {
        **{name: slots for name, slots in _SLOTS.items() if name != "participant_hints"},
        _SHOWN_REFERENCES: TemplateVariables("answer solution", "hints"),
    }

    def items(self, rows: Iterable[Mapping[str, JsonValue]]) -> Sequence[Item]:
        """Raises DataError also for a riddle of which neither answer nor solution is recorded."""
        items = super().items({**row, "justification": None} for row in rows)
        for item in items:
            if item.answer is None and item.solution is None:
                raise DataError(f"item {item.id!r}: has neither an answer nor a solution to explain")
        return items

    def _rest(self, item: Item) -> str:
        show = self._form_of(_SHOWN_REFERENCES)
        references = {"answer": item.answer if item.answer != item.solution else None, "solution": item.solution}
        return self._templates.render(
            _SHOWN_REFERENCES,
            hints=self._hints(_SHOWN_REFERENCES, item.hints),
            **{name: show(text) if text else None for name, text in references.items()},
        )


def layton_task(options: TaskOptions, settings: LaytonSettings) -> LaytonTask:
    """Return the task in one role. Raises ManifestError for a role that the protocol does not have."""
    if settings.role != JUSTIFY:
        return LaytonTask(options, settings)
    if settings.protocol == ORIGINAL:
        raise ManifestError(f"task_options.role = {JUSTIFY!r}: only by the protocol 'corrected'")
    return JustifyTask(options, settings)


def _check_original(settings: LaytonSettings, prompts: Mapping[str, Path]) -> None:
    """Raise ManifestError where the original protocol, fence and the manifest's own prompts do not go together."""
    if settings.fence is True:
        raise ManifestError("task_options.fence = true: the original protocol fences nothing; take it out")
    if other := [name for name in prompts if name not in _INSTRUCTIONS]:
        raise ManifestError(f"prompts.{other[0]}: the original protocol has only {' and '.join(_INSTRUCTIONS)}")
    if missing := [name for name in _INSTRUCTIONS if name not in prompts]:
        raise ManifestError(
            f"the original protocol asks by the published prompt files, which are not part of layton-batch: name "
            f"{' and '.join(missing)} under [prompts], each a file or an address"
        )


def _riddle(item: Item, hints: Sequence[str | None]) -> Iterator[str | Image]:
    """Yield the fields of a riddle in the original protocol."""
    yield _field("Riddle question", item.question)
    yield from item.images
    yield from (_field(label, hint) for label, hint in zip(HINT_LABELS, hints, strict=False) if hint)


def _field(label: str, value: JsonValue) -> str:
    return f"{label}: {without_surrogates(str(value))}"


# ---- rows to items -------------------------------------------------------------------------------------------------


def _item(columns: Mapping[str, JsonValue], number: int, split: str) -> Item:
    row = ItemRow.numbered(columns, number)
    answer, solution, justification = (row.text(name) for name in _REFERENCES)
    images = row.pictures("img", None)
    if split == "vlm" and not images:
        raise DataError(f"{row.place}: column 'img' is missing or empty; split vlm needs an image")
    return Item(
        id=row.id("id"),
        split=split,
        category=row.text("category") or "",
        question=row.needed("description"),
        images=images,
        hints=tuple(row.text(column) for column in HINT_COLUMNS),
        answer=answer or solution,
        justification=justification or solution,
        solution=solution or justification or answer,
        picarats=_picarats(columns.get("picarats")),
    )


def _picarats(value: JsonValue) -> int | None:
    """A table may have made a float of it, with the riddles that have none; in a file of CSV everything is text."""
    if isinstance(value, str) and value.isascii() and value.isdecimal():
        return int(value)
    is_whole = isinstance(value, int | float) and not isinstance(value, bool) and value == value // 1 >= 0
    return int(value) if is_whole else None  # type: ignore[arg-type]
