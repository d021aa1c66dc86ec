"""A board graded by rule: marks by model, item and sample, whose posterior is made once for everything that reads it.

A model may be asked several times (``samples``). An item's mark is the mean of its samples' marks, and items are
weighed as wholes, so that an interval does not shrink as if every answer were an item of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from layton_batch.errors import DataError
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.jury_board import STREAM
from layton_batch.scoring.rules import ScoringRules
from layton_batch.stats.counts import FloatArray
from layton_batch.stats.marks import GradeScores, large_strata, mark_draws, mark_scores


@dataclass(frozen=True, slots=True)
class ItemScores:
    """One entrant's marks by a rule, item by item; in the same order ``kinds``, what became of its replies, and
    ``failures``, the rule's words for what is not right (None: nothing failed; empty: the rule has none).

    ``span``: the least and the greatest mark that the rule can give. ``strata``: in the same order the kinds of items
    of which the benchmark has as many as it is meant to have; empty where it is not put together like that."""

    entrant: Entrant
    item_ids: Sequence[str]
    marks: Sequence[float]
    kinds: Sequence[str]
    failures: Sequence[str | None] = ()
    span: tuple[float, float] = (0.0, 1.0)
    strata: Sequence[str] = ()
    sample: int = 1


def span_of(sheets: Sequence[ItemScores]) -> tuple[float, float]:
    """The least and the greatest mark that the rule of these sheets can give."""
    return min(sheet.span[0] for sheet in sheets), max(sheet.span[1] for sheet in sheets)


@dataclass(frozen=True, eq=False)
class RuleBoard:
    """``sampled``: a sheet for each model and sample. Model i of every array is that of ``sheets[i]``.

    DataError is raised for an entrant or item that occurs twice in a sample, an entrant without marks and a mark that
    is no number.
    """

    sampled: Sequence[ItemScores]
    rules: ScoringRules

    @cached_property
    def rounds(self) -> Mapping[Entrant, Sequence[ItemScores]]:
        """Return the sheets of each model, by name."""
        rounds: dict[Entrant, list[ItemScores]] = defaultdict(list)
        for sheet in sorted(self.sampled, key=lambda sheet: (sheet.entrant, sheet.sample)):
            rounds[sheet.entrant].append(sheet)
        return rounds

    @cached_property
    def sheets(self) -> list[ItemScores]:
        """Return a sheet for each model: the mean mark of each item over the samples, and what became of the first
        answer that is not right."""
        for samples in self.rounds.values():
            _check(samples)
        return [_mean_sheet(samples) for samples in self.rounds.values()]

    @cached_property
    def _marks(self) -> FloatArray:
        """[K, items] marks, NaN where a model has none; items in the order of their ids."""
        place = {item: i for i, item in enumerate(sorted({item for sheet in self.sheets for item in sheet.item_ids}))}
        matrix = np.full((len(self.sheets), len(place)), np.nan)
        for row, sheet in zip(matrix, self.sheets, strict=True):
            row[[place[item] for item in sheet.item_ids]] = sheet.marks
        return matrix

    @cached_property
    def _posterior(self) -> tuple[FloatArray, GradeScores]:
        marks, span, names = self._marks, span_of(self.sheets), _strata(self.sheets)
        strata = large_strata(names, marks) if names else None
        draws = mark_draws(marks, seed=STREAM, span=span, strata=strata)
        return draws.paired, mark_scores(marks, draws.single, level=self.rules.level, span=span, strata=strata)

    @property
    def draws(self) -> FloatArray:
        """[T, K] draws of the mean marks on new items, to compare models by."""
        return self._posterior[0]

    @property
    def scores(self) -> GradeScores:
        """Return the mean marks and their intervals."""
        return self._posterior[1]


def _check(samples: Sequence[ItemScores]) -> None:
    """Raises DataError for a mark that a model cannot have in one of its samples."""
    name, numbers = f"model {samples[0].entrant.name!r}", {sheet.sample for sheet in samples}
    if len(numbers) < len(samples) or any(len(set(sheet.item_ids)) < len(sheet.item_ids) for sheet in samples):
        raise DataError(
            f"{name} has more than one mark for an item; give each model's answers in one source only, "
            "or the questions of each source ids of their own (column `id`)"
        )
    if any(not sheet.item_ids or not np.isfinite(sheet.marks).all() for sheet in samples):
        raise DataError(f"{name} has no marks or a mark that is no number; score the run again")


def _mean_sheet(samples: Sequence[ItemScores]) -> ItemScores:
    first = samples[0]
    if len(samples) == 1:
        return first
    marks: dict[str, list[float]] = defaultdict(list)
    strata = {item: name for sheet in samples for item, name in zip(sheet.item_ids, sheet.strata, strict=False)}
    ends: dict[str, tuple[str, str | None]] = {}
    for sheet in samples:
        failures = sheet.failures or [None] * len(sheet.item_ids)
        for item, mark, kind, failure in zip(sheet.item_ids, sheet.marks, sheet.kinds, failures, strict=True):
            marks[item].append(mark)
            if item not in ends or (ends[item][1] is None and failure is not None):
                ends[item] = kind, failure
    return replace(
        first,
        item_ids=list(marks),
        marks=[sum(given) / len(given) for given in marks.values()],
        kinds=[kind for kind, _ in ends.values()],
        failures=[failure for _, failure in ends.values()] if first.failures else (),
        strata=[strata[item] for item in marks] if strata else (),
    )


def _strata(sheets: Sequence[ItemScores]) -> list[str] | None:
    """Return the stratum of every item in the order of item ids; None where an item has no stratum."""
    if not all(sheet.strata and all(sheet.strata) for sheet in sheets):
        return None
    stratum_by_item = {item: name for sheet in sheets for item, name in zip(sheet.item_ids, sheet.strata, strict=True)}
    return [stratum_by_item[item] for item in sorted(stratum_by_item)]
