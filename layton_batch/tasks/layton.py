"""layton: riddles in words (split ``llm``) or with a picture (split ``vlm``), graded by a jury.

It is the task ``qa`` with justifications, its own prompts and protocol, and the published columns of layton-eval: ``id,
split, category, description, first_hint, second_hint, third_hint, special_hint, solution, answer, justification`` and,
for ``vlm``, ``img`` (a base64 image).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from layton_batch.errors import DataError
from layton_batch.files.item_list import item_list
from layton_batch.records import Image, Item, JsonValue, Prompt, ResponseSchema
from layton_batch.tasks.benchmark_rows import id_of, needed_text, picture_in, text_of
from layton_batch.tasks.layton_rules import original_requests
from layton_batch.tasks.layton_rules.original_requests import CORRECTED, ORIGINAL, check_prompts
from layton_batch.tasks.protocol import Candidate, TaskOptions
from layton_batch.tasks.qa import HERE, SUBMITTED, VERDICT_FIELDS, QaTask, parts_of
from layton_batch.tasks.reply_json import object_schema
from layton_batch.tasks.templates import TemplateVariables

SPLITS = ("llm", "vlm")
HINT_COLUMNS = ("first_hint", "second_hint", "third_hint", "special_hint")
HINT_LABELS = ("First hint", "Second hint", "Third hint", "Special hint")

_SLOTS: Mapping[str, TemplateVariables] = {
    "participant_system": TemplateVariables(frozenset({"has_image"})),
    "participant_question": TemplateVariables(frozenset({"question", "has_image"}), must=frozenset({"question"})),
    "participant_hints": TemplateVariables(frozenset({"hints"}), must=frozenset({"hints"})),
    "judge_system": TemplateVariables(frozenset({"has_image"})),
    "judge_question": TemplateVariables(frozenset({"question", "has_image"}), must=frozenset({"question"})),
    "judge_submission": TemplateVariables(
        frozenset({"hints", "answer", "solution", "justification", "submission", *SUBMITTED}),
        must=frozenset({"submission"}),
        instead=frozenset(SUBMITTED),
    ),
}

# The reasoning comes first, so that a model writes it before it commits to an answer.
ANSWER_SCHEMA = object_schema("riddle_answer", {"justification": "string", "answer": "string"})
VERDICT_SCHEMA = object_schema("riddle_verdict", dict.fromkeys(VERDICT_FIELDS, "boolean"))


class LaytonTask(QaTask):
    """The layton task for one split and hint level. Template names: see ``prompts/layton/``.

    ``fence = False``: the manifest's own templates get the words of riddles and participants as they are. ``protocol =
    "original"``: the published form of the requests (``layton_rules/original_requests.py``), under the manifest's own
    instructions.
    """

    name = "layton"
    prompts = "layton"
    slots: Mapping[str, TemplateVariables] = _SLOTS
    splits = SPLITS
    hint_labels = HINT_LABELS
    answer_schemas: Mapping[bool, ResponseSchema] = {True: ANSWER_SCHEMA}
    verdict_schemas: Mapping[bool, ResponseSchema] = {True: VERDICT_SCHEMA}

    def __init__(self, options: TaskOptions, protocol: str = CORRECTED, fence: bool | None = None) -> None:
        check_prompts(protocol, fence, options.prompts or {})
        self.protocol = protocol
        fences_nothing = protocol == ORIGINAL and fence is None
        super().__init__(options, justification=True, fence=False if fences_nothing else fence)

    @property
    def shows_unfenced(self) -> bool:
        return self.protocol == ORIGINAL or super().shows_unfenced

    def items(self, rows: Iterable[Mapping[str, JsonValue]]) -> Sequence[Item]:
        """Rows of this task's split as items; rows that say they belong to the other split are passed over."""
        split = self._options.split
        chosen = ((number, row) for number, row in enumerate(rows, 1) if row.get("split") in (split, None))
        items = ((_item(row, number, split), row) for number, row in chosen)
        if self.protocol == ORIGINAL:
            return item_list(original_requests.with_references(item, row) for item, row in items)
        return item_list(item for item, _ in items)

    def bundled(self, split: str) -> Path:
        if split not in SPLITS:
            raise DataError(f"no bundled items for split {split!r}; there are {' and '.join(SPLITS)}")
        return HERE / "data" / "layton" / f"riddles_{split}.jsonl"

    def prompt(self, item: Item) -> Prompt:
        hints = item.hints[: self._options.hints]
        system = self._templates.render("participant_system", has_image=bool(item.images))
        if self.protocol == ORIGINAL:
            return Prompt(system, original_requests.asked(item, hints), ANSWER_SCHEMA)
        shown_hints = self._hints("participant_hints", hints)
        rest = self._templates.render("participant_hints", hints=shown_hints) if shown_hints else ""
        return Prompt(system, parts_of(self._question("participant_question", item), item.images, rest), ANSWER_SCHEMA)

    def judge_prompt(self, candidate: Candidate) -> Prompt:
        if self.protocol != ORIGINAL:
            return super().judge_prompt(candidate)
        system = self._templates.render("judge_system", has_image=bool(candidate.item.images))
        return Prompt(system, original_requests.judged(candidate.item, candidate.prediction), VERDICT_SCHEMA)


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
