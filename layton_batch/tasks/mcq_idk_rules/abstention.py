"""What abstaining is worth: how often a model answers, how often it is right when it does, what a mistake may cost."""

from __future__ import annotations

from dataclasses import dataclass

from layton_batch.tasks.mcq_idk_rules.exact import share_bounds
from layton_batch.tasks.mcq_idk_rules.metrics import Outcome, Tally

Bounds = tuple[float, float | None]
"""Lower and upper; no upper bound: None."""


@dataclass(frozen=True, slots=True)
class Selective:
    """One model's replies as counts, and what follows from them: fractions, None where nothing can be divided by."""

    correct: int
    wrong: int
    abstained: int
    no_letter: int

    @property
    def n(self) -> int:
        return self.correct + self.wrong + self.abstained + self.no_letter

    @property
    def answered(self) -> int:
        """Replies that commit to an option. An unreadable one neither answers nor abstains."""
        return self.correct + self.wrong

    @property
    def coverage(self) -> float | None:
        """Share of the items the model answers."""
        return self.answered / self.n if self.n else None

    @property
    def accuracy(self) -> float | None:
        """Share of the answers that are right."""
        return self.correct / self.answered if self.answered else None

    @property
    def risk(self) -> float | None:
        """Share of the answers that are wrong."""
        return self.wrong / self.answered if self.answered else None

    @property
    def break_even_penalty(self) -> float | None:
        """The price of a mistake at which the model does no better than abstaining throughout.

        Below 1 exactly where idk_score is negative. Unreadable replies count as mistakes, as they do there. None where
        the model makes no mistake: it gains at any price.
        """
        mistakes = self.wrong + self.no_letter
        return self.correct / mistakes if mistakes else None

    def to_json(self) -> dict[str, float | int | None]:
        return {
            "answered": self.answered,
            "abstained": self.abstained,
            "coverage": self.coverage,
            "accuracy_answered": self.accuracy,
            "risk": self.risk,
            "break_even_penalty": self.break_even_penalty,
        }

    def bounds(self, level: float = 0.95) -> dict[str, Bounds | None]:
        """Exact intervals of the figures by their names in ``to_json``; None where nothing can be divided by.

        Each is Clopper and Pearson's: of the answers among all items, of the right among the answers, and of the right
        among right and mistaken replies, whose odds are the break-even penalty.
        """
        mistakes = self.wrong + self.no_letter
        odds = share_bounds(self.correct, self.correct + mistakes, level)
        return {
            "coverage": share_bounds(self.answered, self.n, level),
            "accuracy_answered": share_bounds(self.correct, self.answered, level),
            "risk": share_bounds(self.wrong, self.answered, level),
            "break_even_penalty": odds and (odds[0] / (1 - odds[0]), odds[1] / (1 - odds[1]) if odds[1] < 1 else None),
        }


def selective(tally: Tally) -> Selective:
    """The abstention-aware view of a tally."""
    counts = tally.outcomes
    return Selective(
        counts[Outcome.CORRECT], counts[Outcome.WRONG], counts[Outcome.ABSTAINED], counts[Outcome.NO_LETTER]
    )
