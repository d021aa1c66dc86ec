"""Charges of a run's requests, as their rows in the database say, and what a cost report takes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal

import polars as pl

from layton_batch.batches.bill import known_sums
from layton_batch.clock import utc
from layton_batch.costs.report import NOT_ENDED, UnknownCost, UsageRow
from layton_batch.costs.stated import CostComparison, CostTotals
from layton_batch.files.table_columns import USAGE
from layton_batch.records import Batch, RequestCost, Usage
from layton_batch.states import Lifecycle, Role
from layton_batch.store.run_store import RunStore
from layton_batch.text import decimal_text

_COSTS = ("cost_usd", "unbatched_usd")
_TOKENS = (
    "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "cache_write_tokens",
    "hour_write_tokens",
)  # fmt: skip
_CHARGE = {name: USAGE[name] for name in ("custom_id", *_TOKENS, *_COSTS, "price_source", "price_date")}
_ROW = {"batch_id": pl.String, "bound_usd": pl.String, **_CHARGE, "unknown_cost": pl.String}
_BATCH = dict.fromkeys(("batch_id", "provider", "role", "model", "day"), pl.String) | {"attempt": pl.Int64}


def has_charges(batch: Batch) -> bool:
    """Return whether requests of the batch have charges: it was collected, and its answers were not imported."""
    return batch.state is Lifecycle.COLLECTED and bool(batch.path)


def charge_table(store: RunStore) -> pl.DataFrame:
    """Return a row for each request of the run that was answered, or may have been billed.

    Columns are those of the table ``usage`` and ``unknown_cost`` (why nobody can tell its cost; null: it is known),
    ``bound_usd`` (the most that the request can cost; null: not known) and ``day``, in UTC, on which its batch ended.
    """
    jobs = {job.id: job for job in store.all_jobs()}
    batches = [
        {
            "batch_id": batch.id, "provider": batch.provider, "attempt": batch.attempt, "day": _day(batch),
            "role": str(jobs[batch.job_id].role), "model": jobs[batch.job_id].spec.name,
        }
        for batch in store.batches({Lifecycle.COLLECTED})
    ]  # fmt: skip
    rows = pl.DataFrame(store.charges(), schema=_ROW, orient="row")
    return rows.join(pl.DataFrame(batches, schema=_BATCH), on="batch_id", maintain_order="left")


def usage_table(charges: pl.DataFrame) -> pl.DataFrame:
    """Return the table ``usage``: the answers among the charges."""
    return _answers(charges).select(*USAGE)


def charge_columns(charge: RequestCost) -> dict[str, object]:
    """Return a charge as the tables have it: amounts are exact text."""
    columns = asdict(charge)
    del columns["unknown_cost"]
    return columns | {name: decimal_text(getattr(charge, name)) for name in _COSTS}


def usage_rows(table: pl.DataFrame) -> list[UsageRow]:
    """Add up answers for the cost report: a row for all of one provider, model, role and price, and of one run and day
    if the table has these columns. A large run has a hundred thousand answers, which are added up again whenever a
    batch was collected."""
    alike = ("provider", "model", "role", "price_source", "price_date", *_further(table))
    is_unknown = [pl.col(name).is_null().alias(f"no {name}") for name in _COSTS]
    tokens = (pl.col(name).sum() for name in _TOKENS)
    groups = _answers(table).group_by(*alike, *is_unknown, maintain_order=True).agg(*tokens, *_COSTS, requests=pl.len())
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
            **{name: row[name] for name in _further(table)},
        )
        for row in groups.iter_rows(named=True)
    ]


def unknown_costs(charges: pl.DataFrame) -> list[UnknownCost]:
    """Add up charges of unknown cost: a row for all requests of one provider, model, role and kind."""
    names = (*_further(charges), "provider", "model", "role")
    kinds = (pl.col("input_tokens").is_not_null().alias("answered"), pl.col("bound_usd").is_null().alias("no bound"))
    unknown = charges.filter(pl.col("unknown_cost").is_not_null())
    groups = unknown.group_by(*names, *kinds, maintain_order=True).agg(pl.col("bound_usd"), requests=pl.len())
    return [
        UnknownCost(
            provider=str(row["provider"]),
            model=str(row["model"]),
            role=Role(str(row["role"])),
            bound=_total(row["bound_usd"]),
            answered=row["answered"],
            requests=row["requests"],
            **{name: row[name] for name in _further(charges)},
        )
        for row in groups.iter_rows(named=True)
    ]


def created_costs(store: RunStore, run: str) -> Iterator[UnknownCost]:
    """Yield what given-up creates may have cost, which nobody has an answer to and no list shows: such a create may
    have been carried out and billed all the same, until a later list or a person closes it."""
    jobs = {job.id: job for job in store.all_jobs()}
    for batch in store.batches():
        if number := batch.facts.creates_of_unknown_cost:
            job = jobs[batch.job_id]
            bound = None if batch.max_cost is None else batch.creates_usd
            requests = number * batch.requests
            yield UnknownCost(
                batch.provider, job.spec.name, job.role, bound, requests=requests, run=run, day=_day(batch)
            )


def statements(store: RunStore, charges: pl.DataFrame) -> Iterator[CostComparison]:
    """Yield the batches whose provider states a cost or tokens, beside the same of our charges."""
    stated = [batch for batch in store.batches() if _stated(batch) != CostTotals()]
    models = {job.id: job.spec.name for job in store.all_jobs()} if stated else {}
    for batch in stated:
        charged = charges.filter(pl.col("batch_id") == batch.id)
        answers = _answers(charged)
        usd = sum((Decimal(cost) for cost in answers["cost_usd"].drop_nulls()), Decimal(0))
        sums = CostTotals(usd, int(answers["input_tokens"].sum()), int(answers["output_tokens"].sum()))
        reasons = set(charged["unknown_cost"].drop_nulls())
        if batch.facts.creates_of_unknown_cost:
            reasons.add("created without an answer")
        yield CostComparison(batch.id, batch.provider, models[batch.job_id], _stated(batch), known_sums(sums, reasons))


def _stated(batch: Batch) -> CostTotals:
    return CostTotals(batch.stated_usd, batch.stated_input_tokens, batch.stated_output_tokens)


def _answers(charges: pl.DataFrame) -> pl.DataFrame:
    return charges.filter(pl.col("input_tokens").is_not_null())


def _day(batch: Batch) -> str:
    return f"{utc(batch.ended_at):%Y-%m-%d}" if batch.ended_at else NOT_ENDED


def _further(table: pl.DataFrame) -> list[str]:
    return [name for name in ("run", "day") if name in table.columns]


def _total(costs: Sequence[str | None]) -> Decimal | None:
    """Add amounts up; None where they are unknown, all of them."""
    return None if costs[0] is None else sum((Decimal(cost) for cost in costs if cost is not None), Decimal(0))


def _usage(row: Mapping[str, object]) -> Usage:
    read, cached, written, reasoning, cache_writes, hour_writes = (int(str(row[name])) for name in _TOKENS)
    return Usage(read, cached, written, reasoning, cache_writes, hour_writes)
