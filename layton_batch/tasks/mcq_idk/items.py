"""Rows of multiple-choice data sets as items: their letters, their order and what replies are held against.

Columns are found whatever their case. Five shapes are read: ``options`` (or ``choices``) with the right one in
``answer``, ``gold``, ``answer_index``, ``label``, ``answerKey``, ``correct``, ``expected`` or ``target`` (an index from
0, a letter, or the option's text); ARC's ``choices`` with a list of texts and one of labels; a column an option, ``A``,
``B`` … (or ``option_a`` …), with the right one named so too; GPQA's ``Correct Answer`` and ``Incorrect Answer 1`` …;
and lists written as text, as some tables hold them. idk-eval's rows have the same question with several
numbers of options, in ``options_4`` and ``answer_index_4`` and others.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from string import ascii_lowercase, ascii_uppercase

from layton_batch.errors import DataError
from layton_batch.records import Item, JsonValue
from layton_batch.tasks.templates import without_surrogates

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


@dataclass(frozen=True, slots=True)
class Key:
    """Key of an item: the right letters (several only for options of one text) and how many
    real options there are."""

    gold: str
    n_options: int


def item_key(item: Item, *, first_alone: bool) -> Key:
    """Return the key of an item of this task. Raises DataError where its payload is not what the task made it.

    ``first_alone``: as published, the right option is looked for by its text, so that of two equal options the first is
    right and the other wrong; otherwise both are.
    """
    options, gold = item.payload.get("options"), item.payload.get("gold")
    if not isinstance(options, list) or not MIN_OPTIONS <= len(options) <= MAX_OPTIONS:
        raise DataError(f"item {item.id!r}: its payload has no list of options")
    if not isinstance(gold, str) or len(gold) != 1 or gold not in option_letters(len(options)):
        raise DataError(f"item {item.id!r}: its payload has no gold letter")
    same = _of_one_text(options, gold)
    return Key(same[0] if first_alone else same, len(options))


def _of_one_text(options: Sequence[JsonValue], gold: str) -> str:
    letters = option_letters(len(options))
    right = options[letters.index(gold)]
    return "".join(letter for letter, option in zip(letters, options, strict=True) if option == right)


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


def item_from(row: FileRow, number: int, split: str, seed: int | None, n_options: int | None = None) -> Item:
    """The item, its real options in shuffled order. ``seed``: None: in the order of the row; GPQA's columns have none,
    which ``order`` in the payload says. ``n_options``: of the columns that name this number of options.

    Raises DataError naming the row and what is wrong with it.
    """
    columns = _lower(row)
    item_id = _id(columns, number)
    where = f"row {number} (item {item_id!r})"
    columns = _unnested(columns, where)
    if n_options is not None:
        columns = _numbered(columns, n_options, number)
    options, right = _options(columns, where)
    order = tuple(range(len(options))) if seed is None else shuffled_order(item_id, len(options), seed)
    has_order = seed is not None or _CORRECT not in columns
    is_index = _CORRECT not in columns and isinstance(_given_right(columns)[1], int)
    return Item(
        id=item_id,
        split=split,
        category=_text(columns, _CATEGORY, where) or "",
        question=_needed(columns, where),
        answer=options[right],
        justification=_text(columns, ("explanation", "justification"), where),
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
    shown, own = _checked(_as_list(options, "options", where), where), item.payload.get("options")
    if item.answer is None or not isinstance(own, list) or Counter(shown) != Counter(map(str, own)):
        raise DataError(f"{where}: column 'options' has other options than the item has")
    gold = ascii_uppercase[shown.index(item.answer)]
    return replace(item, payload={**item.payload, "options": list[JsonValue](shown), "gold": gold})


def _numbered(columns: dict[str, JsonValue], n_options: int, number: int) -> dict[str, JsonValue]:
    """The columns with ``options_N`` and ``answer_index_N`` in the place of all others of their kind."""
    names = f"options_{n_options}", f"answer_index_{n_options}"
    missing = next((name for name in names if columns.get(name) is None), None)
    if missing is not None:
        raise DataError(f"row {number}: column {missing!r} is missing; n_options in [task_options] asks for it")
    rest = {name: value for name, value in columns.items() if name not in (*_OPTIONS, *_RIGHT)}
    return {**rest, "options": columns[names[0]], "answer_index": columns[names[1]]}


def _lower(row: FileRow) -> dict[str, JsonValue]:
    return {name.strip().lower(): value for name, value in row.items()}


def _unnested(columns: dict[str, JsonValue], where: str) -> dict[str, JsonValue]:
    """The columns with ARC's options as a list, and the right one by its text in the place of its label. Raises
    DataError for a label that no option has."""
    name = next((name for name in _OPTIONS if isinstance(columns.get(name), Mapping)), None)
    nested = columns.get(name) if name is not None else None
    if name is None or not isinstance(nested, Mapping):
        return columns
    texts = _as_list(nested.get("text"), name, where)
    labels, (right, given) = nested.get("label"), _given_right(columns)
    if right is not None and isinstance(labels, list):
        by_label = dict(zip((str(label).strip() for label in labels), texts, strict=False))
        if (label := str(given).strip()) not in by_label:
            raise DataError(f"{where}: column {right!r} is {label[:80]!r}; the labels are {', '.join(by_label)}")
        columns = {**columns, right: by_label[label]}
    return {**columns, name: list[JsonValue](texts)}


def _id(columns: FileRow, number: int) -> str:
    for name in _ID:
        value = columns.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
    return str(number)


def _text(columns: FileRow, names: Sequence[str], where: str) -> str | None:
    for name in names:
        value = columns.get(name)
        if value is not None and not isinstance(value, str):
            raise DataError(f"{where}: column {name!r} must be text or null, not {type(value).__name__}")
        if value and value.strip():
            return without_surrogates(value.strip())
    return None


def _needed(columns: FileRow, where: str) -> str:
    question = _text(columns, ("question",), where)
    if question is None:
        raise DataError(f"{where}: column 'question' is missing or blank")
    return question


# ---- options -------------------------------------------------------------------------------------------------------


def _options(columns: FileRow, where: str) -> tuple[list[str], int]:
    """The real options in the row's order, and the index of the right one."""
    if (correct := _text(columns, (_CORRECT,), where)) is not None:
        names = sorted((name for name in columns if name.startswith("incorrect answer")), key=_ordinal)
        wrong = [text for name in names if (text := _text(columns, (name,), where)) is not None]
        return _checked([*wrong, correct], where), len(wrong)
    name = next((name for name in _OPTIONS if columns.get(name) is not None), None)
    listed = _lettered(columns, where) if name is None else _as_list(columns[name], name, where)
    if name is None and not listed:
        raise DataError(f"{where}: no column 'options' or 'choices', no columns 'A', 'B' …, and no 'Correct Answer'")
    options = _checked(listed, where)
    return options, _right(columns, options, where)


