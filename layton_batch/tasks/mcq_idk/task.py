"""mcq_idk: multiple choice where "I don't know" is the last option, and a mistake costs a point (evaluate-idk).

Any data set with 2 to 25 options an item. Columns are found whatever their case. Five shapes are read: ``options`` (or
``choices``) with the right one in ``answer``, ``gold``, ``answer_index``, ``label``, ``answerKey``, ``correct``,
``expected`` or ``target`` (an index from 0, a letter, or the option's text); ARC's ``choices`` with a list of texts and
one of labels; a column an option, ``A``, ``B`` … (or ``option_a`` …), with the right one named so too; GPQA's ``Correct
Answer`` and ``Incorrect Answer 1`` …; and lists written as text, as some tables hold them. idk-eval's rows have the
same question with several numbers of options, in ``options_4`` and ``answer_index_4`` and others.

The options are shuffled once, when rows become items, and kept on the item: ``payload`` has ``options`` as shown,
``gold`` and ``idk_letter`` (letters), ``order`` (of each shown option, its index in the row) and ``seed``.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from string import ascii_lowercase, ascii_uppercase
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import Grade, Item, JsonValue, Prediction, Prompt, Response
from layton_batch.states import FinishReason, PredictionKind
from layton_batch.tasks.benchmark_rows import ItemRow, bundled_file
from layton_batch.tasks.mcq_idk.published_letters import read_original, without_think_blocks
from layton_batch.tasks.protocol import TaskOptions, TaskSettings
from layton_batch.tasks.reply_json import ENDINGS, unread, without_thoughts
from layton_batch.tasks.templates import Templates, TemplateVariables
from layton_batch.text import without_surrogates

FileRow = Mapping[str, JsonValue]

MIN_OPTIONS, MAX_OPTIONS = 2, 25
"""Real options an item may have; "I don't know" comes on top, so that Z is the last letter there can be."""


def idk_letter(n_options: int) -> str:
    """The letter of "I don't know": the one after the last real option."""
    return ascii_uppercase[n_options]


def option_letters(n_options: int) -> str:
    """The letters of the real options, in order."""
    return ascii_uppercase[:n_options]


def shuffled_order(item_id: str, n_options: int, seed: int) -> tuple[int, ...]:
    """The order in which an item's options are shown: index of the option behind A, behind B, …

    Sorted by digest instead of drawn: the order depends on nothing but (seed, item, number of options), not on which
    other items there are, nor on a generator whose stream another Python version may change.
    """
    keys = [hashlib.sha256(f"{seed}\0{item_id}\0{index}".encode()).digest() for index in range(n_options)]
    return tuple(sorted(range(n_options), key=keys.__getitem__))


def item_key(item: Item, protocol: str) -> tuple[str, int]:
    """Return the right letters of an item (several only for options of one text) and how many real options there are.

    As published, the right option is looked for by its text, so that of two equal options the first is right and the
    other wrong; in the corrected protocol both are right. Raises DataError where the payload is not what the task made
    it.
    """
    options, gold = item.payload.get("options"), item.payload.get("gold")
    if not isinstance(options, list) or not MIN_OPTIONS <= len(options) <= MAX_OPTIONS:
        raise DataError(f"item {item.id!r}: its payload has no list of options")
    if not isinstance(gold, str) or len(gold) != 1 or gold not in option_letters(len(options)):
        raise DataError(f"item {item.id!r}: its payload has no gold letter")
    letters = option_letters(len(options))
    right = options[letters.index(gold)]
    same = "".join(letter for letter, option in zip(letters, options, strict=True) if option == right)
    return same if protocol == CORRECTED else same[0], len(options)


# ---- rows ----------------------------------------------------------------------------------------------------------


_ID = ("id", "item_id", "record id", "record_id", "question_id")
_OPTIONS = ("options", "choices")
_RIGHT = ("answer", "gold", "answer_index", "label", "answerkey", "correct", "expected", "target")
_CORRECT = "correct answer"
_CATEGORY = ("category", "subject", "course", "subdomain", "high-level domain")
_MAX_LIST_CHARS = 200_000


def belongs(row: FileRow, split: str) -> bool:
    """Return whether a row belongs to a split.

    A row may name its split, and a two-letter split may be a language. "llm", the default, takes every row.
    """
    columns = _lower(row)
    named = columns.get("split")
    if named is None and len(split) == 2:
        named = columns.get("language")
    return split == "llm" or named is None or named == split


def item_from(columns: FileRow, number: int, split: str, seed: int | None, n_options: int | None = None) -> Item:
    """The item, its real options in shuffled order. ``seed``: None: in the order of the row; GPQA's columns have none,
    which ``order`` in the payload says. ``n_options``: of the columns that name this number of options.

    Raises DataError naming the row and what is wrong with it.
    """
    row = ItemRow(_lower(columns), f"row {number}")
    item_id = row.id(*_ID, default=str(number))
    row = replace(row, place=f"row {number} (item {item_id!r})")
    options, right, is_index = _options(row if n_options is None else _with_options(row, n_options))
    order = tuple(range(len(options))) if seed is None else shuffled_order(item_id, len(options), seed)
    has_order = seed is not None or _CORRECT not in row.columns
    return Item(
        id=item_id,
        split=split,
        category=(row.text(*_CATEGORY) or "").strip(),
        question=row.needed("question").strip(),
        answer=options[right],
        justification=row.text("explanation", "justification"),
        payload={
            "options": [options[index] for index in order],
            "gold": ascii_uppercase[order.index(right)],
            "idk_letter": idk_letter(len(options)),
            "order": list(order) if has_order else None,
            "seed": seed,
            **({"is_index": True} if is_index else {}),
        },
    )


def in_order_of(options: JsonValue, item: Item, where: str) -> Item:
    """Return the item with its real options in the order that a model saw. Raises DataError for other options."""
    shown, own = _as_list(options, "options", where), item.payload.get("options")
    if item.answer is None or not isinstance(own, list) or Counter(shown) != Counter(map(str, own)):
        raise DataError(f"{where}: column 'options' has other options than the item has")
    gold = ascii_uppercase[shown.index(item.answer)]
    return replace(item, payload={**item.payload, "options": list[JsonValue](shown), "gold": gold})


def _lower(row: FileRow) -> FileRow:
    return {name.strip().lower(): value for name, value in row.items()}


# ---- options -------------------------------------------------------------------------------------------------------


def _with_options(row: ItemRow, n_options: int) -> ItemRow:
    """Return the row with ``options_N`` and ``answer_index_N`` in the place of all others of their kind."""
    names = f"options_{n_options}", f"answer_index_{n_options}"
    missing = next((name for name in names if row.columns.get(name) is None), None)
    if missing is not None:
        raise DataError(f"{row.place}: column {missing!r} is missing; n_options in [task_options] asks for it")
    rest = {name: value for name, value in row.columns.items() if name not in (*_OPTIONS, *_RIGHT)}
    return replace(row, columns={**rest, "options": row.columns[names[0]], "answer_index": row.columns[names[1]]})


def _options(row: ItemRow) -> tuple[list[str], int, bool]:
    """The real options in the row's order, the index of the right one, and whether the row says that index."""
    if row.text(_CORRECT) is not None:
        names = sorted((name for name in row.columns if name.startswith("incorrect answer")), key=_ordinal)
        options = _checked([text for name in (*names, _CORRECT) if (text := row.text(name)) is not None], row.place)
        return options, len(options) - 1, False
    right, given = next(((name, row.columns[name]) for name in _RIGHT if row.columns.get(name) is not None), ("", None))
    if not right:
        raise DataError(f"{row.place}: which option is right? No column {', '.join(map(repr, _RIGHT))}")
    name = next((name for name in _OPTIONS if row.columns.get(name) is not None), None)
    value = None if name is None else row.columns[name]
    if name is None:
        options = _lettered(row)
    elif isinstance(value, Mapping):
        options = _as_list(value.get("text"), name, row.place)
        given = _labelled(value.get("label"), options, given, f"{row.place}: column {right!r}")
    else:
        options = _as_list(value, name, row.place)
    return options, _right(given, options, f"{row.place}: column {right!r}"), isinstance(given, int)


