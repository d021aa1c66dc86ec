"""Made-up models with known strengths: participants that solve items and judges that make mistakes, all repeatable.

A participant solves an item if its draw for that item is below logistic(k (skill - difficulty + hints + reasoning));
the draw stays the same whatever the hints and the reasoning, so more of either never turns a right answer into a
wrong one. An item's difficulty comes from its picarats and a draw of its own. What a participant writes carries the
phrases of its truth (`OPENINGS`, `CLOSINGS`); a judge reads the truth off them and then errs at its profile's rates.

Items nobody gave are answered too, in the form asked for: the sandbox must work with anybody's benchmark.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from operator import itemgetter

from layton_batch.sandbox.answerers import questions
from layton_batch.sandbox.answerers.known_items import KnownItem, KnownItems, submission
from layton_batch.sandbox.answerers.profiles import (
    HINT_GAIN,
    ReplyForm,
    draw,
    effort_gain,
    judge_profile,
    normal,
    participant_profile,
    pick,
    position,
)
from layton_batch.sandbox.answerers.questions import Kind, ModelReply, Question, kind_of, reply_of

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_MOST_SENTENCES = 4
_LONGEST_QUOTED = 80


class Truth(Enum):
    """(answer is right, justification is right). Nobody justifies a wrong answer rightly here."""

    RIGHT = (True, True)
    FLAWED = (True, False)
    WRONG = (False, False)


@dataclass(frozen=True, slots=True)
class ReasoningSpan:
    """Stock reasoning in a text: its truth, and the indices of its opening and closing (-1 if missing)."""

    truth: Truth
    opening: int
    closing: int

    def __str__(self) -> str:
        """Return the span as a part of a draw's key. Another text would give other draws, and other documented runs."""
        return f"Mark(truth={self.truth!r}, opening={self.opening}, closing={self.closing})"


OPENINGS = {
    Truth.RIGHT: (
        "The statement itself settles this once every word of it is taken seriously.",
        "Reading it twice shows where the trap is laid, and then little is left to decide.",
        "I set the obvious route aside and kept only what the text really promises.",
        "What matters here is less the amounts than what is being asked about them.",
        "Working backwards from the question makes the structure plain.",
        "I wrote down each condition separately and looked at which of them bind.",
        "One detail carries the whole puzzle, so I started from it.",
        "I checked the candidates one after another against the wording.",
    ),
    Truth.FLAWED: (
        "The usual method for this type of question applies directly.",
        "A quick estimate is good enough to single out the answer.",
        "I recognised the pattern from similar puzzles and carried it over.",
        "Most of the details are decoration, so I left them out of the reckoning.",
        "The last number mentioned is normally the decisive one.",
        "By symmetry there cannot be many possibilities to choose from.",
        "I went with the reading that most people would pick at first.",
        "Trying a single case was enough to see how it comes out.",
    ),
    Truth.WRONG: (
        "Taking everything at face value, the computation is short.",
        "I combined the figures in the order in which they are given.",
        "The first interpretation that comes to mind is also the natural one.",
        "Nothing in the text suggests a trick, so I solved it as it stands.",
        "I assumed that all the conditions hold at the same time throughout.",
        "Comparing the two extreme cases decides the matter.",
        "The hidden assumption is that the situation never changes.",
        "I looked for the option that breaks the fewest conditions.",
    ),
}

CLOSINGS = {
    Truth.RIGHT: (
        "Every condition is met, and no other reading meets them all.",
        "Checked against the text, nothing is left over and nothing is missing.",
        "Any other choice contradicts at least one sentence of the puzzle.",
        "That accounts for each clue exactly once.",
        "Hence this is not only possible but forced.",
        "The alternatives fail at the very detail I started from.",
    ),
    Truth.FLAWED: (
        "The exact reason matters little, since the result looks consistent.",
        "I did not see a need to go through the remaining conditions.",
        "It also happens to be the roundest of the candidates.",
        "The other details would not have changed this.",
        "That is how such puzzles generally turn out.",
        "A more careful derivation would presumably say the same.",
    ),
    Truth.WRONG: (
        "I therefore keep this result without looking further.",
        "This seems to be what the author had in mind.",
        "The remaining information appears to be a distraction.",
        "No simpler explanation presents itself.",
        "A different outcome would need facts that are not given.",
        "That is the value at which everything appears to balance.",
    ),
}

