"""A board graded by rule: marks by model, item and sample, whose posterior is made once for everything that reads it.

A model may be asked several times (``samples``). An item's mark is the mean of its samples' marks, and items are
weighed as wholes, so that an interval does not shrink as if every answer were an item of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import polars as pl

from layton_batch.errors import DataError
from layton_batch.scoring.evidence import ENTRANT, Entrant, entrants_of
from layton_batch.scoring.jury_board import STREAM
from layton_batch.scoring.rules import ScoringRules
from layton_batch.stats.counts import FloatArray
from layton_batch.stats.marks import GradeScores, large_strata, mark_draws, mark_scores


@dataclass(frozen=True, eq=False)
class RuleBoard:
    """``marks``: the frame of marks; ``span``: the least and the greatest mark that the rule can give. Model i of every
    array is ``entrants[i]``.

    DataError is raised for an item that occurs twice in a model's sample and a mark that is no number.
    """

    marks: pl.DataFrame
    rules: ScoringRules
    span: tuple[float, float] = (0.0, 1.0)

    @cached_property
    def entrants(self) -> list[Entrant]:
        """Return every model that has a mark."""
        return entrants_of(self.marks)

    @cached_property
    def item_marks(self) -> FloatArray:
        """[K, items] mean marks over samples, NaN where a model has none; items in the order of their ids."""
        _check(self.marks)
        means = self.marks.group_by(*ENTRANT, "item_id").agg(pl.col("mark").mean())
        model, item = (
            means.select(names).join(
                means.select(names).unique().sort(names).with_row_index(), on=names, maintain_order="left"
            )["index"]
            for names in (list(ENTRANT), ["item_id"])
        )
        marks = np.full((len(self.entrants), means["item_id"].n_unique()), np.nan)
        marks[model.to_numpy(), item.to_numpy()] = means["mark"].to_numpy()
        return marks

    @cached_property
    def _posterior(self) -> tuple[FloatArray, GradeScores]:
        marks = self.item_marks
        names = self.marks.select("item_id", "stratum").unique("item_id").sort("item_id")["stratum"].to_list()
        strata = large_strata(names, marks) if (self.marks["stratum"] != "").all() else None
        draws = mark_draws(marks, seed=STREAM, span=self.span, strata=strata)
        return draws.paired, mark_scores(marks, draws.single, level=self.rules.level, span=self.span, strata=strata)

    @property
    def draws(self) -> FloatArray:
        """[T, K] draws of the mean marks on new items, to compare models by."""
        return self._posterior[0]

    @property
    def scores(self) -> GradeScores:
        """Return the mean marks and their intervals."""
        return self._posterior[1]


def _check(marks: pl.DataFrame) -> None:
    """Raises DataError for a mark that a model cannot have in one of its samples."""
    again = marks.filter(pl.struct(*ENTRANT, "sample", "item_id").is_duplicated())
    if again.height:
        raise DataError(
            f"model {Entrant.of(again.row(0, named=True)).name!r} has more than one mark for an item; give each "
            "model's answers in one source only, or the questions of each source ids of their own (column `id`)"
        )
    wrong = marks.filter(~pl.col("mark").is_finite().fill_null(value=False))
    if wrong.height:
        name = Entrant.of(wrong.row(0, named=True)).name
        raise DataError(f"model {name!r} has a mark that is no number; score the run again")
