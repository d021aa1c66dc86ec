"""qa: questions of one's own, in words or with pictures, whose answers a jury judges.

Rows have ``question`` and, as far as there are any: ``answer`` (the reference; or ``reference``, ``expected``,
``target``), ``id``, ``category``, ``context`` (a text that the question is about), ``images`` and ``split``.
``layton`` is this task with its own prompts, columns and protocol.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from string import ascii_lowercase
from typing import Literal

from layton_batch.errors import DataError, ManifestError
from layton_batch.files.items import item_list
from layton_batch.records import Item, JsonValue, Prediction, Prompt, Response, ResponseSchema, Verdict
from layton_batch.states import PredictionKind
from layton_batch.tasks.benchmark_rows import ItemRow, bundled_file, with_folders
from layton_batch.tasks.protocol import Candidate, TaskOptions, TaskSettings
from layton_batch.tasks.reply_json import as_bool, as_text, joined, object_schema, read_reply, read_verdict, unread
from layton_batch.tasks.templates import Templates, TemplateVariables, block, fence, message
from layton_batch.text import without_surrogates

ANSWER_METRICS = ("answer_correct",)
JUSTIFIED_METRICS = ("both_correct", "answer_correct", "justification_correct")

_SWITCHES = "has_image with_justification"
_SLOTS: Mapping[str, TemplateVariables] = {
    "participant_system": TemplateVariables(may=_SWITCHES),
    "participant_question": TemplateVariables("question", _SWITCHES),
    "judge_system": TemplateVariables(may=f"{_SWITCHES} with_reason"),
    "judge_question": TemplateVariables("question", _SWITCHES),
    "judge_submission": TemplateVariables(
        "submission", f"{_SWITCHES} answer submitted_justification", instead="submitted_answer"
    ),
}
_MOST_COLUMNS_SHOWN = 20
_REFERENCES = ("reference", "expected", "target")

VERDICT_FIELDS = ("is_answer_correct", "is_justification_correct")
REASON = "reason"
# The reasoning comes first, so that a model writes it before it commits to an answer.
_ANSWER_SCHEMAS = {
    False: object_schema("answer", {"answer": "string"}),
    True: object_schema("answer", {"justification": "string", "answer": "string"}),
}
_VERDICT_SCHEMAS = {
    False: object_schema("verdict", dict.fromkeys(VERDICT_FIELDS[:1], "boolean")),
    True: object_schema("verdict", dict.fromkeys(VERDICT_FIELDS, "boolean")),
}


class QaSettings(TaskSettings):
    """``justification``: models justify their answers, and the jury judges that too. ``fence = false``: the manifest's
    own templates get the words of questions and participants as they are. ``pictures``: the folder in which files of
    the column ``images`` are, from the manifest's; by default the folder of the file the row is in."""

    justification: bool = False
    fence: bool | None = None
    pictures: str | None = None


