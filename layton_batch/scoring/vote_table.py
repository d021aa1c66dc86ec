"""Votes in tables: a row a prediction, as a run keeps them by job (table ``scores``)."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import polars as pl

from layton_batch.files import tables
from layton_batch.scoring.ballots import Ballots
from layton_batch.scoring.evidence import Entrant, content_key
from layton_batch.states import PredictionKind

_SAID = ("answer", "justification")
KINDS = tuple(map(str, PredictionKind))
_NEVER_JUDGED = tuple(kind for kind in KINDS if kind != PredictionKind.ANSWERED)


def with_contents(path: Path, columns: Sequence[str]) -> pl.DataFrame:
    """These columns of a part of the table ``predictions``, and ``content``: what was said, as a number. Some of the
    texts are in memory at a time. Raises DamagedTableError."""
    nothing = tables.frame("predictions", []).select(*columns, *_SAID)
    portions = itertools.chain([nothing], tables.read_portions(path, nothing.columns))
    return pl.concat(
        portion.drop(_SAID).with_columns(
            content=pl.Series(map(content_key, *(portion[name] for name in _SAID)), dtype=pl.Int64)
        )
        for portion in portions
    )


def kind_of() -> pl.Expr:
    """What became of the reply: the ``flag`` of what never came before the jury."""
    flag = pl.col("flag")
    kind = pl.when(flag.is_in(_NEVER_JUDGED)).then(flag).otherwise(pl.lit(str(PredictionKind.ANSWERED)))
    return kind.cast(pl.Enum(KINDS))


def counting(votes: str) -> pl.Expr:
    """A column of votes: none on what is wrong without a jury."""
    return pl.when(pl.col("flag").is_in(_NEVER_JUDGED)).then(0).otherwise(votes)


def ballots_of(entrants: Sequence[Entrant], votes: pl.DataFrame) -> Ballots:
    """Rows of ``scores`` on one metric as ballots; ``who``, a column more, is the entrant's number."""
    items = votes["item_id"].unique(maintain_order=True)
    coded = votes.select(
        item=pl.col("item_id").cast(pl.Enum(items)).to_physical(),
        kind=kind_of().to_physical(),
        yes=counting("yes"),
        total=counting("total"),
    )
    kinds = coded["kind"].to_numpy()
    return Ballots(
        entrants=entrants,
        items=items.to_list(),
        kinds=KINDS,
        who=votes["who"].to_numpy(),
        item=coded["item"].to_numpy().astype(np.int32),
        yes=coded["yes"].to_numpy(),
        total=coded["total"].to_numpy(),
        content=votes["content"].to_numpy(),
        known_zero=kinds != KINDS.index(PredictionKind.ANSWERED),
        kind=kinds,
    )
