"""Made-up models with known strengths: participants that solve riddles and judges that make mistakes, all repeatable.

A participant solves an item if its draw for that item is below logistic(k (skill - difficulty + hints + reasoning));
the draw stays the same whatever the hints and the reasoning, so more of either never turns a right answer into a
wrong one. An item's difficulty comes from its picarats and a draw of its own. What a participant writes carries the
stock phrases of its truth (`stock_reasoning`); a judge reads the truth off them and then errs at its profile's rates.

Items nobody gave are answered too, in the form asked for: the sandbox must work with anybody's benchmark.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from layton_batch.sandbox.answerers import questions as kinds
from layton_batch.sandbox.answerers import reply_forms
from layton_batch.sandbox.answerers.exercises import Exercises, RuleQuestion
from layton_batch.sandbox.answerers.profiles import (
    JudgeProfile,
    ParticipantProfile,
    Profiles,
    bundled_profiles,
    effort_gain,
    hint_gain,
)
from layton_batch.sandbox.answerers.questions import ANSWER, JUSTIFICATION, Kind, ModelReply, Question, kind_of
from layton_batch.sandbox.answerers.reply_forms import ReplyForm, counted
from layton_batch.sandbox.answerers.riddle_lookup import Passage, Riddle, RiddleIndex, hints_shown
from layton_batch.sandbox.answerers.seeded_draws import draw, normal, pick, position
from layton_batch.sandbox.answerers.stock_reasoning import ReasoningSpan, Truth, reason, recognise
from layton_batch.sandbox.answerers.wrong_answers import WrongAnswers, core, plain_words, right_answer

_DECODER = json.JSONDecoder()
_MOST_OBJECTS = 20
_ARGUED_WORDS = 8
"""Fewer words than these are no justification."""


def compared(text: str, passage: Passage, riddle: Riddle) -> Truth:
    """Right if the reference answer is given and argued for, flawed if it is only given."""
    given = submission(text)
    if given is not None:
        return _truth(_says(given[0], riddle), len(plain_words(given[1])))
    rest = _beside_the_riddle(passage, riddle)
    wanted = " ".join(plain_words(right_answer(riddle)))
    # Once as the reference; a second time only if the participant says it.
    is_given = bool(wanted) and len(re.findall(rf"(?<!\S){re.escape(wanted)}(?!\S)", rest)) > 1
    return _truth(is_given, len(rest.split()))


def submission(text: str) -> tuple[str, str] | None:
    """(answer, justification) of the last JSON object in the text that has them as strings; None without one. An object
    without a justification has an empty one."""
    starts = [match.start() for match in re.finditer(r"\{", text)][-_MOST_OBJECTS:]
    for start in reversed(starts):
        try:
            value, _ = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            answer, justification = value.get(ANSWER), value.get(JUSTIFICATION, "")
            if isinstance(answer, str) and isinstance(justification, str):
                return answer, justification
    return None


def _says(answer: str, riddle: Riddle) -> bool:
    """Return whether the answer equals the reference, apart from typography and the reference's remarks."""
    reference = right_answer(riddle)
    return bool(plain_words(answer)) and plain_words(answer) in {plain_words(reference), plain_words(core(reference))}


def _beside_the_riddle(passage: Passage, riddle: Riddle) -> str:
    """The words of the text without one copy of each column of the riddle but the answer."""
    rest = " ".join(plain_words(passage.plain))
    columns = (riddle.description, *riddle.hints, riddle.solution, riddle.justification)
    for words in sorted((" ".join(plain_words(column)) for column in columns), key=len, reverse=True):
        rest = rest.replace(words, " ", 1) if words else rest
    return rest


def _truth(right: bool, argued_words: int) -> Truth:
    if not right:
        return Truth.WRONG
    return Truth.RIGHT if argued_words > _ARGUED_WORDS else Truth.FLAWED


_OPTION = re.compile(r"^[ \t]*[(*]*([A-K])[).:]", re.MULTILINE)
_NUMBER = re.compile(r"\b\d{1,4}\b")
_DEEPEST = 8
_YES = 0.8
_GUESSES = ("Neither of them", "The first one", "The last one", "Nothing at all", "It makes no difference", "Only one")


def guess(text: str, *key: object) -> str:
    """An answer of the kind the text seems to ask for: one of its options, a number if it has numbers, a phrase."""
    options: list[str] = sorted(set(_OPTION.findall(text)))
    if len(options) > 1:
        return pick(options, "option", *key)
    numbers = _NUMBER.findall(text)
    if numbers:
        return str(int(pick(numbers, "number", *key)) + position(3, "offset", *key))
    return pick(_GUESSES, "guess", *key)


def generic_reply(question: Question, riddle: Riddle | None, seed: int) -> str:
    """A value of the question's schema as JSON; without a schema a line of prose that ends in an answer."""
    key = (seed, question.model, question.text)
    if question.schema is not None:
        return json.dumps(_Filler(question.text, riddle, key).value(question.schema), ensure_ascii=False)
    answer = guess(question.text, *key)
    return f"Going through the question step by step leaves one candidate.\n\nFinal Answer: ###{answer}###"