_FLAWED_MIDDLES = (
    "The quantities in the text point the same way, whichever of them one begins with.",
    "Adding one more step would only repeat what the first step has shown.",
    "The setting of the story makes this outcome the likely one.",
    "If it were otherwise, the question would hardly have been put like this.",
)
_WRONG_MIDDLES = (
    'That leads to "{answer}".',
    'Carried through to the end, it gives "{answer}".',
    'What remains after that is "{answer}".',
    'So "{answer}" is the only candidate I would consider.',
)


def reason(truth: Truth, answer: str, reasons: str, *key: object) -> str:
    """A justification: ``reasons`` are those of the reference, the key decides the words."""
    opening, closing = pick(OPENINGS[truth], "opening", *key), pick(CLOSINGS[truth], "closing", *key)
    return " ".join(filter(None, (opening, _middle(truth, answer, reasons, *key), closing)))


def _middle(truth: Truth, answer: str, reasons: str, *key: object) -> str:
    if truth is Truth.FLAWED:
        return pick(_FLAWED_MIDDLES, "middle", *key)
    if truth is Truth.WRONG:
        line = " ".join(answer.split())
        shortened = line if len(line) <= _LONGEST_QUOTED else f"{line[:_LONGEST_QUOTED].rstrip()} …"
        return pick(_WRONG_MIDDLES, "middle", *key).format(answer=shortened)
    return " ".join(_SENTENCE_END.split(" ".join(reasons.split()))[:_MOST_SENTENCES])


def recognise(text: str) -> ReasoningSpan | None:
    """The span of the stock reasoning in the text; of the last one where there are several, None without any."""
    openings = [(*_last(OPENINGS[truth], text), truth) for truth in Truth]
    place, opening, truth = max(openings, key=itemgetter(0))
    return ReasoningSpan(truth, opening, _last(CLOSINGS[truth], text)[1]) if place >= 0 else None


def _last(phrases: Sequence[str], text: str) -> tuple[int, int]:
    """(place, index) of the phrase that stands last in the text; (-1, -1) if none does."""
    places = [(place, index) for index, phrase in enumerate(phrases) if (place := text.rfind(phrase)) >= 0]
    return max(places, default=(-1, -1))


# ---- forms of replies ------------------------------------------------------------------------------------------------


_BEFORE = ("Here is my answer:", "Sure, this is the requested JSON:", "I thought it through and arrived at this.")
_AFTER = ("Let me know if you would like more detail.", "I am fairly confident in this.", "Thanks for the nice puzzle!")
_REFUSALS = (
    "I'm sorry, but I can't help with this request.",
    "I am not able to provide an answer to this.",
)
TextAndFinish = tuple[str, str]
"""Text of a reply, and its ``finish`` as in `ModelReply`."""


def form_for(rates: Mapping[ReplyForm, float], *key: object) -> ReplyForm:
    """The form drawn; what the rates leave over is plain."""
    chance = draw("form", *key)
    for form, rate in rates.items():
        if chance < rate:
            return form
        chance -= rate
    return ReplyForm.PLAIN


def in_form(form: ReplyForm, values: Mapping[str, object], *key: object) -> TextAndFinish:
    """The values as a JSON object in this form."""
    text = json.dumps(values, ensure_ascii=False)
    match form:
        case ReplyForm.FENCED:
            text = f"```json\n{json.dumps(values, ensure_ascii=False, indent=2)}\n```"
        case ReplyForm.PROSE:
            text = f"{pick(_BEFORE, 'before', *key)}\n\n{text}\n\n{pick(_AFTER, 'after', *key)}"
        case ReplyForm.SLIP:
            unquoted = (f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in values.items())
            text = pick((text[:-1] + ",}", text[:-1], "{" + ", ".join(unquoted) + "}"), "slip", *key)
        case ReplyForm.UNSTRUCTURED:
            text = " ".join(map(str, values.values()))
        case ReplyForm.TRUNCATED:  # within the first half: of {justification, answer} the answer is always lost
            end = len(text) // 6 + position(max(1, len(text) // 3), "cut", *key)
            return text[: max(1, end)], "length"
        case ReplyForm.REFUSED:
            return pick(_REFUSALS, "refusal", *key), "refusal"
    return text, "stop"


