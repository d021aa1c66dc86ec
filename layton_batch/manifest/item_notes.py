"""Notes on items that a person needs before paying: `plan` and `run` print them, `items check` has the rows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from layton_batch.files.item_list import shown_digest
from layton_batch.records import Item
from layton_batch.tasks.protocol import Task
from layton_batch.text import first_of, plural, shortened

PLACEHOLDERS = frozenset(
    {"n/a", "#n/a", "-", "--", "–", "—", "?", "??", "???", "tbd", "todo", "...", "…"}
    | {"#ref!", "#value!", "#name?", "#div/0!", "#num!", "#null!"}
)
"""Texts, in lower case, that stand where an answer is missing, and the errors of a spreadsheet's formulas."""
_OWN_LETTER = re.compile(r"\(?([A-Za-z])[).:]\s*\S")
_DONT_KNOW = re.compile(r"i (do not|don['’]t) know\b.*", re.IGNORECASE)
_OF_PLACE = re.compile(r"(all|none|both|neither) of (the|these)\b.*|(both )?[a-e] (and|or|&) [a-e]\b.*", re.IGNORECASE)
_FEWEST = 3
"""Items from which on it may be no accident that the first option is right in none of them."""


def item_notes(items: Sequence[Item], task: Task) -> list[str]:
    """Return a sentence for each kind of fault that a run would pay for silently."""
    notes = [*_of_references(items)] if task.uses_jury else [*_of_options(items)]
    return [*notes, *_of_duplicates(items)]


def lacks_reference(item: Item) -> bool:
    """Return whether nothing says what is right."""
    return item.answer is None and item.solution is None


def option_faults(item: Item) -> Iterator[str]:
    """Yield what is strange about the options of a multiple-choice item."""
    options = item.payload.get("options")
    texts = [str(option) for option in options] if isinstance(options, list) else []
    letters = [matched[1].upper() for text in texts if (matched := _OWN_LETTER.match(text))]
    if texts and sorted(letters) == [chr(ord("A") + at) for at in range(len(texts))]:
        yield f"options begin with letters of their own ({min(texts)!r}); leave them out: models see others before them"
    for text in texts:
        if _DONT_KNOW.fullmatch(text):
            yield f"option {text!r} stands beside the one that the task adds; leave it out"
        elif _OF_PLACE.fullmatch(text):
            yield f"option {text!r} depends on the order of the options, which models see shuffled"
    if len(set(texts)) < len(texts):
        yield f"option {next(text for text in texts if texts.count(text) > 1)!r} is there twice"


def first_is_never_right(items: Sequence[Item]) -> bool:
    """Return whether items name the right option by an index, and none the first, so that they may count from 1."""
    for item in items:
        order, gold = item.payload.get("order"), item.payload.get("gold")
        if not item.payload.get("is_index") or not isinstance(order, list) or not isinstance(gold, str):
            return False
        if order[ord(gold) - ord("A")] == 0:
            return False
    return len(items) >= _FEWEST


FIRST_IS_NEVER_RIGHT = (
    "the first option of its row is right in no item: numbers in `answer` count from 0, so that 2 is the third option; "
    "if yours count from 1, take 1 off each, or write letters"
)


def _of_references(items: Sequence[Item]) -> Iterator[str]:
    without = [item for item in items if lacks_reference(item)]
    if without:
        first = f"{_listed([item.id for item in without])}; the first is {shortened(without[0].question, 40)!r}"
        count = f"{len(without)} of {plural(len(items), 'item')} without a reference ({first})"
        if len(without) == len(items):
            count = "no item has a reference"
        yield (
            f"{count}: judges go by what they know there. What is right belongs in the column `answer` of questions, "
            "or `reference` of a file for `judge`; take out a row that is no question"
        )
    letters = [item.id for item in items if _is_letter_of_no_option(item)]
    if 2 * len(letters) > len(items):
        yield (
            f"the reference is a letter in {plural(len(letters), 'item')} ({_listed(letters)}), and the question shows "
            "no options: columns A, B … with the options make it multiple choice"
        )
    blanks = [item for item in items if item.answer is not None and item.answer.strip().casefold() in PLACEHOLDERS]
    if blanks:
        yield (
            f"judges take the reference {blanks[0].answer!r} for the right answer, in {plural(len(blanks), 'item')} "
            f"({_listed([item.id for item in blanks])}); write the answer, or leave the cell empty"
        )