def _lettered(columns: FileRow, where: str) -> list[str]:
    """The options that have a column each, up to the last one; "" for one that is empty; none without an ``a``."""
    by_letter = {name.removeprefix("option").strip(" _"): value for name, value in columns.items()}
    values = [by_letter.get(letter) for letter in ascii_lowercase]
    while values and values[-1] is None:
        values.pop()
    if not values or values[0] is None:
        return []
    return _texts(["" if value is None else value for value in values], where)


def _ordinal(name: str) -> tuple[int, str]:
    digits = name.rpartition(" ")[2]
    return (int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 4 else 0, name)


def _as_list(value: JsonValue, name: str, where: str) -> list[str]:
    if isinstance(value, str):
        value = _parsed(value, name, where)
    if not isinstance(value, list):
        raise DataError(f"{where}: column {name!r} must be a list of options, not {type(value).__name__}")
    return _texts(value, where)


def _texts(values: Sequence[JsonValue], where: str) -> list[str]:
    texts: list[str] = []
    for value in values:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise DataError(f"{where}: option {len(texts) + 1} must be text, not {type(value).__name__}")
        texts.append(without_surrogates(str(value).strip()))
    return texts


def _parsed(text: str, name: str, where: str) -> JsonValue:
    for read in (json.loads, ast.literal_eval) if len(text) <= _MAX_LIST_CHARS else ():
        try:
            value: JsonValue = read(text)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        return value
    raise DataError(f'{where}: column {name!r} is text that is not a list; write a list, such as ["Paris", "Rome"]')


def _checked(options: list[str], where: str) -> list[str]:
    if not MIN_OPTIONS <= len(options) <= MAX_OPTIONS:
        raise DataError(f"{where}: {len(options)} options; there must be {MIN_OPTIONS} to {MAX_OPTIONS}")
    if "" in options:
        raise DataError(f"{where}: option {options.index('') + 1} is blank")
    return options


def _given_right(columns: FileRow) -> tuple[str | None, JsonValue]:
    """Return the column that says which option is right, and its value."""
    name = next((name for name in _RIGHT if columns.get(name) is not None), None)
    return name, None if name is None else columns[name]


def _right(columns: FileRow, options: Sequence[str], where: str) -> int:
    name, value = _given_right(columns)
    if name is None:
        raise DataError(f"{where}: which option is right? No column {', '.join(map(repr, _RIGHT))}")
    index = None
    if isinstance(value, int) and not isinstance(value, bool):
        index = value
    elif isinstance(value, str):
        index = _index_of(without_surrogates(value.strip()), options)
    if index is None or not 0 <= index < len(options):
        letters = option_letters(len(options))
        raise DataError(
            f"{where}: column {name!r} is {str(value).strip()[:80]!r}; it must be the right option's letter "
            f"({letters[0]} to {letters[-1]}), its text, or as a number its index, 0 to {len(options) - 1}"
        )
    return index


_LETTER = re.compile(r"\(?([A-Za-z])[).:]?")
"""A letter as people write it: B, b, B), (b), B."""


def _index_of(text: str, options: Sequence[str]) -> int | None:
    """Return the index of the option that a text names: by its own text, its letter, or its text in another case."""
    if text in options:
        return options.index(text)
    if (letter := _LETTER.fullmatch(text)) is not None:
        return ascii_uppercase.index(letter[1].upper())
    alike = [index for index, option in enumerate(options) if option.casefold() == text.casefold()]
    return alike[0] if len(alike) == 1 else None