class QaTask:
    """The task. Template names: see ``prompts/qa/``."""

    name: str = "qa"
    all_metrics: Sequence[str] = JUSTIFIED_METRICS
    """Metrics of answers with a justification; the first is the default."""
    uses_jury: Literal[True] = True
    prompts: str = "qa"
    """The folder of the packaged templates."""
    slots: Mapping[str, TemplateVariables] = _SLOTS
    splits: Sequence[str] = ()
    """The splits that the task has; none: whatever rows and manifest name."""
    hint_labels: Sequence[str] = ()
    answer_schemas: Mapping[bool, ResponseSchema] = _ANSWER_SCHEMAS
    """The form of a participant's reply, by whether it has a justification."""
    verdict_schemas: Mapping[bool, ResponseSchema] = _VERDICT_SCHEMAS
    gives_reasons: bool = True
    """True if judges can be asked for reasons (``[jury] reasons``)."""

    def __init__(self, options: TaskOptions, settings: QaSettings = QaSettings()) -> None:  # noqa: B008 - frozen
        options.check(self.name, self.splits, len(self.hint_labels))
        if settings.fence is False and not options.prompts:
            raise ManifestError("task_options.fence = false is about your own templates; name them under [prompts]")
        self._options, self._is_justified = options, settings.justification
        self.metrics: Sequence[str] = self.all_metrics if settings.justification else ANSWER_METRICS
        self._answer_schema = self.answer_schemas[settings.justification]
        self._verdict_schema = self.verdict_schemas[settings.justification]
        if options.reasons:
            fields = VERDICT_FIELDS if settings.justification else VERDICT_FIELDS[:1]
            self._verdict_schema = object_schema("verdict", {REASON: "string", **dict.fromkeys(fields, "boolean")})
        self._pictures = (options.folder or Path()) / settings.pictures if settings.pictures else None
        slots = dict(self.slots)
        if options.reasons:
            slots["judge_system"] = replace(slots["judge_system"], must="with_reason")
        self._templates = Templates(self.prompts, slots, options.prompts, as_written=settings.fence is False)

    @property
    def shows_unfenced(self) -> bool:
        return self._templates.is_as_written("judge_submission")

    def items(self, rows: Iterable[Mapping[str, JsonValue]]) -> Sequence[Item]:
        """Rows of this task's split as items; a row that names no split is of every one."""
        split, pictures = self._options.split, self._pictures
        items = (_item(row, number, split, pictures or at) for number, (row, at) in enumerate(with_folders(rows), 1))
        return item_list(item for item in items if item is not None)

    def bundled(self, split: str) -> Path:
        return bundled_file("qa/questions.jsonl", split, ("llm",))

    def prompt(self, item: Item) -> Prompt:
        system = self._templates.render("participant_system", **self._switches(item))
        question = self._question("participant_question", item)
        return Prompt(system, message(question, *item.images, self._rest(item)), self._answer_schema)

    def _rest(self, item: Item) -> str:
        """Return what follows the question and its pictures."""
        return ""

    def parse(self, item: Item, model: str, response: Response) -> Prediction:
        """``answered`` with a text answer; ``unparsed`` with the reason in the note; ``missing`` without a reply."""
        prediction = unread(item, model, response)
        if prediction.kind is PredictionKind.MISSING:
            return prediction
        reply = read_reply(response, ("answer", "justification") if self._is_justified else ("answer",))
        if reply.value is None:
            return replace(prediction, note=reply.note)
        answer, justification, note = _submission(reply.value, reply.note, is_justified=self._is_justified)
        kind = PredictionKind.UNPARSED if answer is None else PredictionKind.ANSWERED
        return replace(prediction, kind=kind, answer=answer, justification=justification, note=note)

    def judge_prompt(self, candidate: Candidate) -> Prompt:
        item, prediction = candidate.item, candidate.prediction
        system = self._templates.render("judge_system", **self._switches(item), with_reason=self._options.reasons)
        name = "judge_submission"
        show = self._form_of(name)
        participants = without_surrogates if self._templates.is_as_written(name) else fence
        answer = participants(prediction.answer or "")
        justification = participants(prediction.justification or "") if self._is_justified else None
        material = self._templates.render(
            name,
            **self._switches(item),
            hints=self._hints(name, item.hints),
            # A reference that fell back on the solution is not shown twice.
            answer=_shown(show, item.answer, unless=item.solution),
            solution=_shown(show, item.solution),
            justification=_shown(show, item.justification, unless=item.solution),
            submission=_framed(answer, justification, fenced=not self._templates.is_as_written(name)),
            submitted_answer=answer,
            submitted_justification=justification,
        )
        question = self._question("judge_question", item)
        return Prompt(system, message(question, *item.images, material), self._verdict_schema)

    def parse_verdict(self, item_id: str, model: str, judge: str, response: Response) -> Verdict:
        fields = VERDICT_FIELDS if self._is_justified else VERDICT_FIELDS[:1]
        reply = read_verdict(response, fields)
        value = reply.value or {}
        answer, justification = (as_bool(value.get(name)) if name in fields else None for name in VERDICT_FIELDS)
        reason = as_text(value.get(REASON)) if self._options.reasons else None
        return Verdict(item_id, model, judge, answer, justification, reply.note, reason)

    def _switches(self, item: Item) -> Mapping[str, bool]:
        return {"has_image": bool(item.images), "with_justification": self._is_justified}

    def _form_of(self, name: str) -> Callable[[str], str]:
        """Return the function that shows the data set's words in a template."""
        return without_surrogates if self._templates.is_as_written(name) else block

    def _question(self, name: str, item: Item) -> str:
        question = self._form_of(name)(item.question)
        return self._templates.render(name, question=question, **self._switches(item))

    def _hints(self, name: str, hints: Sequence[str | None]) -> Hints:
        show = self._form_of(name)
        labelled = zip(self.hint_labels, hints, strict=False)
        return Hints({"label": label, "text": show(hint)} for label, hint in labelled if hint)


