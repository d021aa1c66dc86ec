"""A model that is asked several times (``samples``): one row of a board for all of its answers.

With a jury every round (all models' answers with one sample number) is a board by itself, and a row is the mean of its
rounds: also the ends of an interval, which are those of one round then; more rounds never make it narrower than that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from layton_batch.files.table_columns import LEADERBOARD, NEW, SET, OverRounds
from layton_batch.scoring.board import rank_board, rank_marks, spread, with_failures
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.jury_board import JuryBoard
from layton_batch.scoring.leaderboard import flags_of, leaderboard
from layton_batch.scoring.rule_board import RuleBoard
from layton_batch.stats.ranks import score_ranks


def rank(boards: RuleBoard | Sequence[JuryBoard], samples: Mapping[str, int]) -> pl.DataFrame:
    """Rank a board graded by rule, or a jury's, of which there is one for each round. ``samples``: number of each
    model's own rounds."""
    if isinstance(boards, RuleBoard):
        return rank_marks(boards)
    return mean_of_rounds([rank_board(board) for board in boards], samples)


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
    return with_failures(leaderboard(rows))


_Row = dict[str, Any]


def _mean_row(rounds: Sequence[_Row], samples: int) -> _Row:
    """``rounds``: in their order; a model with fewer samples than others is in some of them again."""
    own = rounds[:samples]
    scores = [row["score"] for row in own if row["score"] is not None]
    flags = dict.fromkeys(flag for row in own for flag in flags_of(row["flags"]))
    combined = {name: _combined(column.over_rounds, name, rounds, own) for name, column in LEADERBOARD.items()}
    return combined | {
        "flags": ", ".join(flags),
        "failures": None,
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