def _ordinal(name: str) -> tuple[int, str]:
    digits = name.rpartition(" ")[2]
    return (int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 4 else 0, name)


def _lettered(row: ItemRow) -> list[str]:
    """The options that have a column each, up to the last one."""
    by_letter = {name.removeprefix("option").strip(" _"): value for name, value in row.columns.items()}
    values = [by_letter.get(letter) for letter in ascii_lowercase]
    while values and values[-1] is None:
        values.pop()
    if not values or values[0] is None:
        raise DataError(
            f"{row.place}: no column 'options' or 'choices', no columns 'A', 'B' …, and no 'Correct Answer'"
        )
    return _checked(["" if value is None else value for value in values], row.place)


def _labelled(labels: JsonValue, options: Sequence[str], given: JsonValue, where: str) -> JsonValue:
    """The text of the option that ARC's labels give this name."""
    if not isinstance(labels, list):
        return given
    by_label = dict(zip((str(label).strip() for label in labels), options, strict=False))
    if (label := str(given).strip()) not in by_label:
        raise DataError(f"{where} is {label[:80]!r}; the labels are {', '.join(by_label)}")
    return by_label[label]


def _as_list(value: JsonValue, name: str, where: str) -> list[str]:
    if isinstance(value, str):
        value = _parsed(value, name, where)
    if not isinstance(value, list):
        raise DataError(f"{where}: column {name!r} must be a list of options, not {type(value).__name__}")
    return _checked(value, where)


