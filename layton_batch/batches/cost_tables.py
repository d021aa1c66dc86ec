"""Cost tables: ``usage``, ``untold`` and ``stated``, a part for each batch, as the rows of its requests say; and what
a cost report takes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from decimal import Decimal
from functools import partial

import polars as pl

from layton_batch.batches.bill import Bounds, known_sums
from layton_batch.batches.unknown_costs import create_parts
from layton_batch.costs.report import UnknownCost, UsageRow
from layton_batch.costs.stated import CostComparison, CostTotals
from layton_batch.files import atomic, tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Batch, Job, RequestCost, Usage
from layton_batch.runs.context import Run
from layton_batch.states import Lifecycle, Role
from layton_batch.text import decimal_text


def write_cost_tables(
    folder: RunFolder, job: Job, batch: Batch, charges: Sequence[RequestCost], bounds: Bounds
) -> None:
    """Write the parts of a collected batch. ``bounds``: the most that its requests can cost in USD, by custom_id."""
    same = {"role": str(job.role), "provider": batch.provider, "model": job.spec.name, "batch_id": batch.id}
    unknown = [
        {
            **same, "attempt": batch.attempt, "custom_id": charge.custom_id, "why": charge.unknown_cost,
            "answered": charge.is_answered, "bound_usd": decimal_text(bounds.get(charge.custom_id)),
        }
        for charge in charges
        if charge.unknown_cost
    ]  # fmt: skip
    _write_or_remove(folder, "untold", batch, unknown)
    stated: dict[str, object] = {
        "usd": decimal_text(batch.stated_usd),
        "input_tokens": batch.stated_input_tokens,
        "output_tokens": batch.stated_output_tokens,
    }
    _write_or_remove(folder, "stated", batch, [{**same, **stated}] if _is_stated(batch) else [])
    answered = [charge for charge in charges if charge.is_answered]
    columns = {name: [getattr(charge, name) for charge in answered] for name in ("custom_id", *_TOKENS, *_PRICED)}
    columns |= {name: [decimal_text(getattr(charge, name)) for charge in answered] for name in _COSTS}
    usage = tables.of_columns("usage", {**columns, **same, "attempt": batch.attempt})
    tables.write(folder.part("usage", batch.id), usage)  # last: where this part is, the others are


def _is_stated(batch: Batch) -> bool:
    return (batch.stated_usd, batch.stated_input_tokens, batch.stated_output_tokens) != (None, None, None)


def _write_or_remove(folder: RunFolder, name: str, batch: Batch, rows: Sequence[tables.Row]) -> None:
    part = folder.part(name, batch.id)
    if rows:
        tables.write(part, tables.frame(name, rows))
    else:
        atomic.remove(part)


def charge_columns(charge: RequestCost) -> dict[str, object]:
    """Return a charge as the tables have it: amounts are exact text."""
    columns = asdict(charge)
    del columns["unknown_cost"]
    return columns | {name: decimal_text(getattr(charge, name)) for name in _COSTS}


def complete_cost_tables(run: Run) -> bool:
    """Write the parts that are gone, for a damaged part is set aside; True where there was any."""
    batches = [batch for batch in run.store.batches() if has_cost_tables(batch)]
    wanted = {
        "usage": {batch.id for batch in batches},
        "untold": run.store.batches_of_unknown_cost(),
        "stated": {batch.id for batch in batches if _is_stated(batch)},
    }
    gone = {
        batch_id
        for name, batch_ids in wanted.items()
        for batch_id in batch_ids - {path.stem for path in tables.parts(run.folder.tables, name)}
    }
    lacking = [batch for batch in batches if batch.id in gone]
    jobs = {job.id: job for job in run.store.all_jobs()} if lacking else {}
    written = [run.apart(batch.job_id, partial(_write_again, run, jobs[batch.job_id], batch)) for batch in lacking]
    return any(written)


def has_cost_tables(batch: Batch) -> bool:
    """Return whether the batch has parts of the cost tables: it was collected, and its requests were not imported."""
    return batch.state is Lifecycle.COLLECTED and bool(batch.path)


def _write_again(run: Run, job: Job, batch: Batch) -> bool:
    write_cost_tables(run.folder, job, batch, run.store.charges_of(batch.id), run.store.asked_of(batch.id))
    return True


def name_model_in_cost_tables(run: Run, job: Job) -> None:
    """Have the parts of a job's batches name its model as the manifest names it now."""
    for batch in run.store.job_batches(job.id):
        parts = [run.folder.part(name, batch.id) for name in _TABLES]
        for path in (*(part for part in parts if part.exists()), *create_parts(run.folder, batch)):
            table = tables.read_part(path)
            if any(model != job.spec.name for model in table["model"].unique()):
                tables.write(path, table.with_columns(model=pl.lit(job.spec.name)))


