"""Wrong answers worth judging: another item's answer of the same category and shape, or the right one with a slip."""

from __future__ import annotations

import re
from collections.abc import Sequence

from layton_batch.sandbox.answerers.known_items import KnownItem
from layton_batch.sandbox.answerers.seeded_draws import draw, pick

_NUMBER = re.compile(r"\d+")
_LETTER = re.compile(r"\b[A-D]\Z")
"""An option's letter ends the answer ("C", "Door B"); inside a sentence a capital is a word."""
_WORD = re.compile(r"\w+")
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


def plain_words(text: str) -> tuple[str, ...]:
    """The words of an answer in lower case: what it says without its typography."""
    return tuple(_WORD.findall(text.casefold()))


def right_answer(item: KnownItem) -> str:
    """The reference answer on one line; a solution that stands in for it is cut to a readable length at a full stop."""
    text = " ".join(item.right.split())
    if len(text) <= _LONGEST:
        return text
    cut = text[:_LONGEST]
    end = max(cut.rfind(mark) for mark in ".!?")
    return cut[: end + 1] if end > 0 else cut


def core(answer: str) -> str:
    """The answer without remarks after it: "3" of "3 (the others are twins)"."""
    return _REMARK.sub("", answer) or answer


class WrongAnswers:
    """Wrong answers drawn from the items given."""

    def __init__(self, items: Sequence[KnownItem]) -> None:
        self._by_category: dict[tuple[str, str, str], dict[tuple[str, ...], str]] = {}
        self._by_shape: dict[tuple[str, str], dict[tuple[str, ...], str]] = {}
        for item in items:
            answer = core(right_answer(item))
            if answer:
                words, shape = plain_words(answer), _shape(answer)
                self._by_category.setdefault((item.pool, item.category, shape), {}).setdefault(words, answer)
                self._by_shape.setdefault((item.pool, shape), {}).setdefault(words, answer)

    def draw(self, item: KnownItem, *key: object) -> str:
        """Never the right answer, whatever its typography; the same for the same key."""
        right = right_answer(item)
        wrong = {plain_words(right), plain_words(core(right))}
        slip = _slipped(core(right), *key)
        if slip and plain_words(slip) not in wrong and draw("slip", *key) < _SLIPS:
            return slip
        return pick(self._others(item, core(right), wrong), "other", *key)

    def _others(self, item: KnownItem, right: str, wrong: set[tuple[str, ...]]) -> list[str]:
        """Other items' answers of the same shape, of the same category where there are any."""
        shape = _shape(right)
        last_resort = {plain_words(answer): answer for answer in _SURE_TO_BE_WRONG}
        for answers in (
            self._by_category.get((item.pool, item.category, shape), {}),
            self._by_shape.get((item.pool, shape), {}),
            last_resort,
        ):
            wrong_answers = [answer for words, answer in answers.items() if words not in wrong]
            if wrong_answers:
                return wrong_answers
        raise LookupError("unreachable: the last resort has more answers than a riddle has right ones")


def _shape(answer: str) -> str:
    """A number, one word, a phrase or a statement: nobody answers "how many" with a name."""
    words = plain_words(answer)
    if len(words) > _LONGEST_PHRASE:
        return "statement"
    if any(_NUMBER.search(word) for word in words):
        return "number"
    return "word" if len(words) < 2 else "phrase"


def _slipped(right: str, *key: object) -> str:
    """The right answer with one number or its option letter changed; empty if it has neither."""
    if len(right) > _LONGEST_SLIPPED:
        return ""
    for pattern, changed in ((_NUMBER, _other_number), (_LETTER, _other_letter)):
        places = list(pattern.finditer(right))
        if places:
            place = pick(places, "place", *key)
            return right[: place.start()] + changed(place.group(), *key) + right[place.end() :]
    return ""


def _other_number(digits: str, *key: object) -> str:
    # Only a number's last digits are computed with: an answer may be longer than any integer Python likes to convert.
    head, value = digits[:-6], int(digits[-6:])
    candidates = [value + 1, value + 2, max(0, value - 1), max(0, value - 2), value * 2, value // 2]
    return head + str(pick([other for other in candidates if other != value], "number", *key))


def _other_letter(letter: str, *key: object) -> str:
    return pick([other for other in "ABCD" if other != letter], "letter", *key)
