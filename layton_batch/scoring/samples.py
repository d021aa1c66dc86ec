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

import polars as pl

from layton_batch.files.leaderboard_columns import LEADERBOARD, NEW, SET, OverRounds
from layton_batch.scoring.board import failures_of, rank_marks
from layton_batch.scoring.evidence import Entrant, ItemScores
from layton_batch.scoring.leaderboard import flags_of, leaderboard
from layton_batch.scoring.rules import ScoringRules
from layton_batch.stats.ranks import score_ranks


def mean_sheets(sheets: Sequence[ItemScores]) -> list[ItemScores]:
    """One sheet an entrant: the mean mark of each item over the samples, and what became of the first answer that is
    not right."""
    return [_mean_sheet(rounds) for rounds in _by_entrant(sheets).values()]


def rank_sampled(sheets: Sequence[ItemScores], rules: ScoringRules) -> pl.DataFrame:
    """Rank as ``rank_marks`` does. Several sheets of an entrant are its rounds; failures of all rounds count."""
    return with_rounds(rank_marks(mean_sheets(sheets), rules), sheets)


def with_rounds(board: pl.DataFrame, sheets: Sequence[ItemScores]) -> pl.DataFrame:
    """The board of mean sheets, with what ``sheets``, one a sample, say of the rounds."""
    rounds = _by_entrant(sheets)
    rows = [row | _counted(rounds[Entrant.of(row)]) for row in board.iter_rows(named=True)]
    return leaderboard(rows)


def mean_of_rounds(boards: Sequence[pl.DataFrame], samples: Mapping[str, int]) -> pl.DataFrame:
    """Average the boards of all rounds. ``samples``: number of a model's own rounds, which are the first."""
    if len(boards) == 1:
        return boards[0]
    rows_by_entrant: dict[Entrant, list[_Row]] = defaultdict(list)
    for row in (row for board in boards for row in board.iter_rows(named=True)):
        rows_by_entrant[Entrant.of(row)].append(row)
    rows = [_mean_row(rounds, samples.get(entrant.model, 1)) for entrant, rounds in rows_by_entrant.items()]
    for prefix in (NEW, SET):
        _rank_again(rows, prefix)
    return leaderboard(rows)


_Row = dict[str, Any]


def _by_entrant(sheets: Sequence[ItemScores]) -> dict[Entrant, list[ItemScores]]:
    sheets_by_entrant: dict[Entrant, list[ItemScores]] = defaultdict(list)
    for sheet in sheets:
        sheets_by_entrant[sheet.entrant].append(sheet)
    return sheets_by_entrant


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


def _counted(rounds: Sequence[ItemScores]) -> dict[str, object]:
    """Return the columns about an entrant's rounds. Kinds and failures are counted over all answers."""
    if len(rounds) < 2:
        return {}
    kinds = [kind for sheet in rounds for kind in sheet.kinds]
    failures = Counter(failure for sheet in rounds for failure in sheet.failures if failure is not None)
    means = [100 * sum(sheet.marks) / len(sheet.marks) for sheet in rounds]
    counts: dict[str, object] = {f"n_{kind}": kinds.count(kind) for kind in ("unparsed", "missing", "abstained")}
    counts |= {"failures": failures_of(failures)} if rounds[0].failures else {}
    return counts | {"rounds": len(rounds), "round_sd": spread(means)}


def spread(scores: Sequence[float]) -> float:
    """The sample standard deviation (n - 1) of the rounds' scores, as printed."""
    return round(statistics.stdev(scores), 3)


def _mean_row(rounds: Sequence[_Row], samples: int) -> _Row:
    """``rounds``: in their order; a model with fewer samples than others is in some of them again."""
    own = rounds[:samples]
    scores = [row["score"] for row in own if row["score"] is not None]
    failures: Counter[str] = Counter()
    for failure in (failure for row in own for failure in row["failures"]):
        failures[failure["kind"]] += failure["count"]
    flags = dict.fromkeys(flag for row in own for flag in flags_of(row["flags"]))
    combined = {name: _combined(column.over_rounds, name, rounds, own) for name, column in LEADERBOARD.items()}
    return combined | {
        "flags": ", ".join(flags),
        "failures": failures_of(failures),
        "rounds": samples if samples > 1 else None,
        "round_sd": spread(scores) if len(scores) > 1 else None,
    }


def _combined(rule: OverRounds, name: str, rounds: Sequence[_Row], own: Sequence[_Row]) -> Any:
    present = [row[name] for row in rounds if row[name] is not None]
    match rule:
        case OverRounds.LEAST:
            return min(present, default=None)
        case OverRounds.MOST:
            return max(present, default=None)
        case OverRounds.SUM:
            return sum(row[name] for row in own)
        case OverRounds.MEAN:
            values = [row[name] for row in own]
            return None if None in values else round(sum(values) / len(values), 1)
    return rounds[0][name]


def _rank_again(rows: Sequence[_Row], prefix: str) -> None:
    """Give each row the rank of its mean, which is within its range."""
    for row, rank in zip(rows, score_ranks([row[prefix + "score"] for row in rows]).tolist(), strict=True):
        row[prefix + "rank"] = rank or None
        best, worst = row[prefix + "rank_best"], row[prefix + "rank_worst"]
        if rank and best is not None and worst is not None:
            row |= {prefix + "rank_best": min(rank, best), prefix + "rank_worst": max(rank, worst)}
