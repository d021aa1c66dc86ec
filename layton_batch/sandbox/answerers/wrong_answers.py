"""Wrong answers worth judging: another item's answer of the same category and shape, or the right one with a slip."""

from __future__ import annotations

import re
from collections.abc import Iterable

from layton_batch.sandbox.answerers.known_items import KnownItem
from layton_batch.sandbox.answerers.seeded_draws import draw, pick

_NUMBER = re.compile(r"\d+")
_LETTER = re.compile(r"\b[A-D]\Z")
"""An option's letter ends the answer ("C", "Door B"); inside a sentence a capital is a word."""
_REMARK = re.compile(r"\s*(?:\(|:\s|;\s|[.!?]\s).*", re.DOTALL)
_LONGEST = 240
_LONGEST_SLIPPED = 40
_LONGEST_PHRASE = 6
_SLIPS = 0.85
_SURE_TO_BE_WRONG = (
    "It cannot be determined from what is given",
    "None of them",
    "All of them at once",
    "The order does not matter",
    "It is impossible",
)

Words = tuple[str, ...]


def plain_words(text: str) -> Words:
    """The words of an answer in lower case: what it says without its typography."""
    return tuple(re.findall(r"\w+", text.casefold()))


def right_answer(item: KnownItem) -> str:
    """The reference answer on one line; a solution that stands in for it is cut to a readable length at a full stop."""
    text = " ".join(item.right.split())
    if len(text) <= _LONGEST:
        return text
    cut = text[:_LONGEST]
    end = max(map(cut.rfind, ".!?"))
    return cut[: end + 1] if end > 0 else cut


def core(answer: str) -> str:
    """The answer without remarks after it: "3" of "3 (the others are twins)"."""
    return _REMARK.sub("", answer) or answer


class WrongAnswers:
    """Wrong answers drawn from the items given: by pool, shape and category the answers, by what they say."""

    def __init__(self, items: Iterable[KnownItem]) -> None:
        self._answers: dict[tuple[str, ...], dict[Words, str]] = {}
        for item in items:
            answer = core(right_answer(item))
            if answer:
                for key in _keys(item, answer):
                    self._answers.setdefault(key, {}).setdefault(plain_words(answer), answer)

    def draw(self, item: KnownItem, *key: object) -> str:
        """Never the right answer, whatever its typography; the same for the same key."""
        right = core(right_answer(item))
        never = {plain_words(right_answer(item)), plain_words(right)}
        slip = _slipped(right, *key)
        if slip and plain_words(slip) not in never and draw("slip", *key) < _SLIPS:
            return slip
        kinds = [list(self._answers.get(kind, {}).values()) for kind in _keys(item, right)]
        for answers in (*kinds, _SURE_TO_BE_WRONG):
            wrong = [answer for answer in answers if plain_words(answer) not in never]
            if wrong:
                return pick(wrong, "other", *key)
        raise LookupError("unreachable: the last resort has more answers than a riddle has right ones")


def _keys(item: KnownItem, answer: str) -> tuple[tuple[str, ...], ...]:
    """The kinds of answers to draw from, the likeliest first."""
    shape = _shape(answer)
    return (item.pool, shape, item.category), (item.pool, shape)


def _shape(answer: str) -> str:
    """A number, one word, a phrase or a statement: nobody answers "how many" with a name."""
    words = plain_words(answer)
    if len(words) > _LONGEST_PHRASE:
        return "statement"
    if any(map(_NUMBER.search, words)):
        return "number"
    return "word" if len(words) < 2 else "phrase"


def _slipped(right: str, *key: object) -> str:
    """The right answer with one number or its option letter changed; empty if it has neither."""
    if len(right) > _LONGEST_SLIPPED:
        return ""
    if numbers := list(_NUMBER.finditer(right)):
        place = pick(numbers, "place", *key)
        # Only a number's last digits are computed with: it may be longer than any integer Python likes to convert.
        head, value = place.group()[:-6], int(place.group()[-6:])
        candidates = [value + 1, value + 2, max(0, value - 1), max(0, value - 2), value * 2, value // 2]
        other = head + str(pick([number for number in candidates if number != value], "number", *key))
        return right[: place.start()] + other + right[place.end() :]
    if _LETTER.search(right):
        return right[:-1] + pick([letter for letter in "ABCD" if letter != right[-1]], "letter", *key)
    return ""
