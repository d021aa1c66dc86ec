"""Made-up models with known strengths: participants that solve items and judges that make mistakes, all repeatable.

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

from layton_batch.sandbox.answerers import questions
from layton_batch.sandbox.answerers.known_items import KnownItem, KnownItems, submission
from layton_batch.sandbox.answerers.profiles import (
    HINT_GAIN,
    JudgeProfile,
    ParticipantProfile,
    effort_gain,
    judge_profile,
    participant_profile,
)
from layton_batch.sandbox.answerers.questions import Kind, ModelReply, Question, kind_of
from layton_batch.sandbox.answerers.reply_forms import ReplyForm, ReplyText, form_for, in_form, refusal, reply_of
from layton_batch.sandbox.answerers.seeded_draws import draw, normal, pick
from layton_batch.sandbox.answerers.stock_reasoning import (
    CLOSINGS,
    OPENINGS,
    ReasoningSpan,
    Truth,
    reason,
    recognise,
)
from layton_batch.sandbox.answerers.wrong_answers import WrongAnswers, core, plain_words, right_answer

_ARGUED_WORDS = 8
"""Fewer words than these are no justification."""
_USUAL_PICARATS = 35
_PICARATS_A_LOGIT = 25
_MOST_BY_PICARATS = 1.2
_DISCRIMINATION = 1.6
_HARD_TO_JUDGE = 0.1
_HARD_FACTOR = 4.0
"""A tenth of the answers is four times as error-prone for every judge: juries err together, as real ones do."""
_EASY_FACTOR = (1 - _HARD_TO_JUDGE * _HARD_FACTOR) / (1 - _HARD_TO_JUDGE)
_ONE_ERROR_BRINGS_ANOTHER = 0.75
"""A judge taken in by a wrong answer mostly believes the reasoning too; one that fails a right answer fails both."""
_WRONG_ANSWER_RIGHT_REASONS = 0.1
_IN_WORDS = {True: "The final answer says what the reference says.", False: "The final answer says something else."}
_CLUMSIER = 3.0
"""Replies in free text go wrong more often than replies under a JSON schema, for which the profiles' rates are."""
_LEAST_CAUTION, _CAUTION_RANGE = 0.1, 0.55
"""Share of the times that a model which does not know says so: a habit of its own."""
_OPTION = re.compile(r"^[ \t]*[(*]*([A-K])[).:]", re.MULTILINE)
_NUMBER = re.compile(r"\b\d{1,4}\b")
_GUESSES = ("Neither of them", "The first one", "The last one", "Nothing at all", "It makes no difference", "Only one")


@dataclass(frozen=True, slots=True)
class SimulatedAnswer:
    """A participant's reply to an item: whether it is right, its content, and its form."""

    span: ReasoningSpan
    answer: str
    justification: str
    form: ReplyForm