@dataclass(frozen=True, slots=True)
class _Filler:
    """Fills a JSON schema: every property, one element in an array, null where the schema is not understood."""

    text: str
    riddle: Riddle | None
    key: tuple[object, ...]

    def value(self, schema: object, name: str = "", depth: int = 0) -> object:
        if not isinstance(schema, Mapping) or depth > _DEEPEST:
            return None
        options = schema.get("enum")
        if isinstance(options, list) and options:
            chosen: object = pick(options, "enum", name, *self.key)
            return chosen
        kind, members = schema.get("type"), schema.get("properties")
        kind = kind[0] if isinstance(kind, list) and kind else kind
        if isinstance(members, Mapping):
            return {str(member): self.value(inner, str(member), depth + 1) for member, inner in members.items()}
        if kind == "object":
            return {}
        if kind == "array":
            return [self.value(schema.get("items"), name, depth + 1)]
        return self.scalar(str(kind).lower(), name)

    def scalar(self, kind: str, name: str) -> object:
        if kind == "boolean":
            return draw("boolean", name, *self.key) < _YES
        if kind == "integer":
            return position(10, "integer", name, *self.key)
        if kind == "number":
            return round(draw("number", name, *self.key), 3)
        if kind != "string":
            return None
        answer = right_answer(self.riddle) if self.riddle else guess(self.text, name, *self.key)
        return reason(Truth.RIGHT, answer, self.riddle, *self.key)[0] if JUSTIFICATION in name else answer


_USUAL_PICARATS = 35
_PICARATS_A_LOGIT = 25
_MOST_BY_PICARATS = 1.2
_DIFFICULTY_SPREAD = 1.0
_DISCRIMINATION = 1.6
_HARD_TO_JUDGE = 0.1
_HARD_FACTOR = 4.0
"""A tenth of the answers is four times as error-prone for every judge: juries err together, as real ones do."""
_EASY_FACTOR = (1 - _HARD_TO_JUDGE * _HARD_FACTOR) / (1 - _HARD_TO_JUDGE)
_ONE_ERROR_BRINGS_ANOTHER = 0.75
"""A judge taken in by a wrong answer mostly believes the reasoning too; one that fails a right answer fails both."""
_WRONG_ANSWER_RIGHT_REASONS = 0.1
_IN_WORDS = {True: "The final answer says what the reference says.", False: "The final answer says something else."}


@dataclass(frozen=True, slots=True)
class SimulatedAnswer:
    """Reply of a participant to a riddle: whether it is right, its content, and its form."""

    span: ReasoningSpan
    answer: str
    justification: str
    form: ReplyForm


