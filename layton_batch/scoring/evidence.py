"""The frames that a board is made of, votes, labels and verdicts, and a rule's marks. It knows nothing of runs or
files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import numpy as np
import polars as pl

from layton_batch.errors import DataError


@dataclass(frozen=True, slots=True, order=True)
class Entrant:
    """Ranked participant: a model at a hint level. Two hint levels of one model are two entrants."""

    model: str
    provider: str
    n_hints: int

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Entrant:
        """Return the entrant of a row with the columns ``ENTRANT``."""
        return cls(row["model"], row["provider"], row["n_hints"])

    @property
    def name(self) -> str:
        """Return the model's name, and its hint level where it was given hints: ``model@2``."""
        return self.model + (f"@{self.n_hints}" if self.n_hints else "")


ENTRANT = ("model", "provider", "n_hints")
PREDICTION = (*ENTRANT, "item_id", "content")
"""Columns that name who is ranked, and an answer. ``content`` identifies what was said (``content_key``), so that a
label can be known to belong to exactly this answer."""
_COUNTED: Mapping[str, pl.DataType] = {
    **dict.fromkeys(("model", "provider"), pl.String()),
    "n_hints": pl.Int64(),
    "item_id": pl.String(),
    **dict.fromkeys(("content", "yes", "total"), pl.Int64()),
}
VOTES: Mapping[str, pl.DataType] = {**_COUNTED, "judges": pl.Int64(), "kind": pl.String()}
"""The frame of votes: a row an answer, with ``yes`` of ``total`` verdicts. ``judges``: judges that were asked, null if
unknown. ``kind``: what became of the reply; all but ``answered`` is wrong without a jury."""
LABELS: Mapping[str, pl.DataType] = {**_COUNTED, "correct": pl.Boolean()}
"""The frame of labels: a row what people say of an answer (perhaps of an earlier run), with the votes that the jury
gave it."""
JUDGED: Mapping[str, pl.DataType] = {
    **{name: VOTES[name] for name in PREDICTION},
    "family": pl.String(),
    "human": pl.Boolean(),
    "verdicts": pl.List(pl.Struct({"judge": pl.String(), "verdict": pl.Boolean(), "recorded": pl.Boolean()})),
}
"""The frame of verdicts on one metric: a row an answer. ``family``: who made the model that answered, where that is
known, else its provider; ``human``: people's word; ``recorded``: the verdict that the gold set has of the same answer,
where ``verdict`` is a later one."""
ANSWERED = "answered"
NEEDS_NO_JURY = pl.col("kind") != ANSWERED
HAS_OUTCOME = (pl.col("total") > 0) | NEEDS_NO_JURY
"""True for a prediction that a judge voted on, or that needs no jury."""


def entrants_of(votes: pl.DataFrame) -> list[Entrant]:
    """Everybody who has an answer, in the order of the names."""
    return [Entrant(*names) for names in votes.select(ENTRANT).unique().sort(ENTRANT).iter_rows()]


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


def content_key(answer: str | None, justification: str | None) -> int:
    """Hash a prediction's text: 64 bits of a SHA-256, equal in every process, so that a table can store it."""
    answer_length = -1 if answer is None else len(answer)
    justification_length = -1 if justification is None else len(justification)
    text = f"{answer_length}:{justification_length}:{answer or ''}{justification or ''}"
    return int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little", signed=True)


def with_contents(answers: pl.DataFrame) -> pl.DataFrame:
    """The answers with ``content`` in the place of their texts."""
    contents = map(content_key, answers["answer"], answers["justification"])
    return answers.drop("answer", "justification").with_columns(content=pl.Series(list(contents), dtype=pl.Int64))


def mark_matrix(sheets: Sequence[ItemScores]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """[sheets, items] marks, NaN where an entrant has none; items in the order of their ids.

    Raises DataError for an entrant or item that occurs twice, an entrant without marks and a mark that is no number.
    """
    place = {item: i for i, item in enumerate(sorted({item for sheet in sheets for item in sheet.item_ids}))}
    matrix = np.full((len(sheets), len(place)), np.nan)
    seen: set[Entrant] = set()
    for row, sheet in zip(matrix, sheets, strict=True):
        name = f"model {sheet.entrant.name!r}"
        if sheet.entrant in seen or len(set(sheet.item_ids)) < len(sheet.item_ids):
            raise DataError(
                f"{name} has more than one mark for an item; give each model's answers in one source only, "
                "or the questions of each source ids of their own (column `id`)"
            )
        if not sheet.item_ids or not np.isfinite(sheet.marks).all():
            raise DataError(f"{name} has no marks or a mark that is no number; score the run again")
        seen.add(sheet.entrant)
        row[[place[item] for item in sheet.item_ids]] = sheet.marks
    return matrix


def strata_of(sheets: Sequence[ItemScores]) -> list[str] | None:
    """Return the stratum of every item in the order of item ids; None where an item has no stratum."""
    if not all(sheet.strata and all(sheet.strata) for sheet in sheets):
        return None
    stratum_by_item = {item: name for sheet in sheets for item, name in zip(sheet.item_ids, sheet.strata, strict=True)}
    return [stratum_by_item[item] for item in sorted(stratum_by_item)]


def span_of(sheets: Sequence[ItemScores]) -> tuple[float, float]:
    """The least and the greatest mark that the rule of these sheets can give."""
    return min(sheet.span[0] for sheet in sheets), max(sheet.span[1] for sheet in sheets)
