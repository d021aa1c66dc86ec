"""Outcomes of requests by judge: a judge whose replies cannot be read has no say, and that must be seen."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from layton_batch.errors import DamagedTableError
from layton_batch.states import VerdictKind
from layton_batch.text import one_line, plural

_WORDS = {
    "unreadable": "not readable",
    "cut": "cut by the output limit",
    "refused": "refused",
    "missing": "without an answer",
}


@dataclass(frozen=True, slots=True)
class VerdictCounts:
    """Verdicts that one judge was asked for in a run, by how they ended (``VerdictKind``).

    ``reason``: the most frequent note on a verdict that cannot be read, such as the provider's words.
    """

    judge: str
    provider: str
    readable: int
    unreadable: int
    cut: int
    refused: int
    missing: int
    reason: str | None = None

    @property
    def asked(self) -> int:
        return self.readable + self.lacking

    @property
    def lacking(self) -> int:
        return self.unreadable + self.cut + self.refused + self.missing

    def document(self) -> dict[str, object]:
        """Return the form in JSON documents."""
        return {"asked": self.asked, **asdict(self)}


def count_verdicts(folder: Path) -> list[VerdictCounts]:
    """Count the verdicts in a run's tables by judge, also those on labelled answers of the gold set.

    Raises DamagedTableError for a table that cannot be read.
    """
    import polars as pl  # only where there are verdicts: the rest of `status` does without

    from layton_batch.files import tables

    columns = ("judge", "judge_provider", "kind", "note")
    verdicts = pl.concat([tables.read(folder, table, columns) for table in _TABLES])
    kind = pl.col("kind")
    kinds = {str(name): (kind == str(name)).sum() for name in VerdictKind}
    has_reason = ~kind.is_in([str(VerdictKind.READABLE), str(VerdictKind.CUT)])
    reason = pl.col("note").filter(has_reason).drop_nulls().mode().sort().first()
    counted = verdicts.group_by("judge", provider="judge_provider").agg(**kinds, reason=reason)
    return [VerdictCounts(**row) for row in counted.sort("judge", "provider").iter_rows(named=True)]


_TABLES = ("verdicts", "rejudged")


def known_counts(folder: Path) -> list[VerdictCounts]:
    """Count like :func:`count_verdicts`; nothing where there are no verdicts, or their tables are damaged."""
    with suppress(DamagedTableError):
        return count_verdicts(folder) if any((folder / table).is_dir() for table in _TABLES) else []
    return []


def lacking_told(counts: Iterable[VerdictCounts]) -> Iterator[str]:
    """Yield a sentence for each judge some of whose verdicts are lacking."""
    for judge in counts:
        if judge.lacking:
            parts = [f"{count:,} {words}" for name, words in _WORDS.items() if (count := getattr(judge, name))]
            reason = f' (such as "{one_line(judge.reason)}")' if judge.reason else ""
            yield (
                f"judge {one_line(judge.judge)} ({judge.provider}): {judge.lacking:,} of "
                f"{plural(judge.asked, 'verdict')} count for nothing: {', '.join(parts)}{reason}"
            )