def in_free_text(form: ReplyForm, thoughts: str, text: str, *key: object) -> TextAndFinish:
    """Thoughts, and then the text, in this form."""
    whole = f"{thoughts}\n\n{text}"
    match form:
        case ReplyForm.REFUSED:
            return in_form(form, {}, *key)
        case ReplyForm.TRUNCATED:
            return whole[: len(whole) // 2], "length"
        case ReplyForm.UNSTRUCTURED:
            return f"{thoughts}\n\nThere is too little to go by here, so I leave it open.", "stop"
    return whole, "stop"


# ---- the models ------------------------------------------------------------------------------------------------------


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


_SEED = 0
"""The begin of most draws' keys. Another would give other draws, and other documented runs."""


class SimulateAnswerer:
    """Answers everything; the same question gets the same reply, in any order and any process."""

    def __init__(self, items: Iterable[KnownItem] = ()) -> None:
        self._items = KnownItems(items)
        self._answers: dict[str, list[str]] = {}
        for item in self._items.items:
            if not item.wrong:
                self._answers.setdefault(item.pool, [*_GUESSES]).append(_right(item))

    def answer(self, question: Question) -> ModelReply:
        kind = kind_of(question)
        item = self._items.find(question.text, question.images)
        if kind is Kind.JUDGE:
            return self._judge_reply(question, item)
        if item is not None and item.wrong and question.schema is None:
            return self._reply_by_rule(question, item)
        if kind is Kind.PARTICIPANT:
            return self._participant_reply(question, item)
        key = (_SEED, question.model, question.text)
        answer = _right(item) if item else _guess(question.text, *key)
        if question.schema is not None:
            return reply_of(question, json.dumps(_filled(question.schema, answer, *key), ensure_ascii=False))
        text = "Going through the question step by step leaves one candidate."
        return reply_of(question, f"{text}\n\nFinal Answer: ###{answer}###")

    def _participant_reply(self, question: Question, item: KnownItem | None) -> ModelReply:
        hints = sum(hint in question.text for hint in item.hints) if item else 0
        name, reasons = (item.id, item.reasons) if item else (question.text, "")
        key, profile = (_SEED, question.model, name), participant_profile(question.model)
        truth = self._truth(question, item, hints, *key)
        if item is None:
            answer = _guess(name, *key)
        else:
            answer = self._wrong_answer(item, *key) if truth is Truth.WRONG else _right(item)
        argued = (*key, hints, question.reasoning)
        values = {questions.JUSTIFICATION: reason(truth, answer, reasons, *argued), questions.ANSWER: answer}
        return _reply(question, form_for(profile.forms, *argued), values, *key)

    def _truth(self, question: Question, item: KnownItem | None, hints: int, *key: object) -> Truth:
        """Draw whether the model solves the item. The difficulty is in logits: 0 is usual, more is harder; of an
        unknown item it is a draw."""
        profile, name = participant_profile(question.model), key[-1]
        picarats = _USUAL_PICARATS if item is None or item.picarats is None else item.picarats
        by_picarats = (picarats - _USUAL_PICARATS) / _PICARATS_A_LOGIT
        bounded = max(-_MOST_BY_PICARATS, min(_MOST_BY_PICARATS, by_picarats))
        difficulty = bounded + normal("difficulty", _SEED, name)
        strength = profile.skill - difficulty + HINT_GAIN * hints + effort_gain(question.reasoning)
        if draw("solves", *key) >= 1 / (1 + math.exp(-_DISCRIMINATION * strength)):
            return Truth.WRONG
        return Truth.FLAWED if draw("flawed", *key) < profile.flawed else Truth.RIGHT

    def _wrong_answer(self, item: KnownItem, *key: object) -> str:
        """Draw the answer to another item of the pool that says something else."""
        answers = [pick(self._answers.get(item.pool, _GUESSES), "other", turn, *key) for turn in range(3)]
        right = _words(item.right)
        return next((answer for answer in answers if _words(answer) != right), _GUESSES[0])

    def _reply_by_rule(self, question: Question, item: KnownItem) -> ModelReply:
        """Thoughts, and then a right or a wrong reply of those that the caller gave."""
        profile, key = participant_profile(question.model), (_SEED, question.model, item.id)
        truth = self._truth(question, item, 0, *key)
        text = pick(item.wrong, "wrong", *key) if truth is Truth.WRONG else item.right
        caution = _LEAST_CAUTION + _CAUTION_RANGE * draw("caution", question.model)
        if truth is Truth.WRONG and item.abstention and draw("abstains", *key) < caution:
            text = item.abstention
        if item.lettered:
            letter = re.search(rf"^\W*([A-Z])[).:]\s*{re.escape(text)}\s*$", question.text, re.MULTILINE)
            text = f"Answer: {letter[1]}" if letter else text
        rates = {form: min(0.3, _CLUMSIER * rate) for form, rate in profile.forms.items()}
        opening, closing = pick(OPENINGS[truth], "opening", *key), pick(CLOSINGS[truth], "closing", *key)
        return reply_of(question, *in_free_text(form_for(rates, *key), f"{opening} {closing}", text, *key))

    def _judge_reply(self, question: Question, item: KnownItem | None) -> ModelReply:
        span, name = recognise(question.text), item.id if item else ""
        text = "" if span and item else question.text
        if span is None:
            span = ReasoningSpan(self._compared(question.text, item), -1, -1)
        on_answer, on_justification = _verdict(question.model, span.truth, _SEED, name, span, text)
        words = _IN_WORDS[on_answer]
        if question.schema is None and questions.JUDGEMENT in question.text:
            return reply_of(question, f"{words}\n\n{questions.JUDGEMENT}{int(on_answer)}")
        values: dict[str, object] = {
            questions.ANSWER_VERDICT: on_answer,
            questions.JUSTIFICATION_VERDICT: on_justification,
        }
        if question.schema is not None:
            values |= {"reasoning": words, "reason": words}
        key = (_SEED, question.model, name, span, text)
        return _reply(question, form_for(judge_profile(question.model).forms, *key), values, *key)

    def _compared(self, text: str, item: KnownItem | None) -> Truth:
        """The truth of a submission that no made-up model wrote: right if the reference answer is given and argued for,
        flawed if it is only given; of an unknown item a draw."""
        given = submission(text)
        if item is None or given is None:
            return Truth.RIGHT if draw("unknown", _SEED, text) < 0.5 else Truth.WRONG
        answer = _words(given[0])
        if not answer or answer != _words(item.right):
            return Truth.WRONG
        return Truth.RIGHT if len(_words(given[1])) > _ARGUED_WORDS else Truth.FLAWED


def _verdict(judge: str, truth: Truth, *key: object) -> tuple[bool, bool]:
    """(answer is right, justification is right) as the judge sees them: the truth, or its mistake.

    It depends on the stock reasoning and not on the prompt's wording.
    """
    profile, (on_answer, on_justification) = judge_profile(judge), truth.value
    factor = _HARD_FACTOR if draw("hard to judge", *key) < _HARD_TO_JUDGE else _EASY_FACTOR
    errs = draw("answer", judge, *key) < factor * (profile.strict_answer if on_answer else profile.lenient_answer)
    if on_justification:
        rate = profile.strict_justification
    else:
        rate = profile.lenient_justification * (1 if on_answer else _WRONG_ANSWER_RIGHT_REASONS)
    errs_again = draw("justification", judge, *key) < (_ONE_ERROR_BRINGS_ANOTHER if errs else factor * rate)
    return on_answer is not errs, on_justification is not errs_again


def _reply(question: Question, form: ReplyForm, values: Mapping[str, object], *key: object) -> ModelReply:
    return reply_of(question, *in_form(form, questions.in_schema_order(question, values), *key))


def _right(item: KnownItem) -> str:
    """The reference answer on one line."""
    return " ".join(item.right.split())


def _words(text: str) -> list[str]:
    """The words of an answer in lower case: what it says without its typography."""
    return re.findall(r"\w+", text.casefold())


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
