"""The posterior of a board: of a jury's, with scores, joint draws, rates for plans and the slope; and of one graded by
rule."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from layton_batch.scoring.evidence import ItemScores, mark_matrix, span_of, strata_of
from layton_batch.scoring.rules import ScoringRules
from layton_batch.stats.counts import Counts, FloatArray
from layton_batch.stats.hierarchical import POINTS, Fit, fit
from layton_batch.stats.hierarchical_scores import ModelScore, collapsed, hierarchical_scores, slope_interval
from layton_batch.stats.marks import GradeScores, large_strata, mark_draws, mark_scores
from layton_batch.stats.rate_draws import DRAWS, draws_on_new, draws_on_these, rate_draws

STREAM = 0
"""Seed of joint draws: ranges that moved with a seed would say more about the seed than about the models."""
_FORECAST_POINTS = 32


class VotePosterior:
    """Posterior of the models of a jury's board, with or without labels. ``is_forecast``: of labels that are only
    expected, with fewer points."""

    def __init__(self, counts: Counts, rules: ScoringRules, *, is_forecast: bool = False) -> None:
        self.rules, self._counts, self._is_forecast = rules, counts, is_forecast

    @cached_property
    def _fit(self) -> Fit:
        rules = self.rules
        return fit(
            self._counts,
            other_jury=rules.other_jury,
            label_error=rules.label_error,
            in_turn=rules.in_turn,
            drifted=rules.drifted,
            points=_FORECAST_POINTS if self._is_forecast else POINTS,
        )

    @cached_property
    def scores(self) -> tuple[ModelScore, ...]:
        return hierarchical_scores(self._fit, level=self.rules.level)

    def half_widths(self, *, this_set: bool) -> FloatArray:
        """Return [K] half widths (fractions) of the intervals for these items, or for new ones."""
        ends = [(row.lower, row.upper) if this_set else (row.new_lower, row.new_upper) for row in self.scores]
        low, high = np.array(ends, dtype=np.float64).reshape(-1, 2).T
        return np.asarray((high - low) / 2)

    def draws(self) -> tuple[FloatArray, FloatArray]:
        """[T, K] on these items and on new ones."""
        rates = rate_draws(self._fit, seed=STREAM, draws=DRAWS)
        return draws_on_these(self._counts, rates, seed=STREAM), draws_on_new(self._counts, rates, seed=STREAM)

    @cached_property
    def rates(self) -> tuple[FloatArray, FloatArray]:
        """[K, B] alpha and beta of the posterior of every model's rates by vote, for plans."""
        return collapsed(self._fit)

    @property
    def slope(self) -> tuple[float, float, float]:
        """Mean and ends of the ability slope."""
        return slope_interval(self._fit, self.rules.level)


@dataclass(frozen=True, slots=True, eq=False)
class GradePosterior:
    """``draws`` [T, K] of the mean marks on new items, to compare models by; ``scores`` with their intervals. Both are
    in the order of the sheets."""

    draws: FloatArray
    scores: GradeScores

    @classmethod
    def of(cls, sheets: Sequence[ItemScores], level: float = 0.95) -> GradePosterior:
        """Compute the posterior of a board graded by rule. Raises DataError for marks that are not numbers."""
        marks, span, names = mark_matrix(sheets), span_of(sheets), strata_of(sheets)
        strata = large_strata(names, marks) if names else None
        draws = mark_draws(marks, seed=STREAM, span=span, strata=strata)
        return cls(draws.paired, mark_scores(marks, draws.single, level=level, span=span, strata=strata))
