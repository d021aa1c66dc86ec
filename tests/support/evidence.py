"""Votes, labels and verdicts one by one, as tests make them up, and the frames that the program takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace

import polars as pl

from layton_batch.files.table_columns import ESTIMATE
from layton_batch.scoring.evidence import JUDGED, LABELS, MARKS, VOTES, Entrant
from layton_batch.scoring.leaderboard import flags_of


@dataclass(frozen=True, slots=True)
class Ballot:
    """A row of the frame of votes."""

    entrant: Entrant
    item_id: str
    yes: int
    total: int
    content: int = 0
    kind: str = "answered"
    judges: int | None = None


@dataclass(frozen=True, slots=True)
class Label:
    """A row of the frame of labels."""

    entrant: Entrant
    item_id: str
    yes: int
    total: int
    correct: bool
    content: int = 0


@dataclass(frozen=True, slots=True)
class Judged:
    """A row of the frame of verdicts; ``verdicts`` and ``recorded`` by judge."""

    entrant: Entrant
    family: str
    item_id: str
    verdicts: Mapping[str, bool]
    human: bool | None
    content: int = 0
    recorded: Mapping[str, bool] = field(default_factory=dict)


def votes_frame(ballots: Sequence[Ballot]) -> pl.DataFrame:
    return pl.DataFrame([_row(ballot) for ballot in ballots], schema=VOTES)


def labels_frame(labels: Sequence[Label]) -> pl.DataFrame:
    return pl.DataFrame([_row(label) for label in labels], schema=LABELS)


def frames(ballots: Sequence[Ballot], labels: Sequence[Label] = ()) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The two frames of a board."""
    return votes_frame(ballots), labels_frame(labels)


def marks_frame(
    model: str,
    marks: Sequence[float | None],
    *,
    kinds: Sequence[str] = (),
    failures: Sequence[str] = (),
    strata: Sequence[str] = (),
    sample: int = 1,
) -> pl.DataFrame:
    """A model's marks by a rule, of the items i0, i1, …"""
    count = len(marks)
    columns = {
        "model": [model] * count, "provider": ["p"] * count, "n_hints": [0] * count, "sample": [sample] * count,
        "item_id": [f"i{number}" for number in range(count)], "mark": list(marks),
        "kind": list(kinds or ["answered"] * count), "failure": list(failures or [None] * count),
        "stratum": list(strata or [""] * count),
    }  # fmt: skip
    return pl.DataFrame(columns, schema=MARKS)


def judged_frame(judged: Sequence[Judged]) -> pl.DataFrame:
    rows = []
    for one in judged:
        names = sorted({*one.verdicts, *one.recorded})
        given = [
            {"judge": name, "verdict": one.verdicts.get(name), "recorded": one.recorded.get(name)} for name in names
        ]
        rows.append({**_row(one), "verdicts": given})
    return pl.DataFrame(rows, schema=JUDGED)


def _row(one: Ballot | Label | Judged) -> dict[str, object]:
    who = one.entrant
    named = {"model": who.model, "provider": who.provider, "n_hints": who.n_hints}
    return named | {name: getattr(one, name) for name in one.__dataclass_fields__ if name != "entrant"}


UNKNOWN = SimpleNamespace(**dict.fromkeys(ESTIMATE))
"""What is known of a target of which nothing is."""


class Rows(list[SimpleNamespace]):
    """A leaderboard's rows, one by one, with ``new`` and ``this_set``; ``frame``: the leaderboard."""

    def __init__(self, frame: pl.DataFrame) -> None:
        super().__init__(map(_shown, frame.iter_rows(named=True)))
        self.frame = frame


def _shown(row: dict[str, object]) -> SimpleNamespace:
    new, this_set = (SimpleNamespace(**{name: row[prefix + name] for name in ESTIMATE}) for prefix in ("new_", "set_"))
    failures = {failure["kind"]: failure["count"] for failure in row["failures"]}  # type: ignore[attr-defined]
    more = {"new": new, "this_set": this_set, "flags": tuple(flags_of(row["flags"])), "failures": failures}
    return SimpleNamespace(**row | more)


def changed(row: SimpleNamespace, **changes: object) -> SimpleNamespace:
    return SimpleNamespace(**vars(row) | changes)