def _parsed(text: str, name: str, where: str) -> JsonValue:
    """Read a list that a table holds as text: in JSON, or as Python writes it."""
    for read in (json.loads, ast.literal_eval) if len(text) <= _MAX_LIST_CHARS else ():
        try:
            value: JsonValue = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return value
    raise DataError(f'{where}: column {name!r} is text that is not a list; write a list, such as ["Paris", "Rome"]')


def _checked(values: Sequence[JsonValue], where: str) -> list[str]:
    if not MIN_OPTIONS <= len(values) <= MAX_OPTIONS:
        raise DataError(f"{where}: {len(values)} options; there must be {MIN_OPTIONS} to {MAX_OPTIONS}")
    options: list[str] = []
    for number, value in enumerate(values, 1):
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise DataError(f"{where}: option {number} must be text, not {type(value).__name__}")
        options.append(without_surrogates(str(value).strip()))
        if not options[-1]:
            raise DataError(f"{where}: option {number} is blank")
    return options


_LETTER = re.compile(r"\(?([A-Za-z])[).:]?")
"""A letter as people write it: B, b, B), (b), B."""


def _right(given: JsonValue, options: Sequence[str], where: str) -> int:
    """Return the index that the value of a column gives."""
    index = None
    if isinstance(given, int) and not isinstance(given, bool):
        index = given
    elif isinstance(given, str):
        index = _index_of(without_surrogates(given.strip()), options)
    if index is None or not 0 <= index < len(options):
        letters = option_letters(len(options))
        raise DataError(
            f"{where} is {str(given).strip()[:80]!r}; it must be the right option's letter "
            f"({letters[0]} to {letters[-1]}), its text, or as a number its index, 0 to {len(options) - 1}"
        )
    return index


def _index_of(text: str, options: Sequence[str]) -> int | None:
    """Return the index of the option that a text names: by its own text, its letter, or its text in another case."""
    if text in options:
        return options.index(text)
    if (letter := _LETTER.fullmatch(text)) is not None:
        return ascii_uppercase.index(letter[1].upper())
    alike = [index for index, option in enumerate(options) if option.casefold() == text.casefold()]
    return alike[0] if len(alike) == 1 else None


METRICS = ("trad_score", "idk_score", "idk_freq", "extract_fail")
"""In the published order; the first is the one the published table is sorted by."""
Marks = Mapping[str, float]
"""One reply's marks: right (0, 1), right-or-penalised (-1, 0, 1), abstained (0, 1), unreadable (0, 1)."""


