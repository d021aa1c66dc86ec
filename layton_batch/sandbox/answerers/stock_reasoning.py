"""The stock sentences simulated participants reason with, by which a simulated judge knows what it reads.

Every justification opens with one sentence and closes with another of its truth's stock. A judge that finds them in a
request, however the request quotes them, knows whether answer and justification are right without understanding
either; the pair also serves as the mark by which a judge's error belongs to one answer and not to another.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from operator import itemgetter

from layton_batch.sandbox.answerers.seeded_draws import pick, position

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


def reason(truth: Truth, answer: str, reasons: str, *key: object) -> tuple[str, ReasoningSpan]:
    """A justification with its span: ``reasons`` are those of the reference, the key decides the words."""
    span = ReasoningSpan(
        truth, position(len(OPENINGS[truth]), "opening", *key), position(len(CLOSINGS[truth]), "closing", *key)
    )
    middle = _middle(truth, answer, reasons, *key)
    return " ".join(filter(None, (OPENINGS[truth][span.opening], middle, CLOSINGS[truth][span.closing]))), span


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
