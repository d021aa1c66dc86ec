"""Costs of a run's requests, as their rows in the database say, and what a cost report takes of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from decimal import Decimal

import polars as pl

from layton_batch.batches.bill import known_sums
from layton_batch.clock import utc
from layton_batch.costs.report import NOT_ENDED, CostQuery, UnknownCost, UsageRow
from layton_batch.costs.stated import NOTHING_STATED, CostComparison, CostTotals
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
_BATCH = {
    **dict.fromkeys(("batch_id", "provider", "role", "model"), pl.String), "attempt": pl.Int64,
    **dict.fromkeys(("run", "day"), pl.String),
}  # fmt: skip


def has_charges(batch: Batch) -> bool:
    """Return whether requests of the batch have charges: it was collected, and its answers were not imported."""
    return batch.state is Lifecycle.COLLECTED and bool(batch.path)


@dataclass(frozen=True, slots=True)
class RunCosts:
    """Costs of the requests of a run, and its batches, which tell of further ones. ``models``: role and model of
    each job, by id.

    ``table``: a row for each request that was answered, or may have been billed. Columns are those of the table
    ``usage`` and ``unknown_cost`` (why nobody can tell its cost, else null), ``bound_usd`` (the most that the request
    can cost; null without a price), ``run``, and ``day``, in UTC, on which its batch ended.
    """

    run: str
    batches: Sequence[Batch]
    models: Mapping[str, tuple[Role, str]]
    table: pl.DataFrame

    @classmethod
    def read(cls, run: str, store: RunStore) -> RunCosts:
        """Read what the database says of a run."""
        batches, models = store.batches(), {job.id: (job.role, job.spec.name) for job in store.all_jobs()}
        rows = [
            (batch.id, batch.provider, *map(str, models[batch.job_id]), batch.attempt, run, _day(batch))
            for batch in batches
        ]
        table = pl.DataFrame(store.charges(), schema=_ROW, orient="row")
        of_batches = pl.DataFrame(rows, schema=_BATCH, orient="row")
        return cls(run, batches, models, table.join(of_batches, on="batch_id", maintain_order="left"))

    def within(self, query: CostQuery) -> RunCosts:
        """Return the charges of batches that ended on the query's days."""
        batches = [batch for batch in self.batches if query.includes(_day(batch))]
        is_one = pl.col("batch_id").is_in([batch.id for batch in batches])
        return replace(self, batches=batches, table=self.table.filter(is_one))

    @property
    def usage(self) -> pl.DataFrame:
        """Return the table ``usage``: the answers."""
        return _answers(self.table).select(*USAGE)

    def unknown_costs(self) -> Iterator[UnknownCost]:
        """Yield the charges of unknown cost, added up: all of one provider, model, role, day and kind; and what
        given-up creates may have cost. Nobody has an answer to such a create, and no list shows it: it may have been
        carried out and billed all the same, until a later list or a person closes it."""
        names = ("provider", "model", "role", "run", "day")
        kinds = (
            pl.col("input_tokens").is_not_null().alias("answered"), pl.col("bound_usd").is_null().alias("no bound"),
        )  # fmt: skip
        unknown = self.table.filter(pl.col("unknown_cost").is_not_null())
        groups = unknown.group_by(*names, *kinds, maintain_order=True).agg(pl.col("bound_usd"), requests=pl.len())
        for row in groups.iter_rows(named=True):
            yield UnknownCost(
                provider=row["provider"],
                model=row["model"],
                role=Role(row["role"]),
                bound=_total(row["bound_usd"]),
                answered=row["answered"],
                requests=row["requests"],
                run=row["run"],
                day=row["day"],
            )
        for batch in self.batches:
            if number := batch.creates_of_unknown_cost:
                role, model = self.models[batch.job_id]
                yield UnknownCost(
                    provider=batch.provider,
                    model=model,
                    role=role,
                    bound=None if batch.max_cost is None else batch.creates_usd,
                    requests=number * batch.requests,
                    run=self.run,
                    day=_day(batch),
                )

    def statements(self) -> Iterator[CostComparison]:
        """Yield the batches whose provider states a cost or tokens, beside the same of our charges."""
        for batch in self.batches:
            stated = CostTotals(batch.stated_usd, batch.stated_input_tokens, batch.stated_output_tokens)
            if stated == NOTHING_STATED:
                continue
            charged = self.table.filter(pl.col("batch_id") == batch.id)
            answers = _answers(charged)
            usd = sum((Decimal(cost) for cost in answers["cost_usd"].drop_nulls()), Decimal(0))
            sums = CostTotals(usd, int(answers["input_tokens"].sum()), int(answers["output_tokens"].sum()))
            reasons = {*charged["unknown_cost"].drop_nulls()}
            if batch.creates_of_unknown_cost:
                reasons.add("created without an answer")
            _, model = self.models[batch.job_id]
            yield CostComparison(batch.id, batch.provider, model, stated, known_sums(sums, reasons))


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
