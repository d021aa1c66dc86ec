"""The bill of one batch, row by row: the tokens of every answer at the price of its day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, replace
from decimal import Decimal

import polars as pl

from layton_batch.costs.prices import PriceBook
from layton_batch.costs.rates import charger, units_text
from layton_batch.costs.report import UnknownCost, UsageRow
from layton_batch.costs.stated import Statement, Sums
from layton_batch.files import tables
from layton_batch.records import Batch, Charge, Job, Response, Snapshot, Usage
from layton_batch.runs.context import Run
from layton_batch.states import PERHAPS_BILLED, Lifecycle, RequestOutcome, Role
from layton_batch.text import decimal_text

WITHOUT_USAGE = "answered without usage"
"""Why nobody can tell what an answer cost, whatever its price."""
WITHOUT_PRICE = "answered without a price"
COST_UNKNOWN = "cost_untold"
"""The event of a batch that cost something nobody can tell."""

Bounds = Mapping[str, Decimal | None]
"""What each request can cost at most in USD, by custom_id; None: not known either."""


class Bill:
    """What the answers of one batch cost, added up. ``bounds`` are told of those whose cost is unknown."""

    def __init__(self, prices: PriceBook, job: Job, batch: Batch, bounds: Bounds) -> None:
        self._stated: Decimal | None = None
        self._untold: list[tuple[str, str, bool]] = []
        self._bounds = bounds
        self._price = prices.price(job.spec.provider, job.spec.model)
        self._units: dict[int, int] = {}
        self._read = self._written = 0
        self._same = {
            "role": str(job.role),
            "provider": job.spec.provider,
            "model": job.spec.name,
            "batch_id": batch.id,
            "attempt": batch.attempt,
        }

    @property
    def spent(self) -> Decimal:
        """The known costs."""
        sums = (Decimal(whole).scaleb(-decimals) for decimals, whole in self._units.items())
        return sum(sums, Decimal(0))

    def enter(self, responses: Iterable[Response]) -> pl.DataFrame:
        """The usage rows of those that are answers, entered into the bill; and the others, where they may have been
        billed all the same."""
        answers: list[Response] = []
        for one in responses:
            if one.outcome is RequestOutcome.SUCCEEDED:
                answers.append(one)
                if self._price is None or not one.usage.known:
                    self._enter(one.custom_id, WITHOUT_PRICE if one.usage.known else WITHOUT_USAGE, answered=True)
            elif one.error_class in PERHAPS_BILLED:
                self._enter(one.custom_id, str(one.error_class).replace("_", " "), answered=False)
        return self._charged(answers)

    def _charged(self, answers: Sequence[Response]) -> pl.DataFrame:
        used = [one.usage for one in answers]
        for usage in used:
            if usage.stated_usd is not None:
                self._stated = (self._stated or Decimal(0)) + usage.stated_usd
        columns = {name: [getattr(usage, name) for usage in used] for name in _TOKENS}
        self._read += sum(columns["input_tokens"])
        self._written += sum(columns["output_tokens"])
        names = [one.custom_id for one in answers]
        return tables.of_columns("usage", {"custom_id": names, **self._same, **columns, **self._costs(used)})

    def _costs(self, used: Sequence[Usage]) -> Mapping[str, object]:
        price = self._price
        if price is None:
            return {}
        batched, unbatched = charger(price, batched=True), charger(price, batched=False)
        costs = [batched(usage) if usage.known else None for usage in used]
        for whole, decimals in filter(None, costs):
            self._units[decimals] = self._units.get(decimals, 0) + whole
        return {
            "cost_usd": [None if cost is None else units_text(cost) for cost in costs],
            "unbatched_usd": [units_text(unbatched(usage)) if usage.known else None for usage in used],
            "price_source": [price.source if usage.known else None for usage in used],
            "price_date": [price.as_of.isoformat() if usage.known else None for usage in used],
        }

    def _enter(self, custom_id: str, why: str, *, answered: bool) -> None:
        self._untold.append((custom_id, why, answered))

    @property
    def unknown_cost_rows(self) -> list[tables.Row]:
        """A row of the table ``untold`` for each request whose cost is unknown. The upper bound for its cost is in no
        sum of ``spent``."""
        return [
            {
                **self._same,
                "custom_id": one,
                "why": why,
                "answered": answered,
                "bound_usd": decimal_text(self._bounds.get(one)),
            }
            for one, why, answered in self._untold
        ]

    def ours(self) -> Sums:
        """The batch by this bill, as :func:`billed` finds it in its tables."""
        reasons = {why for _, why, _ in self._untold}
        usd = None if reasons else self.spent
        return Sums(usd) if reasons - {WITHOUT_PRICE} else Sums(usd, self._read, self._written)

    def stated(self, snapshot: Snapshot | None) -> Sums:
        """What the provider says of the batch: of the whole, or of the answers that are in the bill."""
        if snapshot is None:
            return Sums(self._stated)
        usd = self._stated if snapshot.stated_usd is None else snapshot.stated_usd
        tokens = snapshot.stated_usage
        return Sums(usd, tokens.input_tokens, tokens.output_tokens) if tokens else Sums(usd)

    @property
    def unknown_cost(self) -> Decimal:
        """The most that those requests can have cost, as far as a bound is known."""
        bounds = (self._bounds.get(custom_id) for custom_id, _, _ in self._untold)
        return sum((bound for bound in bounds if bound is not None), Decimal(0))

    def anomalies(self) -> Iterator[tuple[str, str]]:
        """Kind and detail of the event that tells of what cannot be told."""
        if not self._untold:
            return
        why = Counter(why for _, why, _ in self._untold)
        found = ", ".join(f"{count} {reason}" for reason, count in sorted(why.items()))
        usd = self.unknown_cost
        most = f"at most ${usd:f}, which the budget counts" if usd else "no bound is known"
        yield COST_UNKNOWN, f"{found}: what they cost cannot be told and is not in this run's bill; {most}"


def charges_of(usage: pl.DataFrame) -> list[Charge]:
    """Return the rows of a usage table as the store enters them."""
    names = [field.name for field in fields(Charge)]
    found = []
    for row in usage.select(names).iter_rows(named=True):
        found.append(Charge(**{**row, **{name: _decimal(row[name]) for name in _COSTS}}))
    return found


def bill_under_name(run: Run, job: Job) -> None:
    """What the job cost goes by the name that its model has by now."""
    for batch in run.store.job_batches(job.id):
        if batch.state is not Lifecycle.COLLECTED:
            continue  # who collects it writes them
        for name in ("usage", "untold"):
            path = run.folder.part(name, batch.id)
            found = tables.read_part(path) if path.exists() else pl.DataFrame({"model": []})
            if any(model != job.spec.name for model in found["model"].unique()):
                tables.write(path, found.with_columns(model=pl.lit(job.spec.name)))


def usage_rows(table: pl.DataFrame) -> list[UsageRow]:
    """A usage table as the cost report takes it: a row for all requests that it adds up alike. A table of a large run
    has a hundred thousand rows, and is added up again whenever a batch was collected."""
    alike = ("provider", "model", "role", "price_source", "price_date")
    known = [pl.col(name).is_null().alias(f"no {name}") for name in _COSTS]
    tokens = (pl.col(name).sum() for name in _TOKENS)
    groups = table.group_by(*alike, *known, maintain_order=True).agg(*tokens, *_COSTS, requests=pl.len())
    return [
        UsageRow(
            provider=str(row["provider"]),
            model=str(row["model"]),
            role=Role(str(row["role"])),
            requests=row["requests"],
            usage=_usage(row),
            cost_batched=_total(row["cost_usd"]),
            cost_unbatched=_total(row["unbatched_usd"]),
            price_source=row["price_source"],
            price_date=row["price_date"],
        )
        for row in groups.iter_rows(named=True)
    ]


def _total(costs: Sequence[str | None]) -> Decimal | None:
    """None where they are unknown, which is so of all of them or of none."""
    return None if costs[0] is None else sum((Decimal(cost) for cost in costs if cost is not None), Decimal(0))


def billed(usage: pl.DataFrame, unknown: Iterable[object]) -> Sums:
    """One batch by our bill: its usage table, and why requests of it have an unknown cost. What such requests make
    uncertain is not said."""
    reasons = frozenset(unknown)
    usd = None if reasons else sum((_decimal(cost) or Decimal(0) for cost in usage["cost_usd"]), Decimal(0))
    if reasons - {WITHOUT_PRICE}:
        return Sums(usd)
    return Sums(usd, int(usage["input_tokens"].sum()), int(usage["output_tokens"].sum()))


def statements(stated: pl.DataFrame, usage: pl.DataFrame, untold: pl.DataFrame) -> Iterator[Statement]:
    """Each batch of which its provider said what it cost, beside what the other two tables say of it."""
    about = pl.col("batch_id").is_in(stated["batch_id"].implode())
    answers, unknown = (one.filter(about).partition_by("batch_id", as_dict=True) for one in (usage, untold))
    for row in stated.iter_rows(named=True):
        key = (row["batch_id"],)
        said = Sums(_decimal(row["usd"]), row["input_tokens"], row["output_tokens"])
        ours = billed(answers.get(key, usage.clear()), unknown.get(key, untold.clear())["why"])
        yield Statement(row["batch_id"], row["provider"], row["model"], said, ours)


def charged_answers(usage: pl.DataFrame, untold: Iterable[Mapping[str, object]]) -> Iterator[Response]:
    """What a bill takes of the answers in a usage table; the rows ``untold`` say whose tokens are not known."""
    blind = {str(row["custom_id"]) for row in untold if row["why"] == WITHOUT_USAGE}
    for row in usage.iter_rows(named=True):
        tokens = replace(_usage(row), known=row["custom_id"] not in blind)
        yield Response(row["custom_id"], RequestOutcome.SUCCEEDED, usage=tokens)


def known_bounds(untold: Iterable[Mapping[str, object]]) -> Decimal:
    """The most that requests of unknown cost can have cost in USD, as far as a bound is known."""
    return sum((_decimal(row["bound_usd"]) or Decimal(0) for row in untold), Decimal(0))


def _usage(row: Mapping[str, object]) -> Usage:
    read, cached, made, thought, written = (int(str(row[name])) for name in _TOKENS)
    return Usage(read, cached, made, thought, written)


_COSTS = ("cost_usd", "unbatched_usd")
_TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "cache_write_tokens")


def _decimal(value: object) -> Decimal | None:
    return None if value is None else Decimal(str(value))


def unknown_costs_of(table: pl.DataFrame) -> list[UnknownCost]:
    """A table ``untold`` as the cost report takes it: a row for all requests that it adds up alike."""
    alike = ("provider", "model", "role", "answered", pl.col("bound_usd").is_null().alias("no bound"))
    groups = table.group_by(*alike, maintain_order=True).agg(pl.col("bound_usd"), requests=pl.len())
    return [
        UnknownCost(
            provider=str(row["provider"]),
            model=str(row["model"]),
            role=Role(str(row["role"])),
            bound=_total(row["bound_usd"]),
            answered=bool(row["answered"]),
            requests=row["requests"],
        )
        for row in groups.iter_rows(named=True)
    ]
