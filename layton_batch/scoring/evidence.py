"""What is known of predictions: votes, labels, verdicts and marks, by who said what on which item. It knows nothing of
runs or files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256

import numpy as np

from layton_batch.errors import DataError


@dataclass(frozen=True, slots=True, order=True)
class Entrant:
    """Who is ranked: a model at a hint level. Two hint levels of one model are two entrants."""

    model: str
    provider: str
    n_hints: int


@dataclass(frozen=True, slots=True)
class Ballot:
    """A prediction and its votes: ``yes`` of ``total`` verdicts; ``known_zero``: wrong without a jury.

    ``content`` identifies what was said, so that a label can be known to belong to exactly this prediction.
    """

    entrant: Entrant
    item_id: str
    yes: int
    total: int
    content: int = 0
    known_zero: bool = False
    kind: str = "answered"


@dataclass(frozen=True, slots=True)
class Label:
    """A person's word on a prediction (perhaps of an earlier run), with the votes the jury gave it.

    ``propensity``: the chance with which ``label-plan`` picked it, where it did and says so.
    """

    entrant: Entrant
    item_id: str
    yes: int
    total: int
    correct: bool
    content: int = 0
    propensity: float | None = None


@dataclass(frozen=True, slots=True)
class Judged:
    """A prediction with every judge's verdict on one metric, by judge, and a person's word where there is one.

    ``family``: who made the model that answered, where that is known, else its provider. ``recorded``: the verdicts
    that the gold set has of the same answer, where ``verdicts`` are later ones.
    """

    entrant: Entrant
    family: str
    item_id: str
    verdicts: Mapping[str, bool]
    human: bool | None
    content: int = 0
    recorded: Mapping[str, bool] = field(default_factory=dict)


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
    """What makes two predictions the same one: 64 bits of a SHA-256, the same in every process, so that a table can
    keep it."""
    answer_length = -1 if answer is None else len(answer)
    justification_length = -1 if justification is None else len(justification)
    text = f"{answer_length}:{justification_length}:{answer or ''}{justification or ''}"
    return int.from_bytes(sha256(text.encode("utf-8", "surrogatepass")).digest()[:8], "little", signed=True)


def mark_matrix(sheets: Sequence[ItemScores]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """[sheets, items] marks, NaN where an entrant has none; items in the order of their ids.

    Raises DataError for an entrant or item that occurs twice, an entrant without marks and a mark that is no number.
    """
    place = {item: i for i, item in enumerate(sorted({item for sheet in sheets for item in sheet.item_ids}))}
    matrix = np.full((len(sheets), len(place)), np.nan)
    seen: set[Entrant] = set()
    for row, sheet in zip(matrix, sheets, strict=True):
        name = f"model {sheet.entrant.model!r} (hint level {sheet.entrant.n_hints})"
        if sheet.entrant in seen or len(set(sheet.item_ids)) < len(sheet.item_ids):
            raise DataError(f"{name} has more than one mark for an item; give each model's answers in one source only")
        if not sheet.item_ids or not np.isfinite(sheet.marks).all():
            raise DataError(f"{name} has no marks or a mark that is no number; score the run again")
        seen.add(sheet.entrant)
        row[[place[item] for item in sheet.item_ids]] = sheet.marks
    return matrix


def strata_of(sheets: Sequence[ItemScores]) -> list[str] | None:
    """The stratum of every item, in the order of their ids; None where one has none."""
    if not all(sheet.strata and all(sheet.strata) for sheet in sheets):
        return None
    found = {item: name for sheet in sheets for item, name in zip(sheet.item_ids, sheet.strata, strict=True)}
    return [found[item] for item in sorted(found)]


def span_of(sheets: Sequence[ItemScores]) -> tuple[float, float]:
    """The least and the greatest mark that the rule of these sheets can give."""
    return min(sheet.span[0] for sheet in sheets), max(sheet.span[1] for sheet in sheets)
