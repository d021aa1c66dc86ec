"""Made-up models at multiple choice where "I don't know" is an option: right, wrong, abstaining, or saying no letter.

A task may shuffle the options, so letters mean nothing to an item: the lettered lines are read from the prompt. A model
that does not solve an item abstains at a rate of its own, or else guesses among the options, and may be lucky.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from string import ascii_uppercase
from typing import ClassVar

from layton_batch.sandbox.answerers.exercises import Attempt, UnfitRow
from layton_batch.sandbox.answerers.reply_forms import ReplyForm, ReplyText
from layton_batch.sandbox.answerers.riddle_lookup import Row, squash, text_of
from layton_batch.sandbox.answerers.stock_reasoning import Truth

_OPTION = re.compile(r"^[ \t]*[(*]{0,3}([A-Z])[).:](?!\S)[ \t]*", re.MULTILINE)
_MEAN_DIFFICULTY, _DIFFICULTY_SPREAD = 0.3, 1.0
_LEAST_CAUTION, _CAUTION_RANGE = 0.1, 0.55
_OTHER_FORMS = 0.12
"""How often a weak model answers in another form than the one asked for; a strong one does so less."""
_RIGHT = ("answer", "gold", "answer_index", "label")
_DONT_KNOW = frozenset({"idon'tknow", "idon’tknow", "idontknow", "idonotknow"})


def is_choice(row: Row) -> bool:
    columns = _lower(row)
    return "question" in columns and bool(columns.keys() & {"options", "choices", "correct answer"})


def choice_from(row: Row) -> Choice:
    """The item of a row with the published columns. Raises UnfitRow where the right option cannot be told."""
    columns = _lower(row)
    question = text_of(columns, "question")
    name = next((name for name in ("id", "item_id", "record id", "record_id") if text_of(columns, name)), "")
    right = text_of(columns, "correct answer") or _right_option(columns)
    return Choice(text_of(columns, name) or squash(question), question, right.strip())


@dataclass(frozen=True, slots=True)
class Choice:
    """A question and the text of its right option."""

    kind: ClassVar[str] = "mcq"
    id: str
    text: str
    right: str
    image: str = ""

    def say(self, prompt: str, attempt: Attempt) -> ReplyText | None:
        options = options_in(prompt)
        right = [letter for letter, text in options.items() if squash(text) == squash(self.right)]
        if not right:
            return None
        form = attempt.form({ReplyForm.PROSE: _OTHER_FORMS * max(0.1, min(1.0, 1 - attempt.strength(0.0) / 2))})
        if form is ReplyForm.REFUSED:
            return attempt.refusal()
        letter, truth = _decided(options, right[0], attempt)
        return _said(letter, truth, form, options, attempt)


def options_in(prompt: str) -> dict[str, str]:
    """The texts of the lettered options by letter, in order; those of the last list from A on."""
    marks: list[re.Match[str]] = []
    for mark in _OPTION.finditer(prompt):
        if mark[1] == "A":
            marks = [mark]
        elif marks and mark[1] == ascii_uppercase[len(marks) : len(marks) + 1]:
            marks.append(mark)
    options = {mark[1]: prompt[mark.end() : after.start()].strip() for mark, after in pairwise(marks)}
    if marks:  # behind the last option a prompt may go on after an empty line
        options[marks[-1][1]] = prompt[marks[-1].end() :].partition("\n\n")[0].strip()
    return options


def _decided(options: Mapping[str, str], right: str, attempt: Attempt) -> tuple[str, Truth]:
    """The letter a model settles on, and how it came to it."""
    idk = next((letter for letter, text in options.items() if squash(text).strip("\"'").lower() in _DONT_KNOW), None)
    if attempt.solves(attempt.difficulty(_MEAN_DIFFICULTY, _DIFFICULTY_SPREAD)):
        return right, Truth.RIGHT
    caution = _LEAST_CAUTION + _CAUTION_RANGE * attempt.habit("caution")
    if idk is not None and attempt.draw("abstains") < caution:
        return idk, Truth.FLAWED
    # By the texts: shuffled otherwise, the same option is taken for right.
    by_text = sorted((text, letter) for letter, text in options.items() if letter != idk)
    return attempt.pick(by_text, "guess")[1], Truth.WRONG


def _said(letter: str, truth: Truth, form: ReplyForm, options: Mapping[str, str], attempt: Attempt) -> ReplyText:
    opening, closing = attempt.thoughts(truth)
    thoughts = f"{opening} {closing}"
    if form is ReplyForm.TRUNCATED:
        return attempt.cut(thoughts, 0.3, 0.9)
    if form is ReplyForm.UNSTRUCTURED:
        wrong_letters = [other for other in options if other != letter]
        return ReplyText(
            f"{thoughts}\n\nBoth {letter} and {attempt.pick(wrong_letters, 'other')} remain possible for me."
        )
    if form is ReplyForm.FENCED:  # a line that the published extraction takes for the answer, ahead of a boxed letter
        thoughts = f"{thoughts}\n{attempt.pick(list(options), 'tempting')} is tempting at first."
    return ReplyText(f"{thoughts}\n\n{_answer(letter, form, options[letter], attempt)}")


def _answer(letter: str, form: ReplyForm, option: str, attempt: Attempt) -> str:
    if form is ReplyForm.FENCED:
        return attempt.pick([f"**Answer: {letter}**", f"$\\boxed{{{letter}}}$", f"###{letter}###"], "answer")
    if form is ReplyForm.PROSE:
        line = " ".join(option.split())
        return attempt.pick([f"The answer is {letter}.", f"Answer: {letter}) {line}", f"({letter})"], "answer")
    if form is ReplyForm.SLIP:
        return attempt.pick([f"answer: {letter.lower()}", f"Answer - {letter}", letter], "answer")
    return f"Answer: {letter}"


# ---- rows ----------------------------------------------------------------------------------------------------------


def _lower(row: Row) -> dict[str, object]:
    return {name.strip().lower(): value for name, value in row.items()}


def _right_option(columns: Row) -> str:
    options = [str(option).strip() for option in _listed(columns.get("options") or columns.get("choices"))]
    value = next((columns[name] for name in _RIGHT if columns.get(name) is not None), None)
    if isinstance(value, str) and value.strip() in options:
        return value.strip()
    if isinstance(value, str) and len(value.strip()) == 1:
        value = ascii_uppercase.find(value.strip())
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < len(options):
        raise UnfitRow("which of its options is right cannot be told")
    return options[value]


def _listed(value: object) -> Sequence[object]:
    """A list, also one written as text."""
    for read in (json.loads, ast.literal_eval) if isinstance(value, str) else ():
        try:
            value = read(str(value))
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
        break
    return value if isinstance(value, list) else ()
