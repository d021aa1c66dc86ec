"""What earlier boards of a run said, for its page: the latest first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layton_batch.clock import utc
from layton_batch.scoring.history import BoardSnapshot, changes
from layton_batch.site.pages import short_line
from layton_batch.text import number_text

MOST = 60
"""Boards that the page tells of; all of them stay in the run's folder."""
_MOST_CHANGES = 40


@dataclass(frozen=True, slots=True)
class BoardChange:
    """One board. ``changes``: sentences on what differs from the one before it; none for the first."""

    date: str
    models: int
    leader: str
    score: str
    changes: tuple[str, ...]


def show_history(snapshots: Sequence[BoardSnapshot]) -> list[BoardChange]:
    """The last boards, the latest first."""
    pairs = list(zip([None, *snapshots], snapshots, strict=False))
    return [_refresh(before, after) for before, after in reversed(pairs[-MOST:])]


def _refresh(before: BoardSnapshot | None, after: BoardSnapshot) -> BoardChange:
    sentences = changes(before, after) if before else []
    leader, score = next(((name, row["score"]) for name, row in after.lines() if row["rank"] == 1), ("", None))
    return BoardChange(
        date=f"{utc(after.at):%Y-%m-%d %H:%M} UTC",
        models=after.board.height,
        leader=short_line(leader),
        score=number_text(score),
        changes=tuple(short_line(sentence, 300) for sentence in sentences[:_MOST_CHANGES]),
    )
