"""The five evaluators and the judge's reading as published, anomalies included, in linear time.

An item on which the published code crashes gets 0 and an error that begins with the name of its exception.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, cast

from layton_batch.records import JsonValue

ORIGINAL, CORRECTED = "original", "corrected"
PROTOCOLS = (CORRECTED, ORIGINAL)
"""The rules there are; the first is the default."""

INDICATORS = ("Answer:", "Answer", "答案：", "答案:", "答案")
LETTER_KEYWORDS = (
    "boxed", "Answer:", "Answer is", "answer is", "option is", "Correct option", "correct option", "Answer", "answer",
    "故选", "选择", "正确选项为", "答案选", "答案为", "答案是", "因此", "答案",
)  # fmt: skip
_MAPPED = str.maketrans({"\u2032": "'", "\u2009": " ", "\u2010": "-", "\u2212": "-", "\u2013": "-", "\u22c5": "\u00b7"})
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?")
_CAPITAL = re.compile("[A-Z]")
# The published code means to delete the tags [INST] and [/INST]; as character classes they delete letters, which also
# leaves nothing of <Img> that its next steps would find.
_DELETED = re.compile("[INST/]")
_BOXED = "\\boxed{"
_NO_NAMES: JsonValue = []
_UNDEFINED = ("interval_matching", "multi_interval_matching")

Score = int | float
"""0 or 1, or what the item says a location is worth. Whole numbers stay ``int``, as in the published files."""


@dataclass(frozen=True, slots=True)
class RomeGrade:
    """``read``: what the rule took for the answer. ``error``: why the rule could not grade; the score is then 0."""

    score: Score
    read: str
    error: str | None = None


Evaluated = tuple[Score, str]
Evaluator = Callable[..., Evaluated]


def grade(evaluator: str, arguments: Mapping[str, JsonValue], reply: str) -> RomeGrade:
    """The published evaluator's score of a reply."""
    prepared = prepare(reply)
    if evaluator in _UNDEFINED:
        return RomeGrade(0, prepared, f"NameError: name {evaluator!r} is not defined")
    function = EVALUATORS.get(evaluator)
    if function is None:
        return RomeGrade(0, prepared, f"ValueError: Unsupported evaluator: {evaluator}")
    try:
        score, read = function(prepared, **arguments)
    except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, AssertionError) as error:
        return RomeGrade(0, prepared, f"{type(error).__name__}: {error}")
    return RomeGrade(score, read)


def judgement(reply: str) -> bool:
    """Return whether the first number of the last paragraph is above one half; False without a number."""
    text = reply.replace("Judgement:", "").strip()
    number = re.search(r"\d+(?:\.\d+)?", text.rpartition("\n\n")[2])
    return number is not None and float(number.group()) > 0.5


def prepare(reply: str) -> str:
    """Cut a reply to the answer as the published code does before an evaluator sees it."""
    return _cut(reply).translate(_MAPPED)


def _cut(reply: str) -> str:
    for indicator in INDICATORS:
        if indicator in reply:
            return reply.rpartition(indicator)[2].strip()
    boxed = _first_boxed(reply)
    return reply if boxed is None else boxed.strip()


def _first_boxed(reply: str) -> str | None:
    start = reply.find(_BOXED)
    while start >= 0:
        start += len(_BOXED)
        end = reply.find("}", start)
        if end != start:  # an empty pair of braces is passed over
            return reply[start:end] if end > start else None
        start = reply.find(_BOXED, end)
    return None


def key_items_matching(answer: str, key_items: JsonValue, remove_space: JsonValue = False) -> Evaluated:
    """Every inner list has a variant in the text, or any one of a plain list; substrings, whatever the case."""

    def folded(text: str) -> str:
        return (text.replace(" ", "") if remove_space else text).lower()

    def any_in(variants: JsonValue) -> bool:
        if not isinstance(variants, list):
            raise AssertionError  # noqa: TRY004 - the published code's
        return any(folded(cast("str", variant)) in text for variant in variants)

    text, items = folded(answer), cast("list[JsonValue]", key_items)
    if isinstance(items[0], list):
        return int(all(any_in(variants) for variants in items)), answer
    if isinstance(items[0], str):
        return int(any_in(items)), answer
    raise ValueError(f"Unsupported key_items type: {type(items[0])}")


def choices_matching(answer: str, label: JsonValue) -> Evaluated:
    """One letter is compared with the first one found, several with all of them, sorted."""
    letters, wanted = letters_of(answer), cast("str", label).upper()
    if len(wanted) > 1:
        wanted, letters = "".join(sorted(wanted)), "".join(sorted(set(letters)))
    elif len(letters) > 1:
        letters = letters[0]
    return int(wanted == letters), letters


def letters_of(answer: str) -> str:
    """Every capital that is left after the published clean-up."""
    text = _DELETED.sub("", answer.replace("The", "").replace("If", "")).strip()
    if "A" <= text[:1] <= "Z" and text[1:2] == ".":
        return text[0]
    keyword = next((keyword for keyword in LETTER_KEYWORDS if keyword in text), None)
    return "".join(_CAPITAL.findall(text.rpartition(keyword)[2] if keyword else text))


def ordered_list_matching(answer: str, order: JsonValue) -> Evaluated:
    """The order's characters, blanks left out, come in the answer one after another, with anything between."""
    joined = ",".join(cast("list[str]", order)) if isinstance(order, list) else cast("str", order)
    rest = iter(answer.lower())
    return int(all(character in rest for character in joined.lower().replace(" ", ""))), answer


def number_matching(answer: str, value_to_match: JsonValue) -> Evaluated:
    """The last number is within a tenth of a ``float``, or within a thousandth of an ``int``."""
    last_number = deque(_NUMBER.finditer(answer), maxlen=1)
    if not last_number:
        return 0, answer
    gold = cast("Any", value_to_match)
    allowed = abs(gold) * 0.1 if isinstance(gold, float) else 1e-3
    return int(abs(float(last_number[0].group()) - gold) < allowed), answer


def location_matching(
    answer: str,
    location_fine_grained: JsonValue,
    location_coarse_grained: JsonValue = _NO_NAMES,
    fine_grained_score: JsonValue = 1.0,
    coarse_grained_score: JsonValue = 0.5,
) -> Evaluated:
    """The worth of the first list that has a name in the text; a text instead of a list counts letter by letter."""
    text = answer.lower()
    fine, coarse = _lowered(location_fine_grained), _lowered(location_coarse_grained)
    if any(name in text for name in fine):
        return _number(fine_grained_score), answer
    if any(name in text for name in coarse):
        return _number(coarse_grained_score), answer
    return 0, answer


def _lowered(names: JsonValue) -> list[str]:
    return [name.lower() for name in cast("Iterable[str]", names)]


def _number(value: JsonValue) -> Score:
    if not isinstance(value, int | float):
        raise TypeError(f"unsupported operand type(s) for +=: 'int' and {type(value).__name__!r}")
    return value


EVALUATORS: Mapping[str, Evaluator] = {
    "key_items_matching": key_items_matching,
    "choices_matching": choices_matching,
    "ordered_list_matching": ordered_list_matching,
    "number_matching": number_matching,
    "location_matching": location_matching,
}
"""The evaluators by the name an annotation gives them."""
