"""Votes of a jury whose third judge is asked only where two differ."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from hashlib import sha256

import polars as pl


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