class SimulateAnswerer:
    """Answers everything. `items` are the riddles it knows, `exercises` the items graded by rule; the same question
    gets the same reply for the same seed, in any order and any process."""

    def __init__(
        self,
        items: Iterable[Riddle] = (),
        seed: int = 0,
        profiles: Profiles | None = None,
        exercises: Iterable[RuleQuestion] = (),
    ) -> None:
        self._index = RiddleIndex(tuple(items))
        self._wrong = WrongAnswers(self._index.riddles)
        self._seed = seed
        self._profiles = profiles or bundled_profiles()
        self._exercises = Exercises(exercises, seed, self._profiles)

    def answer(self, question: Question) -> ModelReply:
        kind = kind_of(question)
        passage = Passage(question.text)
        solution = None if kind is Kind.JUDGE else self._exercises.reply(question, passage)
        if solution is not None:
            return solution
        riddles = self._index.find(passage, question.images)
        riddle = riddles[0] if riddles else None
        if kind is Kind.JUDGE:
            return self._judge_reply(question, passage, riddle)
        if kind is Kind.PARTICIPANT:
            return self._participant_reply(question, passage, riddle)
        return counted(question, generic_reply(question, riddle, self._seed))

    def participate(self, model: str, riddle: Riddle, hints: int, reasoning: str | int | None) -> SimulatedAnswer:
        """Draw a model's reply to a known riddle of which this many hints are shown."""
        profile, key = self._profiles.participant(model), (self._seed, model, riddle.id)
        truth = self._truth(profile, self.difficulty(riddle), hints, reasoning, *key)
        answer = self._wrong.draw(riddle, *key) if truth is Truth.WRONG else right_answer(riddle)
        return _said(profile, truth, answer, riddle, *key, hints, reasoning)

    def difficulty(self, riddle: Riddle) -> float:
        """In logits; 0 is a usual riddle, more is harder."""
        picarats = _USUAL_PICARATS if riddle.picarats is None else riddle.picarats
        by_picarats = (picarats - _USUAL_PICARATS) / _PICARATS_A_LOGIT
        bounded = max(-_MOST_BY_PICARATS, min(_MOST_BY_PICARATS, by_picarats))
        return bounded + _DIFFICULTY_SPREAD * normal("difficulty", self._seed, riddle.id)

    def verdict(self, judge: str, item: str, span: ReasoningSpan, text: str = "") -> tuple[bool, bool]:
        """(answer is right, justification is right) as the judge sees them: the truth, or its mistake.

        It depends on the stock reasoning and not on the prompt's wording; `text` tells apart other answers.
        """
        profile, key = self._profiles.judge(judge), (self._seed, item, span, text)
        factor = _HARD_FACTOR if draw("hard to judge", *key) < _HARD_TO_JUDGE else _EASY_FACTOR
        on_answer, on_justification = span.truth.value
        errs = draw("answer", judge, *key) < factor * (profile.strict_answer if on_answer else profile.lenient_answer)
        rate = _ONE_ERROR_BRINGS_ANOTHER if errs else factor * _justification_rate(profile, span.truth)
        errs_again = draw("justification", judge, *key) < rate
        return on_answer is not errs, on_justification is not errs_again

    def _truth(
        self,
        profile: ParticipantProfile,
        difficulty: float,
        hints: int,
        reasoning: str | int | None,
        *key: object,
    ) -> Truth:
        strength = profile.skill - difficulty + hint_gain(hints) + effort_gain(reasoning)
        if draw("solves", *key) >= 1 / (1 + math.exp(-_DISCRIMINATION * strength)):
            return Truth.WRONG
        return Truth.FLAWED if draw("flawed", *key) < profile.flawed else Truth.RIGHT

    def _participant_reply(self, question: Question, passage: Passage, riddle: Riddle | None) -> ModelReply:
        if riddle is None:
            content, item = self._guess(question, passage), passage.forms[-1]
        else:
            shown, item = hints_shown(riddle, passage), riddle.id
            content = self.participate(question.model, riddle, shown, question.reasoning)
        values = {kinds.JUSTIFICATION: content.justification, kinds.ANSWER: content.answer}
        return _reply(question, content.form, values, self._seed, question.model, item)

    def _guess(self, question: Question, passage: Passage) -> SimulatedAnswer:
        """For an unknown item: a guess, and a truth by the usual chances, since nobody here can know it."""
        profile, key = self._profiles.participant(question.model), (self._seed, question.model, passage.forms[-1])
        difficulty = _DIFFICULTY_SPREAD * normal("difficulty", self._seed, passage.forms[-1])
        truth = self._truth(profile, difficulty, 0, question.reasoning, *key)
        return _said(profile, truth, guess(passage.plain, *key), None, *key, question.reasoning)

    def _judge_reply(self, question: Question, passage: Passage, riddle: Riddle | None) -> ModelReply:
        span, item = recognise(passage), riddle.id if riddle else ""
        text = "" if span and riddle else passage.forms[-1]
        if span is None:
            span = ReasoningSpan(compared(question.text, passage, riddle) if riddle else self._coin(passage), -1, -1)
        on_answer, on_justification = self.verdict(question.model, item, span, text)
        if question.schema is None and kinds.JUDGEMENT in question.text:
            words = f"{_IN_WORDS[on_answer]}\n\n{kinds.JUDGEMENT}{int(on_answer)}"
            return counted(question, words)
        values: dict[str, object] = {
            kinds.ANSWER_VERDICT: on_answer,
            kinds.JUSTIFICATION_VERDICT: on_justification,
        }
        if kinds.REASONING in kinds.properties(question.schema):
            values[kinds.REASONING] = _IN_WORDS[on_answer]
        key = (self._seed, question.model, item, span, text)
        form = reply_forms.form_for(self._profiles.judge(question.model).forms, *key)
        return _reply(question, form, values, *key)

    def _coin(self, passage: Passage) -> Truth:
        return Truth.RIGHT if draw("unknown", self._seed, passage.forms[-1]) < 0.5 else Truth.WRONG


def _said(
    profile: ParticipantProfile, truth: Truth, answer: str, riddle: Riddle | None, *key: object
) -> SimulatedAnswer:
    justification, span = reason(truth, answer, riddle, *key)
    return SimulatedAnswer(span, answer, justification, reply_forms.form_for(profile.forms, *key))


def _justification_rate(profile: JudgeProfile, truth: Truth) -> float:
    """Return the judge's error rate for the justification, given that it is right about the answer."""
    if truth is Truth.RIGHT:
        return profile.strict_justification
    return profile.lenient_justification * (1 if truth is Truth.FLAWED else _WRONG_ANSWER_RIGHT_REASONS)


def _reply(question: Question, form: ReplyForm, values: Mapping[str, object], *key: object) -> ModelReply:
    """The values in the order and with the names of the question's schema, within the output limit."""
    named = {name: values[name] for name in kinds.properties(question.schema) if name in values}
    utterance = reply_forms.within(question.max_output_tokens, reply_forms.say(form, named or values, *key))
    return counted(question, utterance.text, utterance.finish)
