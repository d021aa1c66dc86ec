"""What the made-up models do with items that are graded by rule: find the item by its text, try it, say something.

What is right, and how it is said, is each kind's own: `simulate_mcq`, `simulate_grids`, `simulate_rules`. Here is what
they share: a model solves an item if its draw for it is below logistic(k (skill + talent + reasoning - difficulty)),
where talent is a small draw of its own for every kind, so that the kinds do not all rank the models alike.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from layton_batch.sandbox.answerers import reply_forms
from layton_batch.sandbox.answerers.profiles import ParticipantProfile, Profiles, effort_gain
from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.answerers.reply_forms import ReplyForm, ReplyText, counted
from layton_batch.sandbox.answerers.riddle_lookup import Passage, Riddle, RiddleIndex
from layton_batch.sandbox.answerers.seeded_draws import draw, normal, pick
from layton_batch.sandbox.answerers.stock_reasoning import CLOSINGS, OPENINGS, Truth

_DISCRIMINATION = 1.6
_TALENT_SPREAD = 0.25
_CLUMSIER = 3.0
"""Replies in free text go wrong more often than replies under a JSON schema, for which the profiles' rates are."""
_MOST_CLUMSY = 0.3

_Option = TypeVar("_Option")


class UnfitRow(ValueError):
    """A row with an item's columns and not an item's values; the message is the reason."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One model at one item. Everything drawn is the same for the same (seed, model, kind, item)."""

    seed: int
    profile: ParticipantProfile
    model: str
    kind: str
    item: str
    reasoning: str | int | None = None

    def strength(self, difficulty: float) -> float:
        """In logits over k: how much the model is up to an item of this difficulty."""
        talent = _TALENT_SPREAD * normal("talent", self.kind, self.model)
        return self.profile.skill + talent + effort_gain(self.reasoning) - difficulty

    def difficulty(self, mean: float, spread: float) -> float:
        """The item's, around a mean: the same for every model."""
        return mean + spread * normal("difficulty", self.kind, self.seed, self.item)

    def solves(self, difficulty: float) -> bool:
        """More reasoning never turns a right answer into a wrong one: the draw does not hang on it."""
        return self.draw("solves") < 1 / (1 + math.exp(-_DISCRIMINATION * self.strength(difficulty)))

    def form(self, more: Mapping[ReplyForm, float] | None = None) -> ReplyForm:
        """Draw the form of the reply. `more` is added to the profile's rates."""
        rates = {form: min(_MOST_CLUMSY, _CLUMSIER * rate) for form, rate in self.profile.forms.items()}
        for form, rate in (more or {}).items():
            rates[form] = rates.get(form, 0.0) + rate
        return reply_forms.form_for(rates, *self._key)

    def thoughts(self, truth: Truth) -> tuple[str, str]:
        """A sentence to begin with and one to end with. Neither names a letter, a number or a thing."""
        return self.pick(OPENINGS[truth], "opening"), self.pick(CLOSINGS[truth], "closing")

    def habit(self, *parts: object) -> float:
        """A uniform number that is the model's own, whatever the item."""
        return draw("habit", *parts, self.kind, self.model)

    def draw(self, *parts: object) -> float:
        return draw(*parts, *self._key)

    def normal(self, *parts: object) -> float:
        return normal(*parts, *self._key)

    def pick(self, options: Sequence[_Option], *parts: object) -> _Option:
        return pick(options, *parts, *self._key)

    def refusal(self) -> ReplyText:
        return reply_forms.say(ReplyForm.REFUSED, {}, *self._key)

    def cut(self, text: str, earliest: float, latest: float) -> ReplyText:
        """The text, ended at the output limit somewhere between these shares of it."""
        share = earliest + (latest - earliest) * self.draw("cut")
        return ReplyText(text[: max(1, int(len(text) * share))], "length")

    @property
    def _key(self) -> tuple[object, ...]:
        return self.kind, self.seed, self.model, self.item


class RuleQuestion(Protocol):
    """An item that is graded by rule. `text` is what a prompt about it holds; `image` a digest, or empty."""

    @property
    def kind(self) -> str: ...
    @property
    def id(self) -> str: ...
    @property
    def text(self) -> str: ...
    @property
    def image(self) -> str: ...

    def say(self, prompt: str, attempt: Attempt) -> ReplyText | None:
        """A model's reply to the prompt; None where the prompt is not one the item can be answered from."""
        ...


class Exercises:
    """The items of one sandbox; answers what is asked about them."""

    def __init__(self, items: Iterable[RuleQuestion], seed: int, profiles: Profiles) -> None:
        self._items = tuple(items)
        self._index = RiddleIndex([_entry(position, item) for position, item in enumerate(self._items)])
        self._seed, self._profiles = seed, profiles

    def reply(self, question: Question, passage: Passage) -> ModelReply | None:
        """None where the question is about none of the items, or asks for a form of its own by a schema."""
        matching = self._index.find(passage, question.images) if question.schema is None and self._items else ()
        if not matching:
            return None
        item, profile = self._items[int(matching[0].id)], self._profiles.participant(question.model)
        attempt = Attempt(self._seed, profile, question.model, item.kind, item.id, question.reasoning)
        utterance = item.say(question.text, attempt)
        if utterance is None:
            return None
        utterance = reply_forms.within(question.max_output_tokens, utterance)
        return counted(question, utterance.text, utterance.finish)


def _entry(position: int, item: RuleQuestion) -> Riddle:
    """The item as the index of riddles files it."""
    return Riddle(str(position), "", None, item.text, (), "", "", "", item.image)