def _marks(*values: float) -> Marks:
    return MappingProxyType(dict(zip(METRICS, values, strict=True)))


CORRECT, WRONG, ABSTAINED, NO_LETTER = "correct", "wrong", "abstained", "no_letter"
MARKS: Mapping[str, Marks] = {
    CORRECT: _marks(1.0, 1.0, 0.0, 0.0),
    WRONG: _marks(0.0, -1.0, 0.0, 0.0),
    ABSTAINED: _marks(0.0, 0.0, 1.0, 0.0),
    NO_LETTER: _marks(0.0, -1.0, 0.0, 1.0),
}
"""Marks by the outcome of a reply; each reply has exactly one."""


def outcome_of(letter: str | None, gold: str, idk_letter: str) -> str:
    """Return the outcome of the letter a reply gives; None: it could not be read.

    ``gold``: every letter that is right (more than one only where two options have the same text). A letter the item
    has no option for is wrong.
    """
    if letter is None:
        return NO_LETTER
    return ABSTAINED if letter == idk_letter else CORRECT if letter in gold else WRONG


ORIGINAL, ORIGINAL_V2, CORRECTED = "original", "original_v2", "corrected"
"""``original``: evaluate-idk to the letter, with its first prompts (all GPQA rows of its table). ``original_v2``: the
same with its present prompts (all LEXam rows). ``corrected``, the default: the requested form wins, 2 to 25 options."""
_PROMPT_END = {CORRECTED: "", ORIGINAL: "\n\n", ORIGINAL_V2: "\n"}
"""Line breaks after a prompt's last word."""

_QUESTION = TemplateVariables("question options", "instruction idk_letter")
_SLOTS: Mapping[str, TemplateVariables] = {
    "instruction": TemplateVariables("idk_letter"),
    "corrected": _QUESTION,
    "original": _QUESTION,
    "instruction_v2": TemplateVariables(may="idk_letter category course_name"),
    "original_v2": _QUESTION,
}


class McqSettings(TaskSettings):
    """``seed``: of the order of options. ``n_options``: which of several numbers of options a row's columns have.
    ``instruction = false``: the present prompt without the published words, as idk-eval is asked."""

    protocol: Literal["corrected", "original", "original_v2"] = "corrected"
    seed: int = 0
    n_options: Annotated[int, Field(ge=MIN_OPTIONS, le=MAX_OPTIONS)] | None = None
    instruction: bool = True


