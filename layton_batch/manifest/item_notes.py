"""Faults of items for which a run would pay silently, found before anything is sent."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from layton_batch.costs.estimate import image_size
from layton_batch.files.items import picture_size, shown_digest
from layton_batch.providers.protocol import PictureLimits
from layton_batch.records import Item
from layton_batch.tasks.protocol import Task
from layton_batch.text import first_of, plural, shortened

_FEWEST = 3
"""Items from which on it may be no accident that the first option is right in none of them."""


def item_notes(items: Sequence[Item], task: Task) -> list[str]:
    """Return a sentence for each kind of fault that a run would pay for silently."""
    notes = [*_without_reference(items)] if task.uses_jury else [FIRST_IS_NEVER_RIGHT] * first_is_never_right(items)
    return [*notes, *_of_duplicates(items)]


def picture_notes(items: Sequence[Item], provider: str, limits: PictureLimits) -> list[str]:
    """Return a sentence for each reason for which a provider refuses pictures of these items."""
    heavy = [item for item in items if any(picture_size(image) > limits.characters for image in item.images)]
    large: dict[int, list[Item]] = {}
    for item in items:
        side = limits.side if len(item.images) <= limits.many else limits.side_of_many
        if any(max(size) > side for size in map(image_size, item.images) if size):
            large.setdefault(side, []).append(item)
    notes = [(heavy, f"of more than {limits.characters // 4 * 3:,} bytes")] if heavy else []
    notes += [(refused, f"with a side of more than {side:,} pixels") for side, refused in large.items()]
    return [
        f"{provider} refuses {plural(len(refused), 'item')} for a picture {reason} "
        f"({first_of([item.id for item in refused])}): make it smaller, or leave the item out"
        for refused, reason in notes
    ]


def lacks_reference(item: Item) -> bool:
    """Return whether nothing says what is right."""
    return item.answer is None and item.solution is None


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


def _without_reference(items: Sequence[Item]) -> Iterator[str]:
    if without := [item.id for item in items if lacks_reference(item)]:
        yield (
            f"{len(without)} of {plural(len(items), 'item')} without a reference ({_listed(without)}): judges go by "
            "what they know there. The column `answer` says what is right"
        )


def _of_duplicates(items: Sequence[Item]) -> Iterator[str]:
    if repeated := repeated_questions(items):
        item, first = repeated[0]
        more = f", and {plural(len(repeated) - 1, 'more item')} an earlier one" if len(repeated) > 1 else ""
        yield f"item {item.id!r} asks the same as {first.id!r}{more}: it counts twice; take one out"


def repeated_questions(items: Sequence[Item]) -> list[tuple[Item, Item]]:
    """Return each item that asks the same as an earlier one, with that one: capitals, blanks and the order of options
    aside."""
    first_by_text: dict[tuple[str, ...], Item] = {}
    repeated = []
    for item in items:
        options = item.payload.get("options")
        listed = sorted(map(str, options)) if isinstance(options, list) else []
        pictures = (image.base64 for image in item.images)
        key = (" ".join(item.question.casefold().split()), *listed, *pictures)
        if (first := first_by_text.setdefault(key, item)) is not item:
            repeated.append((item, first))
    return repeated


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
