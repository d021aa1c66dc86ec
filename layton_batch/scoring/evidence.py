"""The frames that a jury's board is made of: votes, labels and verdicts. It knows nothing of runs or files."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import polars as pl


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
MARKS: Mapping[str, pl.DataType] = {
    **{name: VOTES[name] for name in ENTRANT},
    "sample": pl.Int64(),
    "item_id": pl.String(),
    "mark": pl.Float64(),
    **dict.fromkeys(("kind", "failure", "stratum"), pl.String()),
}
"""The frame of marks by a rule: a row an answer. ``mark``: null outside the score; ``kind``: what became of the reply;
``failure``: the rule's words for what is not right, empty where nothing is, null where the rule has no words;
``stratum``: the kind of the item, of which the benchmark has as many as it is meant to have, else empty."""
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


def rounds(rows: pl.DataFrame) -> tuple[list[pl.DataFrame], dict[str, int]]:
    """Return the rows of every round, by their column ``sample``, and how often each model was asked.

    A model with fewer samples than others begins again with its first.
    """
    sample = pl.col("sample")
    numbered = rows.with_columns(sample.rank("dense").over(ENTRANT), asked=sample.n_unique().over(ENTRANT))
    most: int = numbered["asked"].max() or 1  # type: ignore[assignment]
    frames = [numbered.filter(sample == 1 + number % pl.col("asked")) for number in range(most)]
    return frames, dict(numbered.select("model", "asked").unique(maintain_order=True).iter_rows())


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


# ---- a jury whose third judge is asked only where two differ ---------------------------------------------------------


def third_judge(item_id: str) -> int:
    """Return who of a jury of three, in the order of the names, is asked about an item only if the other two differ."""
    return sha256(item_id.encode("utf-8", "surrogatepass")).digest()[0] % 3


def count_by_answer(
    verdicts: pl.DataFrame, keys: Sequence[str], fields: Collection[str], *, in_turn: bool
) -> pl.DataFrame:
    """Count the verdicts of each answer: `yes`, `total` and `asked`, each followed by the name of the field.

    ``keys``: the columns that name an answer, among them ``item_id``. ``in_turn``: the first two verdicts count alone
    if they agree, also where the third judge was asked, as in recorded juries or because another field differs.
    """
    if not in_turn:
        some = pl.col(*fields)
        return verdicts.group_by(keys).agg(
            some.sum().name.prefix("yes "), some.count().name.prefix("total "), some.len().name.prefix("asked ")
        )
    counts: list[pl.Expr] = []
    for field in fields:
        first = pl.col(field).filter(~pl.col("is_third"))
        is_enough = (first.count() == 2) & (first.sum() != 1)
        counted = pl.col(field).filter(~(pl.col("is_third") & is_enough))
        counts += [counted.sum().alias(f"yes {field}"), counted.count().alias(f"total {field}")]
        counts += [counted.len().alias(f"asked {field}")]
    return _with_third(verdicts, keys).group_by(keys).agg(counts)


def _with_third(verdicts: pl.DataFrame, keys: Sequence[str]) -> pl.DataFrame:
    """Say of each verdict whether its judge is third on the item, of the judges of the model's answers."""
    model = [key for key in keys if key not in ("item_id", "content")]
    judges = verdicts.select(*model, "judge").unique()
    number = pl.col("judge").rank("dense").over(model) if model else pl.col("judge").rank("dense")
    judges = judges.with_columns(number=number - 1)
    items = verdicts["item_id"].unique()
    third = pl.DataFrame({"item_id": items, "third": [third_judge(item_id) for item_id in items.to_list()]})
    numbered = verdicts.join(judges, on=[*model, "judge"], how="left", maintain_order="left")
    numbered = numbered.join(third, on="item_id", how="left", maintain_order="left")
    return numbered.with_columns(is_third=pl.col("number") == pl.col("third")).drop("number", "third")
