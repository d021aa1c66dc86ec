"""Sentences that explain the scores, intervals and ranks of a board."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from layton_batch.scoring.leaderboard import (
    ASSUMES,
    BORROWED_ONLY,
    NEW_ITEMS,
    NO_OWN,
    RULE,
    THIS_SET,
    flags_of,
)
from layton_batch.scoring.uncalibrated import UNCALIBRATED, need
from layton_batch.text import percent, plural

WHERE = {NEW_ITEMS: "on new items of this kind", THIS_SET: "on exactly this set of items"}
ALIKE = "Alike"
"""The head of the letters."""
_METRICS = {
    "both_correct": "whose answer and justification are both right",
    "answer_correct": "whose answer is right",
    "justification_correct": "whose justification is right",
}


def score_words(metric: str) -> str:
    """Say in a sentence what a score counts."""
    counted = _METRICS.get(metric, f"by “{metric.replace('_', ' ')}”" if metric else "")
    return f"Percent of the items {counted}".strip() + "."


def interval_head(method: str, level: float) -> str:
    """Return the head of the intervals."""
    return "Interval" if method == "paper" else f"{percent(level)} CI"


def meaning(method: str, target: str, level: float, needed: Sequence[int | None]) -> str:
    """Say what the intervals hold. ``needed``: the labels that each row needs."""
    if method == UNCALIBRATED:
        return (
            f"{_need(needed)} If the judges are that good, the {percent(level)} CI holds the score {WHERE[target]} "
            "with that probability. Each interval holds singly."
        )
    if method == "paper":
        return (
            "The interval is the range between the 2.5th and 97.5th percentile of the layton-eval paper's bootstrap: "
            "it holds for exactly these items, there is none for new ones, and it takes the rates found in the human "
            "labels as certain, so it is narrower than a 95 % interval should be."
        )
    if method == RULE and target == THIS_SET:
        return "Every answer was graded by rule, so scores and ranks are exact on this set of items."
    if method == RULE:
        return (
            "Every answer was graded by rule, so the score is exact on this set of items. "
            f"The {percent(level)} CI holds the score on new items of the same kind with that probability."
        )
    subject = {
        NEW_ITEMS: "the score on new items of the same kind",
        THIS_SET: "the share of exactly these items that a person would judge correct; it says nothing of other items",
    }
    return (
        f"The {percent(level)} CI holds {subject[target]}, with that probability. Each interval holds singly. {ASSUMES}"
    )


def range_meaning(method: str, target: str, level: float) -> str:
    """Say what the rank ranges and the letters hold."""
    letters = f"Models that share a letter under “{ALIKE}” cannot be told apart by their rank ranges."
    if method == "paper":
        return f"The rank range runs from the best to the worst rank that overlapping intervals leave open. {letters}"
    if method == RULE and target == THIS_SET:
        return letters
    chance = f"at least {percent(level)} probability"
    return f"The rank range holds the ranks {WHERE[target]} of all models at once, with {chance}. {letters}"


def cautions(rows: Sequence[Mapping[str, Any]], method: str, needed: Sequence[int | None]) -> Iterator[str]:
    """Yield sentences that a reader has to know before the numbers."""
    if method == UNCALIBRATED:
        yield _need(needed)
    borrowing = sum(BORROWED_ONLY in flags_of(row["flags"]) for row in rows)
    if borrowing:
        yield (
            f"{borrowing:,} of {plural(len(rows), 'row')} ({NO_OWN}) {'has' if borrowing == 1 else 'have'} no label on "
            "answers of their own: the labels behind these scores are on other models’ answers."
        )


def _need(needed: Sequence[int | None]) -> str:
    """Explain an uncalibrated board without the command that only its maker can use."""
    return need(needed).partition(": `")[0].removesuffix(".") + "."