class SimulateAnswerer:
    """Answers everything; the same question gets the same reply for the same seed, in any order and any process."""

    def __init__(self, items: Iterable[KnownItem] = (), seed: int = 0) -> None:
        self._items = KnownItems(items)
        self._wrong = WrongAnswers(item for item in self._items.items if not item.wrong)
        self._seed = seed

    def answer(self, question: Question) -> ModelReply:
        kind = kind_of(question)
        item = self._items.find(question.text, question.images)
        if kind is Kind.JUDGE:
            return self._judge_reply(question, item)
        if item is not None and item.wrong and question.schema is None:
            return self._reply_by_rule(question, item)
        if kind is Kind.PARTICIPANT:
            return self._participant_reply(question, item)
        key = (self._seed, question.model, question.text)
        answer = right_answer(item) if item else _guess(question.text, *key)
        if question.schema is not None:
            return reply_of(question, json.dumps(_filled(question.schema, answer, *key), ensure_ascii=False))
        text = "Going through the question step by step leaves one candidate."
        return reply_of(question, f"{text}\n\nFinal Answer: ###{answer}###")

    def participate(self, model: str, item: KnownItem, hints: int, reasoning: str | int | None) -> SimulatedAnswer:
        """Draw a model's reply to a known item of which this many hints are shown."""
        profile, key = participant_profile(model), (self._seed, model, item.id)
        truth = _truth(profile, self._difficulty(item), hints, reasoning, *key)
        answer = self._wrong.draw(item, *key) if truth is Truth.WRONG else right_answer(item)
        return _argued(profile, truth, answer, item.reasons, *key, hints, reasoning)

    def _difficulty(self, item: KnownItem) -> float:
        """In logits; 0 is a usual item, more is harder."""
        picarats = _USUAL_PICARATS if item.picarats is None else item.picarats
        by_picarats = (picarats - _USUAL_PICARATS) / _PICARATS_A_LOGIT
        bounded = max(-_MOST_BY_PICARATS, min(_MOST_BY_PICARATS, by_picarats))
        return bounded + normal("difficulty", self._seed, item.id)

    def _verdict(self, judge: str, item: str, span: ReasoningSpan, text: str) -> tuple[bool, bool]:
        """(answer is right, justification is right) as the judge sees them: the truth, or its mistake.

        It depends on the stock reasoning and not on the prompt's wording; `text` tells apart other answers.
        """
        profile, key = judge_profile(judge), (self._seed, item, span, text)
        factor = _HARD_FACTOR if draw("hard to judge", *key) < _HARD_TO_JUDGE else _EASY_FACTOR
        on_answer, on_justification = span.truth.value
        errs = draw("answer", judge, *key) < factor * (profile.strict_answer if on_answer else profile.lenient_answer)
        rate = _ONE_ERROR_BRINGS_ANOTHER if errs else factor * _justification_rate(profile, span.truth)
        errs_again = draw("justification", judge, *key) < rate
        return on_answer is not errs, on_justification is not errs_again

    def _participant_reply(self, question: Question, item: KnownItem | None) -> ModelReply:
        name = question.text if item is None else item.id
        if item is not None:
            shown = sum(hint in question.text for hint in item.hints)
            content = self.participate(question.model, item, shown, question.reasoning)
        else:  # a truth by the usual chances, since nobody here can know it
            profile, key = participant_profile(question.model), (self._seed, question.model, name)
            difficulty = normal("difficulty", self._seed, name)
            truth = _truth(profile, difficulty, 0, question.reasoning, *key)
            content = _argued(profile, truth, _guess(name, *key), "", *key, question.reasoning)
        values = {questions.JUSTIFICATION: content.justification, questions.ANSWER: content.answer}
        return _reply(question, content.form, values, self._seed, question.model, name)

    def _reply_by_rule(self, question: Question, item: KnownItem) -> ModelReply:
        """Thoughts, and then a right or a wrong reply of those that the caller gave."""
        profile, key = participant_profile(question.model), (self._seed, question.model, item.id)
        truth = _truth(profile, self._difficulty(item), 0, question.reasoning, *key)
        text = pick(item.wrong, "wrong", *key) if truth is Truth.WRONG else item.right
        caution = _LEAST_CAUTION + _CAUTION_RANGE * draw("caution", question.model)
        if truth is Truth.WRONG and item.abstention and draw("abstains", *key) < caution:
            text = item.abstention
        if item.lettered:
            letter = re.search(rf"^\W*([A-Z])[).:]\s*{re.escape(text)}\s*$", question.text, re.MULTILINE)
            text = f"Answer: {letter[1]}" if letter else text
        rates = {form: min(0.3, _CLUMSIER * rate) for form, rate in profile.forms.items()}
        opening, closing = pick(OPENINGS[truth], "opening", *key), pick(CLOSINGS[truth], "closing", *key)
        return reply_of(question, *_in_free_text(form_for(rates, *key), f"{opening} {closing}", text, *key))

    def _judge_reply(self, question: Question, item: KnownItem | None) -> ModelReply:
        span, name = recognise(question.text), item.id if item else ""
        text = "" if span and item else question.text
        if span is None:
            span = ReasoningSpan(self._compared(question.text, item), -1, -1)
        on_answer, on_justification = self._verdict(question.model, name, span, text)
        words = _IN_WORDS[on_answer]
        if question.schema is None and questions.JUDGEMENT in question.text:
            return reply_of(question, f"{words}\n\n{questions.JUDGEMENT}{int(on_answer)}")
        values: dict[str, object] = {
            questions.ANSWER_VERDICT: on_answer,
            questions.JUSTIFICATION_VERDICT: on_justification,
        }
        if question.schema is not None:
            values |= {"reasoning": words, "reason": words}
        key = (self._seed, question.model, name, span, text)
        return _reply(question, form_for(judge_profile(question.model).forms, *key), values, *key)

    def _compared(self, text: str, item: KnownItem | None) -> Truth:
        """The truth of a submission that no made-up model wrote: right if the reference answer is given and argued for,
        flawed if it is only given; of an unknown item a draw."""
        given = submission(text)
        if item is None or given is None:
            return Truth.RIGHT if draw("unknown", self._seed, text) < 0.5 else Truth.WRONG
        reference = right_answer(item)
        answer = plain_words(given[0])
        if not answer or answer not in {plain_words(reference), plain_words(core(reference))}:
            return Truth.WRONG
        return Truth.RIGHT if len(plain_words(given[1])) > _ARGUED_WORDS else Truth.FLAWED


