"""How the requests to each judge ended: one whose replies cannot be read has no say, and that must be seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.errors import DamagedTableError
from layton_batch.states import VerdictKind
from layton_batch.text import one_line, plural

if TYPE_CHECKING:
    import polars as pl  # only where there are verdicts: the rest of `status` does without

_WORDS = {
    "unreadable": "not readable",
    "cut": "cut by the output limit",
    "refused": "refused",
    "missing": "without an answer",
}


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """Verdicts that one judge was asked for in a run, by how they ended (``VerdictKind``)."""

    judge: str
    provider: str
    readable: int
    unreadable: int
    cut: int
    refused: int
    missing: int

    @property
    def asked(self) -> int:
        return self.readable + self.lacking

    @property
    def lacking(self) -> int:
        return self.unreadable + self.cut + self.refused + self.missing


def count_verdicts(folder: Path) -> list[VerdictCounts]:
    """Count the verdicts in a run's tables by judge. Raises DamagedTableError for a table that cannot be read."""
    import polars as pl

    from layton_batch.files import tables

    verdicts = tables.read(folder, "verdicts", ("judge", "judge_provider", "kind"))
    kinds = {str(kind): (pl.col("kind") == str(kind)).sum() for kind in VerdictKind}
    counted = verdicts.group_by("judge", provider="judge_provider").agg(**kinds).sort("judge", "provider")
    return [VerdictCounts(**row) for row in counted.iter_rows(named=True)]


def known_counts(folder: Path) -> list[VerdictCounts]:
    """Count like :func:`count_verdicts`; nothing where there are no verdicts, or their tables are damaged."""
    with suppress(DamagedTableError):
        return count_verdicts(folder) if (folder / "verdicts").is_dir() else []
    return []


def lacking_told(counts: Iterable[VerdictCounts]) -> Iterator[str]:
    """Yield a sentence for each judge some of whose verdicts are lacking."""
    for judge in counts:
        if judge.lacking:
            parts = [f"{count:,} {words}" for name, words in _WORDS.items() if (count := getattr(judge, name))]
            yield (
                f"judge {one_line(judge.judge)} ({judge.provider}): {judge.lacking:,} of "
                f"{plural(judge.asked, 'verdict')} count for nothing: {', '.join(parts)}"
            )


def with_verdict_counts(board: pl.DataFrame, counts: pl.DataFrame) -> pl.DataFrame:
    """The board with how many verdicts each row should rest on, and how many of them are missing.

    ``counts``: as :func:`lacking_by_entrant` makes them.
    """
    import polars as pl

    from layton_batch.scoring.leaderboard import FEW_VERDICTS, with_flag

    board = board.update(counts, on=["model", "provider", "n_hints"])
    return with_flag(board, FEW_VERDICTS, 2 * pl.col("n_verdicts_missing") > pl.col("n_verdicts"))


def lacking_by_entrant(parts: Sequence[tuple[dict[str, object], Path]]) -> pl.DataFrame:
    """Count verdicts, and those that are lacking, over table parts that each hold one judge's verdicts on one entrant.

    ``parts``: the columns that name the entrant, and the path. Returns those columns, ``n_verdicts`` and
    ``n_verdicts_missing``.
    """
    import polars as pl

    from layton_batch.files import tables

    rows = []
    for entrant, path in parts:
        kinds = tables.read_part(path, columns=["kind"])["kind"]
        lacking = int((kinds != str(VerdictKind.READABLE)).sum())
        rows.append({**entrant, "n_verdicts": kinds.len(), "n_verdicts_missing": lacking})
    names, counts = ("model", "provider", "n_hints"), ("n_verdicts", "n_verdicts_missing")
    schema = {**dict.fromkeys(names[:2], pl.String), **dict.fromkeys((names[2], *counts), pl.Int64)}
    return pl.DataFrame(rows, schema=schema).group_by(names).agg(pl.col(counts).sum())
