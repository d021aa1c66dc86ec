"""Made-up models at items with an evaluator of their own: names, letters, an order, a number, a place.

A right answer says what the annotation's arguments name; a wrong one is of the same kind and near it: a letter beside
it, two things exchanged, a number out of tolerance, one of several names left out, the country instead of the town.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from layton_batch.sandbox.answerers.exercises import Attempt
from layton_batch.sandbox.answerers.reply_forms import ReplyForm, ReplyText
from layton_batch.sandbox.answerers.riddle_lookup import Row, image_digest, squash, text_of
from layton_batch.sandbox.answerers.stock_reasoning import Truth

Arguments = Mapping[str, object]
Answer = Callable[[Arguments, str, Attempt], str]

_MEAN_DIFFICULTY, _DIFFICULTY_SPREAD = 0.5, 1.0
_OTHER_FORMS = 0.1
_COARSE = 0.4
"""How often who does not know the place at least knows the region it is in, where the annotation has one."""
_OPTION = re.compile(r"(?:^|(?<=\s))\(?([A-Z])[.):](?=\s)")
_OPTION_LETTERS = "ABCD"
_NAMES = ("a wooden ladder", "Marlow Bay", "the third shelf", "a paper lantern", "Orrin Vale", "nothing of the kind")
_PLACES = ("Reykjavik, Iceland", "Montevideo, Uruguay", "Tallinn, Estonia", "Windhoek, Namibia", "Suva, Fiji")


def is_rule(row: Row) -> bool:
    return "question" in row and "evaluator" in row and "evaluator_kwargs" in row


def rule_from(row: Row) -> RuleItem:
    """The item of a row in ROME's columns, also with an annotation that nothing can be graded by."""
    arguments, img = row["evaluator_kwargs"], row.get("img")
    return RuleItem(
        text_of(row, "question_id") or text_of(row, "id") or squash(text_of(row, "question")),
        text_of(row, "question"),
        text_of(row, "evaluator"),
        arguments if isinstance(arguments, Mapping) else {},
        image_digest(text_of({"img": img[0] if isinstance(img, list) and img else img}, "img")),
    )


@dataclass(frozen=True, slots=True)
class RuleItem:
    """A question and how its answers are graded."""

    kind: ClassVar[str] = "rule"
    id: str
    text: str
    evaluator: str
    arguments: Arguments
    image: str = ""

    def say(self, prompt: str, attempt: Attempt) -> ReplyText | None:
        right = self.right()
        if not right:
            return None
        weakness = min(1.0, max(0.1, 1 - attempt.strength(0.0) / 2))
        form = attempt.form({ReplyForm.PROSE: _OTHER_FORMS * weakness})
        if form is ReplyForm.REFUSED:
            return attempt.refusal()
        solved = attempt.solves(attempt.difficulty(_MEAN_DIFFICULTY, _DIFFICULTY_SPREAD))
        answer = right if solved else _ANSWERS[self.evaluator][1](self.arguments, prompt, attempt)
        return _said(answer, form, Truth.RIGHT if solved else Truth.WRONG, prompt, attempt)

    def right(self) -> str:
        """Empty where the annotation names an evaluator nobody knows, or not what it needs."""
        try:
            return _ANSWERS[self.evaluator][0](self.arguments).strip()
        except (KeyError, IndexError, TypeError, ValueError, RecursionError):
            return ""


def _said(answer: str, form: ReplyForm, truth: Truth, prompt: str, attempt: Attempt) -> ReplyText:
    opening, closing = attempt.thoughts(truth)
    thoughts = f"{opening} {closing}"
    if form is ReplyForm.TRUNCATED:
        return attempt.cut(thoughts, 0.3, 0.9)
    if form is ReplyForm.UNSTRUCTURED:
        return ReplyText(f"{thoughts}\n\nThere is too little to go by here, so I leave it open.")
    label = "最终答案：" if "答案" in prompt else "Final Answer: "
    if form is ReplyForm.FENCED:
        return ReplyText(f"{thoughts}\n\n**{label.strip()}** {answer}")
    if form is ReplyForm.PROSE:
        phrases = (f"The answer is {answer}.", f"$\\boxed{{{answer}}}$")
        return ReplyText(f"{thoughts}\n\n{attempt.pick(phrases, 'prose')}")
    if form is ReplyForm.SLIP:
        return ReplyText(answer)
    return ReplyText(f"{thoughts}\n\n{label}{answer}")


# ---- names ---------------------------------------------------------------------------------------------------------


def _all_names(arguments: Arguments) -> str:
    groups = _groups(arguments["key_items"])
    return ", ".join(names[0] for names in groups)


def _groups(items: object) -> list[list[str]]:
    """A list of lists asks for one of each; a list of texts for one of all."""
    if not isinstance(items, list) or not items:
        raise TypeError("a list with something in it is needed")
    inner = [items] if isinstance(items[0], str) else items
    return [[str(name) for name in names] for names in inner]