def _truth(
    profile: ParticipantProfile, difficulty: float, hints: int, reasoning: str | int | None, *key: object
) -> Truth:
    strength = profile.skill - difficulty + HINT_GAIN * hints + effort_gain(reasoning)
    if draw("solves", *key) >= 1 / (1 + math.exp(-_DISCRIMINATION * strength)):
        return Truth.WRONG
    return Truth.FLAWED if draw("flawed", *key) < profile.flawed else Truth.RIGHT


def _argued(profile: ParticipantProfile, truth: Truth, answer: str, reasons: str, *key: object) -> SimulatedAnswer:
    justification, span = reason(truth, answer, reasons, *key)
    return SimulatedAnswer(span, answer, justification, form_for(profile.forms, *key))


def _justification_rate(profile: JudgeProfile, truth: Truth) -> float:
    """Return the judge's error rate for the justification, given that it is right about the answer."""
    if truth is Truth.RIGHT:
        return profile.strict_justification
    return profile.lenient_justification * (1 if truth is Truth.FLAWED else _WRONG_ANSWER_RIGHT_REASONS)


def _reply(question: Question, form: ReplyForm, values: Mapping[str, object], *key: object) -> ModelReply:
    return reply_of(question, *in_form(form, questions.in_schema_order(question, values), *key))


def _in_free_text(form: ReplyForm, thoughts: str, text: str, *key: object) -> ReplyText:
    whole = f"{thoughts}\n\n{text}"
    match form:
        case ReplyForm.REFUSED:
            return refusal(*key)
        case ReplyForm.TRUNCATED:
            return ReplyText(whole[: len(whole) // 2], "length")
        case ReplyForm.UNSTRUCTURED:
            return ReplyText(f"{thoughts}\n\nThere is too little to go by here, so I leave it open.")
        case ReplyForm.FENCED:
            return ReplyText(f"{thoughts}\n\n```\n{text}\n```")
    return ReplyText(text if form is ReplyForm.SLIP else whole)


def _guess(text: str, *key: object) -> str:
    """An answer of the kind the text seems to ask for: one of its options, a number if it has numbers, a phrase."""
    options: list[str] = sorted(set(_OPTION.findall(text)))
    numbers: list[str] = _NUMBER.findall(text)
    return pick(options if len(options) > 1 else numbers or _GUESSES, "guess", *key)


def _filled(schema: Mapping[str, object], answer: str, *key: object) -> dict[str, object]:
    """A value for each property of the schema, by its type; the answer for texts."""
    members = schema.get("properties")
    values = {}
    for name, member in members.items() if isinstance(members, Mapping) else ():
        options = member.get("enum")
        usual: dict[object, object] = {"boolean": True, "integer": 1, "number": 0.5, "array": [], "object": {}}
        values[name] = pick(options, name, *key) if options else usual.get(member.get("type"), answer)
    return values