# ---- rows to items -------------------------------------------------------------------------------------------------


def _item(columns: Mapping[str, JsonValue], number: int, split: str, folder: Path | None) -> Item | None:
    """The row as an item; None where it is of another split. Columns are found whatever their case."""
    row = ItemRow.numbered({name.strip().casefold(): value for name, value in columns.items()}, number)
    if "question" not in row.columns:
        listed = ", ".join(map(repr, [*columns][:_MOST_COLUMNS_SHOWN])) or "none"
        raise DataError(f"{row.place}: there is no column 'question'; the columns are: {listed}")
    question = row.needed("question")
    if row.columns.get("split") not in (split, None):
        return None
    answer = _reference(row)
    _check_options(row.columns, answer, row.place)
    context = row.text("context")
    more = {"context": context, "category_definition": row.text("category_definition")}
    return Item(
        id=row.id("id", default=str(number)),
        split=split,
        category=row.text("category", numbers=True) or "",
        question=question if context is None else f"{question}\n\n{context}",
        images=row.pictures("images", folder),
        answer=answer,
        payload={name: text for name, text in more.items() if text is not None},
    )


def _reference(row: ItemRow) -> str | None:
    """The reference answer: in ``answer``, else what other programs call so, if it is a text."""
    written = [name for name in _REFERENCES if isinstance(row.columns.get(name), str | int | float)]
    return row.text("answer", *written, numbers=True)


def _check_options(columns: Mapping[str, JsonValue], reference: str | None, where: str) -> None:
    """Raise DataError for options as text without a list, and for an answer that is the number of one: they were meant
    for models, which would not see them."""
    for name in ("options", "choices"):
        if isinstance(text := columns.get(name), str) and text.strip() and not text.strip().startswith("["):
            raise DataError(
                f"{where}: column {name!r} is no list, so it is no multiple choice, and qa shows no options: write a "
                "list, or put the options into the question and leave the column out"
            )
    listed = next((value for name in ("options", "choices") if isinstance(value := columns.get(name), list)), None)
    if listed is None:
        listed = [value for name, value in columns.items() if name in ascii_lowercase and value is not None]
    answer = (reference or "").strip()
    numbers = {str(number) for number in range(len(listed) + 1)}
    if len(listed) > 1 and answer in numbers and answer not in map(str, listed):
        raise DataError(
            f"{where}: column 'answer' is {answer}, the number of an option, and qa shows no options: write the "
            "option's letter or text, and it is multiple choice"
        )


# ---- items to prompts ----------------------------------------------------------------------------------------------


class Hints(list[dict[str, str]]):
    """Hints for a template's loop; written out by themselves, a line each, where a template only names them."""

    def __str__(self) -> str:
        return "\n".join(f"{hint['label']}: {hint['text']}" for hint in self)


def _shown(show: Callable[[str], str], text: str | None, unless: str | None = None) -> str | None:
    return show(text) if text and text != unless else None


def _framed(answer: str, justification: str | None, *, fenced: bool) -> str:
    """The participant's words, as the strings of a JSON object where they are fenced: nothing in them can end one."""
    words = {"answer": answer} if justification is None else {"answer": answer, "justification": justification}
    if not fenced:
        return "\n".join(f"{name.capitalize()}: {text}" for name, text in words.items())
    fields = ",\n".join(f'"{name}": {text}' for name, text in words.items())
    return f"{{\n{fields}\n}}"


# ---- replies to predictions ----------------------------------------------------------------------------------------


def _submission(
    value: Mapping[str, JsonValue], note: str | None, *, is_justified: bool
) -> tuple[str | None, str | None, str | None]:
    """Return answer, justification and note of a reply's object; no answer means that it cannot be judged."""
    answer, answer_note = _field(value, "answer")
    justification, justification_note = _field(value, "justification") if is_justified else (None, None)
    if answer is not None and not answer.strip():
        # Some models leave their answer to the end of the justification; the paper's juries saw those and passed some.
        answer, answer_note = ("" if (justification or "").strip() else None), "blank answer"
    return answer, (justification or "") if is_justified else None, joined(note, answer_note, justification_note)


def _field(value: Mapping[str, JsonValue], name: str) -> tuple[str | None, str | None]:
    text = as_text(value.get(name))
    if text is not None:
        return text, None
    return None, f"{name} is not text" if value.get(name) is not None else f"no {name}"
