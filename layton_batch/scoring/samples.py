"""A model that is asked several times (``samples``): one row of a board for all of its answers.

The samples of an item are one cluster. Graded by rule, an item's mark is the mean of its samples' marks, and items are
weighed as wholes, so that an interval does not shrink as if every answer were an item of its own. With a jury every
round (all models' answers with one sample number) is a board by itself, and a row is the mean of its rounds: also the
ends of an interval, which are those of one round then; more rounds never make it narrower than that.
"""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from layton_batch.scoring.board import BoardRow, Estimate, in_rank_order, rank_marks
from layton_batch.scoring.evidence import Entrant, ItemScores
from layton_batch.scoring.rules import Rules
from layton_batch.stats.ranks import score_ranks

_COUNTS = ("n_unparsed", "n_missing", "n_unjudged", "n_abstained")


def mean_sheets(sheets: Sequence[ItemScores]) -> list[ItemScores]:
    """One sheet an entrant: the mean mark of each item over the samples, and what became of the first answer that is
    not right."""
    return [_mean_sheet(rounds) for rounds in _by_entrant(sheets).values()]


def rank_sampled(sheets: Sequence[ItemScores], rules: Rules) -> list[BoardRow]:
    """As ``rank_marks``; several sheets of an entrant are its rounds, and failures are counted in all of them."""
    return with_rounds(rank_marks(mean_sheets(sheets), rules), sheets)


def with_rounds(rows: Sequence[BoardRow], sheets: Sequence[ItemScores]) -> list[BoardRow]:
    """The rows of mean sheets, with what ``sheets``, one a sample, say of the rounds."""
    rounds = _by_entrant(sheets)
    return [_counted(row, rounds[Entrant(row.model, row.provider, row.n_hints)]) for row in rows]


def mean_of_rounds(boards: Sequence[Sequence[BoardRow]], samples: Mapping[str, int]) -> list[BoardRow]:
    """One board of the boards of all rounds; ``samples``: by model how many of them are its own, the first ones."""
    if len(boards) == 1:
        return list(boards[0])
    found: dict[Entrant, list[BoardRow]] = defaultdict(list)
    for board in boards:
        for row in board:
            found[Entrant(row.model, row.provider, row.n_hints)].append(row)
    rows = [_mean_row(rounds, samples.get(who.model, 1)) for who, rounds in found.items()]
    new, here = _placed([row.new for row in rows]), _placed([row.this_set for row in rows])
    return in_rank_order([replace(row, new=new[i], this_set=here[i]) for i, row in enumerate(rows)])


def _by_entrant(sheets: Sequence[ItemScores]) -> dict[Entrant, list[ItemScores]]:
    found: dict[Entrant, list[ItemScores]] = defaultdict(list)
    for sheet in sheets:
        found[sheet.entrant].append(sheet)
    return found


def _mean_sheet(rounds: Sequence[ItemScores]) -> ItemScores:
    first = rounds[0]
    if len(rounds) == 1:
        return first
    marks: dict[str, list[float]] = defaultdict(list)
    strata = {item: name for sheet in rounds for item, name in zip(sheet.item_ids, sheet.strata, strict=False)}
    ends: dict[str, tuple[str, str | None]] = {}
    for sheet in rounds:
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


def _counted(row: BoardRow, rounds: Sequence[ItemScores]) -> BoardRow:
    """The row with its rounds; its kinds and failures counted over all answers."""
    if len(rounds) < 2:
        return row
    kinds = [kind for sheet in rounds for kind in sheet.kinds]
    failures = [failure for sheet in rounds for failure in sheet.failures if failure is not None]
    means = [100 * sum(sheet.marks) / len(sheet.marks) for sheet in rounds]
    return replace(
        row,
        n_unparsed=kinds.count("unparsed"),
        n_missing=kinds.count("missing"),
        n_abstained=kinds.count("abstained"),
        failures=Counter(failures) if rounds[0].failures else row.failures,
        rounds=len(rounds),
        round_sd=spread(means),
    )


def spread(scores: Sequence[float]) -> float:
    """The sample standard deviation (n - 1) of the rounds' scores, as printed."""
    return round(statistics.stdev(scores), 3)


def _mean_row(rounds: Sequence[BoardRow], samples: int) -> BoardRow:
    """``rounds``: in their order; a model with fewer samples than others is in some of them again."""
    own = rounds[:samples]
    scores = [row.score for row in own if row.score is not None]
    failures = [(kind, count) for row in own for kind, count in row.failures.items()]
    changes: dict[str, Any] = {name: sum(getattr(row, name) for row in own) for name in _COUNTS}
    return replace(
        rounds[0],
        **changes,
        new=_mean_estimate([row.new for row in own], [row.new for row in rounds]),
        this_set=_mean_estimate([row.this_set for row in own], [row.this_set for row in rounds]),
        flags=tuple(dict.fromkeys(flag for row in own for flag in row.flags)),
        own_labels=sum(row.own_labels for row in own),
        failures={kind: sum(count for name, count in failures if name == kind) for kind, _ in failures},
        rounds=samples if samples > 1 else None,
        round_sd=spread(scores) if len(scores) > 1 else None,
    )


def _mean_estimate(own: Sequence[Estimate], rounds: Sequence[Estimate]) -> Estimate:
    """The mean of its own rounds, still without a rank; its rank range reaches as far as that of any round."""
    return Estimate(
        rank_best=min((estimate.rank_best for estimate in rounds if estimate.rank_best is not None), default=None),
        rank_worst=max((estimate.rank_worst for estimate in rounds if estimate.rank_worst is not None), default=None),
        score=_mean([estimate.score for estimate in own]),
        lower=_mean([estimate.lower for estimate in own]),
        upper=_mean([estimate.upper for estimate in own]),
        half_width=_mean([estimate.half_width for estimate in own]),
    )


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return round(sum(known) / len(known), 1) if len(known) == len(values) else None


def _placed(estimates: Sequence[Estimate]) -> list[Estimate]:
    """Each with its rank, which is within its range."""
    scores = [estimate.score for estimate in estimates if estimate.score is not None]
    ranks = iter(score_ranks(scores).tolist() if scores else [])
    return [estimate if estimate.score is None else _at(estimate, next(ranks)) for estimate in estimates]


def _at(estimate: Estimate, rank: int) -> Estimate:
    if estimate.rank_best is None or estimate.rank_worst is None:
        return replace(estimate, rank=rank)
    return replace(
        estimate, rank=rank, rank_best=min(rank, estimate.rank_best), rank_worst=max(rank, estimate.rank_worst)
    )