def _other_names(arguments: Arguments, prompt: str, attempt: Attempt) -> str:
    groups = _groups(arguments["key_items"])
    if len(groups) > 1:
        left_out = groups[int(attempt.draw("left out") * len(groups))]
        names_given = [names[0] for names in groups if names is not left_out and not _shares(names[0], left_out)]
        if names_given:
            return ", ".join(names_given)
    return _unlike(_NAMES, [name for names in groups for name in names], attempt)


def _unlike(made_up: Sequence[str], names: Sequence[str], attempt: Attempt) -> str:
    unlike = [other for other in made_up if not _shares(other, names)]
    return attempt.pick(unlike, "other") if unlike else "I cannot tell"


def _shares(text: str, names: Sequence[str]) -> bool:
    """Return whether the text contains one of the names. Only letters are compared, as a lax evaluator does."""
    return any(squash(name).lower() in squash(text).lower() for name in names)


# ---- letters -------------------------------------------------------------------------------------------------------


def _letters(arguments: Arguments) -> str:
    return ", ".join(_label(arguments))


def _label(arguments: Arguments) -> list[str]:
    label = str(arguments["label"]).strip()
    letters = re.sub(r"[\s,;/&+、]|\band\b", "", label)
    return sorted(set(letters.upper())) if re.fullmatch("[A-Za-z]{1,26}", letters) else [label]


def _other_letters(arguments: Arguments, prompt: str, attempt: Attempt) -> str:
    right = _label(arguments)
    shown = sorted(set(_OPTION.findall(prompt)))
    wrong_letters = [letter for letter in (shown if len(shown) > 1 else _OPTION_LETTERS) if letter not in right]
    if len(right) > 1 and (not wrong_letters or attempt.draw("fewer") < 0.5):
        return ", ".join(right[:-1])
    if not wrong_letters:
        return "Z"
    return ", ".join(sorted([*right[1:], attempt.pick(wrong_letters, "letter")]))


# ---- orders --------------------------------------------------------------------------------------------------------


def _in_order(arguments: Arguments) -> str:
    return ", ".join(_things(arguments["order"]))


def _things(order: object) -> list[str]:
    if isinstance(order, str):
        parts = [part.strip() for part in re.split(r"[,;|/>→、\n]+|\s-\s", order) if part.strip()]
        return parts if len(parts) > 1 else list("".join(order.split()))
    if not isinstance(order, list) or not order:
        raise TypeError("an order of things is needed")
    return [str(thing) for thing in order]


def _out_of_order(arguments: Arguments, prompt: str, attempt: Attempt) -> str:
    things = _things(arguments["order"])
    places = [place for place in range(len(things) - 1) if things[place] != things[place + 1]]
    if not places:
        return "in no order"
    place = attempt.pick(places, "place")
    things[place], things[place + 1] = things[place + 1], things[place]
    return ", ".join(things)


# ---- numbers -------------------------------------------------------------------------------------------------------


def _number(arguments: Arguments) -> str:
    value = _value(arguments)
    return str(value) if isinstance(value, int) else repr(value)


def _value(arguments: Arguments) -> int | float:
    value = arguments["value_to_match"]
    if isinstance(value, str):
        value = json.loads(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError("a number is needed")
    return value


def _other_number(arguments: Arguments, prompt: str, attempt: Attempt) -> str:
    """Out of the published tolerances: a tenth for a fraction, nothing for a whole number."""
    value = _value(arguments)
    if isinstance(value, int):
        return str(value + attempt.pick((-2, -1, 1, 2, 10), "offset"))
    return repr(round(value * attempt.pick((0.5, 0.8, 1.25, 2.0), "factor"), 6) if value else 1.0)


# ---- places --------------------------------------------------------------------------------------------------------


def _place(arguments: Arguments) -> str:
    return _named(arguments, "location_fine_grained")[0]


def _named(arguments: Arguments, name: str) -> list[str]:
    names = arguments.get(name) or []
    return [names] if isinstance(names, str) else [str(place) for place in names] if isinstance(names, list) else []


def _other_place(arguments: Arguments, prompt: str, attempt: Attempt) -> str:
    fine, coarse = (_named(arguments, f"location_{grain}_grained") for grain in ("fine", "coarse"))
    if coarse and attempt.draw("coarse") < _COARSE and not _shares(coarse[0], fine):
        return f"somewhere in {coarse[0]}"
    return _unlike(_PLACES, [*fine, *coarse], attempt)


_ANSWERS: Mapping[str, tuple[Callable[[Arguments], str], Answer]] = {
    "key_items_matching": (_all_names, _other_names),
    "choices_matching": (_letters, _other_letters),
    "ordered_list_matching": (_in_order, _out_of_order),
    "number_matching": (_number, _other_number),
    "location_matching": (_place, _other_place),
}
"""Of every evaluator: what its right answer is, and how a wrong one is made."""