class McqIdkTask:
    """The task for one split. Template names: ``instruction`` (the published words) and the protocol's own."""

    name: str = "mcq_idk"
    metrics: Sequence[str] = METRICS
    uses_jury: Literal[False] = False

    def __init__(self, options: TaskOptions, settings: McqSettings = McqSettings()) -> None:  # noqa: B008 - frozen
        options.check(self.name)
        if not settings.instruction and settings.protocol != ORIGINAL_V2:
            raise ManifestError(f"task_options.instruction = false is for protocol {ORIGINAL_V2!r}")
        self.protocol: str = settings.protocol
        self._split, self._settings = options.split, settings
        self._templates = Templates("mcq_idk", _SLOTS, options.prompts, as_written=self.protocol == ORIGINAL_V2)

    def span(self, metric: str) -> tuple[float, float]:
        """A wrong answer costs as much as a right one earns by ``idk_score``; the others are from 0 to 1."""
        return (-1.0 if metric == "idk_score" else 0.0), 1.0

    def items(self, rows: Iterable[Mapping[str, JsonValue]]) -> Sequence[Item]:
        """Rows as items; those of another split (or of another language than a two-letter split) are passed over."""
        split, chosen = self._split, self._settings
        numbered = ((number, row) for number, row in enumerate(rows, 1) if belongs(row, split))
        return [item_from(row, number, split, chosen.seed, chosen.n_options) for number, row in numbered]

    def bundled(self, split: str) -> Path:
        return bundled_file("mcq_idk/demo.jsonl", split, ("demo", "llm"))

    def prompt(self, item: Item) -> Prompt:
        """One user message and no system text, as published. The originals' bytes: no blank between instruction and
        question, and two line breaks (version 2: one) at the end."""
        options = item.payload.get("options")
        shown = [str(option) for option in options] if isinstance(options, list) else []
        idk = idk_letter(len(shown))
        lines = zip(option_letters(len(shown)) + idk, [*shown, "I don't know"], strict=True)
        text = self._templates.render(
            self.protocol,
            instruction=self._instruction(item, idk),
            question=item.question,
            options="\n".join(f"{letter}) {option}" for letter, option in lines),
            idk_letter=idk,
        )
        return Prompt(system="", parts=(text + _PROMPT_END[self.protocol],))

    def _instruction(self, item: Item, idk: str) -> str:
        if self.protocol != ORIGINAL_V2:
            return self._templates.render("instruction", idk_letter=idk)
        if not self._settings.instruction:
            return ""
        return self._templates.render(
            "instruction_v2", idk_letter=idk, category=item.category, course_name=item.category
        )

    def parse(self, item: Item, model: str, response: Response) -> Prediction:
        """``answered`` with one of the item's letters, ``abstained`` with the last one, or ``unparsed``."""
        prediction = unread(item, model, response)
        if prediction.kind is PredictionKind.MISSING:
            return prediction
        options = item.payload.get("options")
        n_options = len(options) if isinstance(options, list) else MAX_OPTIONS
        # the original scores the text of a refusal too
        is_refused = self.protocol == CORRECTED and prediction.ending is FinishReason.REFUSAL
        letter = None if is_refused else read_letter(prediction.raw_text or "", self.protocol, n_options)
        if letter is None:
            return replace(prediction, note=prediction.note or "no letter")
        kind = PredictionKind.ABSTAINED if letter == idk_letter(n_options) else PredictionKind.ANSWERED
        return replace(prediction, kind=kind, answer=letter)

    def grade(self, item: Item, prediction: Prediction) -> Grade:
        """Return the marks of the letter that was read. No readable letter costs a point, as published.

        The tag is ``wrong``, ``abstained``, ``no_letter``, ``truncated``, ``refused`` or ``missing``; None if right.
        """
        try:
            gold, n_options = item_key(item, self.protocol)
        except DataError as error:
            return Grade(item.id, prediction.model, dict.fromkeys(METRICS, 0.0), "ungradable", str(error))
        outcome = outcome_of(prediction.answer, gold, idk_letter(n_options))
        return Grade(item.id, prediction.model, dict(MARKS[outcome]), tag_of(outcome, prediction))


def tag_of(outcome: str, prediction: Prediction) -> str | None:
    """Return the kind of failure; None where nothing failed."""
    if outcome == CORRECT:
        return None
    if outcome != NO_LETTER:
        return outcome
    if prediction.kind is PredictionKind.MISSING:
        return str(PredictionKind.MISSING)
    return ENDINGS.get(prediction.ending, outcome)


def read_letter(text: str, protocol: str, n_options: int) -> str | None:
    """Read the letter of a reply, None without one.

    The original knows no number of options: it reads A-E in prose and A-K in the requested forms, whatever was asked.
    """
    if protocol != CORRECTED:
        return read_original(without_think_blocks(text))
    return read_corrected(without_thoughts(text), n_options)


_END = r"(?=[)\]}.:*_`$](?!\w)|[ \t]*$)"
"""End of a letter: a closing mark or the end of its line. "Answer: A company" and "Answer: A or B" name no letter."""


def read_corrected(text: str, n_options: int) -> str | None:
    r"""Read the letter of a reply without its thoughts.

    The last ``###X###`` decides; without any, the last "Answer: X", "answer is X" or ``\boxed{X}``.
    """
    for form in _forms(n_options):
        if letters := form.findall(text):
            return str(letters[-1])
    return None


@cache
def _forms(n_options: int) -> tuple[re.Pattern[str], ...]:
    letter = f"([{option_letters(n_options)}{idk_letter(n_options)}])"
    return (
        re.compile(f"###{letter}###"),
        re.compile(rf"(?:(?i:answer(?:\s+is)?)|\\boxed)\W{{1,12}}{letter}{_END}", re.MULTILINE),
    )
