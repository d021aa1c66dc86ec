"""Facts about each model on a board's page: maker, cost and length of an answer, failures; and the need of labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

import polars as pl

from layton_batch.files.leaderboard_columns import COUNTS
from layton_batch.files.run_folder import RunFolder
from layton_batch.makers import maker_name, model_colours
from layton_batch.scoring.label_plan import label_need_text
from layton_batch.site.pages import short_line
from layton_batch.site.run_tables import table
from layton_batch.text import NONE


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """Facts of one model. ``usd``, ``tokens``: per answer, None if unknown; ``tokens``: output with reasoning.

    ``maker``: its name, that of the provider where the maker is unknown; ``by``: the provider where that is another;
    ``colour``: the model's on all pages and charts of the site.
    """

    maker: str
    by: str
    colour: str
    usd: float | None
    tokens: float | None
    failures: int
    failed: str

    @property
    def usd_text(self) -> str:
        return NONE if self.usd is None else small_money(self.usd)

    @property
    def tokens_text(self) -> str:
        return NONE if self.tokens is None else f"{self.tokens:,.0f}"


def model_facts(
    folder: RunFolder, rows: Sequence[Mapping[str, object]], own_colours: Mapping[str, str]
) -> tuple[ModelFacts, ...]:
    """Return the facts of each row of the leaderboard, in its order. ``own_colours``: the manifest's, by maker."""
    makers, spent = _makers(folder), _spent(folder)
    names = {str(row["model"]): makers.get(str(row["model"])) or short_line(row["provider"]) for row in rows}
    colours = model_colours({model: maker_name(maker) for model, maker in names.items()}, own_colours)
    return tuple(_facts(row, names[str(row["model"])], colours, spent) for row in rows)


def _facts(
    row: Mapping[str, object], maker: str, colours: Mapping[str, str], spent: Mapping[str, tuple[float | None, float]]
) -> ModelFacts:
    counts = {words: value for words, name in COUNTS.items() if isinstance(value := row.get(name), int) and value}
    usd, tokens = spent.get(str(row["model"]), (None, None))
    provider = maker_name(short_line(row["provider"]))
    return ModelFacts(
        maker=maker_name(maker),
        by="" if maker_name(maker) == provider else provider,
        colour=colours[str(row["model"])],
        usd=usd,
        tokens=tokens,
        failures=sum(counts.values()),
        failed=", ".join(f"{count:,} {name}" for name, count in counts.items()),
    )


def small_money(usd: float) -> str:
    """Dollars with two digits that say something: one answer may cost a thousandth of a cent."""
    if usd >= 1:
        return f"${usd:,.2f}"
    digits = 2
    while digits < 8 and usd and round(usd, digits) < 10 ** (1 - digits):
        digits += 1
    return f"${usd:.{digits}f}"


def _makers(folder: RunFolder) -> dict[str, str]:
    named = table(folder, "predictions", ("model", "family")).unique(maintain_order=True).drop_nulls()
    return {model: short_line(family) for model, family in named.iter_rows()}


def _spent(folder: RunFolder) -> dict[str, tuple[float | None, float]]:
    """Return each model's dollars and output tokens per answer, without answers that another run paid for."""
    spent: dict[str, tuple[float | None, float]] = {}
    columns = ("model", "stage", "requests", "output_tokens", "cost_usd")
    for model, stage, requests, tokens, usd in table(folder, "cost", columns).iter_rows():
        if stage == "predict" and requests:
            spent[model] = (_per(usd, requests), (tokens or 0) / requests)
    return spent


def _per(usd: str | None, requests: int) -> float | None:
    try:
        amount = Decimal(str(usd))
    except InvalidOperation:
        return None
    return float(amount / requests) if amount.is_finite() else None


def label_need(folder: RunFolder, run: str) -> str:
    """Say what labels would do for the intervals, by the last ranking; empty where they would do nothing. ``run``: its
    name on the command line."""
    columns = ("labels", "half_width_now", "half_width_then")
    needs = table(folder, "label_need", columns).filter(pl.col("labels") > 0)
    if needs.is_empty():
        return ""
    labels, now, then = needs.select(columns).row(0)
    return label_need_text(labels, now, then, run)