def _is_letter_of_no_option(item: Item) -> bool:
    answer = (item.answer or "").strip()
    is_letter = len(answer) == 1 and "A" <= answer <= "F"
    return is_letter and not item.images and re.search(rf"\b{answer}\s*[).:\]-]", item.question) is None


def _of_options(items: Sequence[Item]) -> Iterator[str]:
    faults = [(item.id, fault) for item in items for fault in option_faults(item)]
    if faults:
        more = len({item_id for item_id, _ in faults}) - 1
        like_it = f"; {plural(more, 'more item')} like it: `layton-batch items check` lists them" if more else ""
        yield f"item {faults[0][0]!r}: {faults[0][1]}{like_it}"
    if first_is_never_right(items):
        yield FIRST_IS_NEVER_RIGHT


def _of_duplicates(items: Sequence[Item]) -> Iterator[str]:
    first_by_text: dict[tuple[str, ...], str] = {}
    twice: list[tuple[str, str]] = []
    for item in items:
        options = item.payload.get("options")
        listed = sorted(map(str, options)) if isinstance(options, list) else []
        key = (" ".join(item.question.casefold().split()), *listed)
        if item.images:  # the pictures may differ
            continue
        if (first := first_by_text.setdefault(key, item.id)) != item.id:
            twice.append((item.id, first))
    if twice:
        again, first = twice[0]
        more = f", and {plural(len(twice) - 1, 'more item')} an earlier one" if len(twice) > 1 else ""
        yield f"item {again!r} asks the same as {first!r}{more}: it counts twice; take one out"


# ---- since the last run ----------------------------------------------------------------------------------------------


def moved_items(old: Sequence[Item], new: Sequence[Item]) -> dict[str, str]:
    """Return the earlier id of each new item whose question the run knows by another id only."""
    earlier = {shown_digest(item): item.id for item in old}
    same_ids = {(item.id, shown_digest(item)) for item in old}
    digests = {item.id: shown_digest(item) for item in new}
    return {
        item_id: earlier[digest]
        for item_id, digest in digests.items()
        if digest in earlier and (item_id, digest) not in same_ids
    }


def move_note(old: Sequence[Item], new: Sequence[Item], seen: Sequence[tuple[str, str]]) -> str | None:
    """Say that questions have other ids than before, and what becomes of their labels; None: they have not.

    ``seen``: of each label the item's id and the digest of what was shown of it.
    """
    moved = moved_items(old, new)
    if not moved:
        return None
    item_id, earlier = next(iter(moved.items()))
    numbers = [item.id for item in new]
    is_position = any(numbers == [str(start + at) for at in range(len(new))] for start in (0, 1))
    why = "the rows' ids are their positions" if is_position else "their rows have new ids"
    keep = "give the rows a column `id` with the earlier ids" if is_position else "give their rows the earlier ids"
    before, now = (_counting(seen, items) for items in (old, new))
    labels = f": {now} of {plural(len(seen), 'label')} {'counts' if now == 1 else 'count'} with them" if seen else ""
    advice = f". To keep the others, {keep}" if now < before else ""
    return (
        f"{plural(len(moved), 'question')} moved to another id, such as {shortened(earlier, 40)!r} to "
        f"{shortened(item_id, 40)!r}, because {why}{labels}{advice}"
    )


def _counting(seen: Sequence[tuple[str, str]], items: Sequence[Item]) -> int:
    """Count the labels that were given on what an item shows now."""
    digests = {(item.id, shown_digest(item)) for item in items}
    return sum(label in digests for label in seen)


def gone_items(old: Sequence[Item], new: Sequence[Item]) -> str:
    """List the first items that were taken out; empty where none was."""
    ids = {item.id for item in new}
    return _listed([item.id for item in old if item.id not in ids])


def _listed(ids: Sequence[str]) -> str:
    """List the first ids."""
    return first_of([repr(shortened(item_id, 40)) for item_id in ids], 5)