def usage_rows(table: pl.DataFrame) -> list[UsageRow]:
    """Add up a usage table for the cost report: a row for all requests of one provider, model, role and price, and of
    one run and day if it has these columns. A large run has a hundred thousand rows, which are added up again whenever
    a batch was collected."""
    alike = ("provider", "model", "role", "price_source", "price_date", *_further(table))
    is_unknown = [pl.col(name).is_null().alias(f"no {name}") for name in _COSTS]
    tokens = (pl.col(name).sum() for name in _TOKENS)
    groups = table.group_by(*alike, *is_unknown, maintain_order=True).agg(*tokens, *_COSTS, requests=pl.len())
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


def _further(table: pl.DataFrame) -> list[str]:
    return [name for name in ("run", "day") if name in table.columns]


def _total(costs: Sequence[str | None]) -> Decimal | None:
    """Add amounts up; None where they are unknown, all of them."""
    return None if costs[0] is None else sum((Decimal(cost) for cost in costs if cost is not None), Decimal(0))


def statements(stated: pl.DataFrame, usage: pl.DataFrame, untold: pl.DataFrame) -> Iterator[CostComparison]:
    """Yield the batches whose provider states a cost or tokens, beside the same of our tables."""
    about = pl.col("batch_id").is_in(stated["batch_id"].implode())
    answers, unknown = (table.filter(about).partition_by("batch_id", as_dict=True) for table in (usage, untold))
    for row in stated.iter_rows(named=True):
        key = (row["batch_id"],)
        stated_sums = CostTotals(_decimal(row["usd"]), row["input_tokens"], row["output_tokens"])
        answer = answers.get(key, usage.clear())
        usd = sum((_decimal(cost) or Decimal(0) for cost in answer["cost_usd"]), Decimal(0))
        sums = CostTotals(usd, int(answer["input_tokens"].sum()), int(answer["output_tokens"].sum()))
        ours = known_sums(sums, set(unknown.get(key, untold.clear())["why"]))
        yield CostComparison(row["batch_id"], row["provider"], row["model"], stated_sums, ours)


def _usage(row: Mapping[str, object]) -> Usage:
    read, cached, written, reasoning, cache_writes, hour_writes = (int(str(row[name])) for name in _TOKENS)
    return Usage(read, cached, written, reasoning, cache_writes, hour_writes)


_TABLES = ("usage", "untold", "stated")
_COSTS, _PRICED = ("cost_usd", "unbatched_usd"), ("price_source", "price_date")
_TOKENS = (
    "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "cache_write_tokens",
    "hour_write_tokens",
)  # fmt: skip


def _decimal(value: object) -> Decimal | None:
    return None if value is None else Decimal(str(value))


def unknown_costs_of(table: pl.DataFrame) -> list[UnknownCost]:
    """Add up a table ``untold`` for the cost report: a row for all requests of one provider, model, role and kind."""
    names = (*_further(table), "provider", "model", "role", "answered")
    no_bound = pl.col("bound_usd").is_null().alias("no bound")
    groups = table.group_by(*names, no_bound, maintain_order=True).agg(pl.col("bound_usd"), requests=pl.len())
    return [
        UnknownCost(
            provider=str(row["provider"]),
            model=str(row["model"]),
            role=Role(str(row["role"])),
            bound=_total(row["bound_usd"]),
            answered=bool(row["answered"]),
            requests=row["requests"],
            **{name: row[name] for name in _further(table)},
        )
        for row in groups.iter_rows(named=True)
    ]
