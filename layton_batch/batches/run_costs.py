"""Costs of runs: what their requests cost, as the rows in the database say, added up for a report."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from decimal import Decimal

import polars as pl

from layton_batch.batches.bill import TOKENS, known_sums
from layton_batch.clock import utc
from layton_batch.costs.report import NOT_ENDED, WHOLE, CostQuery, CostReport, UnknownCost, UsageRow, build_report
from layton_batch.costs.stated import NOTHING_STATED, CostComparison, CostTotals
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.table_columns import USAGE
from layton_batch.records import Batch, RequestCost, Usage
from layton_batch.runs.stores import open_stores
from layton_batch.settings import Settings
from layton_batch.states import Lifecycle, Role
from layton_batch.store.run_store import RunStore
from layton_batch.text import decimal_text

_COSTS = ("cost_usd", "unbatched_usd")
_CHARGE = {name: USAGE[name] for name in ("custom_id", *TOKENS, *_COSTS, "price_source", "price_date")}
_ROW = {"batch_id": pl.String, "bound_usd": pl.String, **_CHARGE, "unknown_cost": pl.String}
_BATCH = {**dict.fromkeys(("batch_id", "provider", "role", "model", "run", "day"), pl.String), "attempt": pl.Int64}
_ALIKE = ("provider", "model", "role", "price_source", "price_date", "run", "day")


def has_charges(batch: Batch) -> bool:
    """Return whether requests of the batch have charges: it was collected, and its answers were not imported."""
    return batch.state is Lifecycle.COLLECTED and bool(batch.path)


@dataclass(frozen=True, slots=True)
class RunCosts:
    """Costs of a run's batches. ``models``: role and model of each job, by id.

    ``table``: a row for each request that was answered, or may have been billed. Columns are those of the table
    ``usage`` and ``unknown_cost`` (why nobody can tell its cost, else null), ``bound_usd`` (the most that the request
    can cost; null without a price), ``run``, and ``day``, in UTC, on which its batch ended.
    """

    folder: RunFolder
    store: RunStore
    batches: Sequence[Batch]
    models: Mapping[str, tuple[Role, str]]
    table: pl.DataFrame

    @classmethod
    def read(cls, folder: RunFolder, store: RunStore, query: CostQuery = WHOLE) -> RunCosts:
        """Read what the database says of a run's batches that ended on the query's days."""
        run, models = folder.root.name, {job.id: (job.role, job.spec.name) for job in store.all_jobs()}
        batches = [batch for batch in store.batches() if query.includes(_day(batch))]
        rows = [
            (batch.id, batch.provider, *map(str, models[batch.job_id]), run, _day(batch), batch.attempt)
            for batch in batches
        ]
        table = pl.DataFrame(store.charges(), schema=_ROW, orient="row")
        of_batches = pl.DataFrame(rows, schema=_BATCH, orient="row")
        return cls(folder, store, batches, models, table.join(of_batches, on="batch_id", maintain_order="left"))

    @property
    def usage(self) -> pl.DataFrame:
        """Return the table ``usage``: the answers."""
        return _answers(self.table).select(*USAGE)

    def unknown_costs(self) -> Iterator[UnknownCost]:
        """Yield the charges of unknown cost, added up: all of one provider, model, role, day and kind; and what
        given-up creates may have cost. Nobody has an answer to such a create, and no list shows it: it may have been
        carried out and billed all the same, until a later list or a person closes it."""
        kinds = pl.col("input_tokens").is_not_null().alias("answered"), pl.col("bound_usd").is_null().alias("no bound")
        unknown = self.table.filter(pl.col("unknown_cost").is_not_null())
        groups = unknown.group_by("provider", "model", "role", "day", *kinds, maintain_order=True)
        for row in groups.agg(pl.col("bound_usd"), requests=pl.len()).iter_rows(named=True):
            bound = _total(row["bound_usd"])
            about = row["provider"], row["model"], Role(row["role"]), bound, row["answered"], row["requests"]
            yield UnknownCost(*about, run=self.folder.root.name, day=row["day"])
        for batch in self.batches:
            if number := batch.creates_of_unknown_cost:
                role, model = self.models[batch.job_id]
                bound = None if batch.max_cost is None else batch.creates_usd
                requests = number * batch.requests
                yield UnknownCost(
                    batch.provider, model, role, bound, requests=requests, run=self.folder.root.name, day=_day(batch)
                )

    def statements(self) -> Iterator[CostComparison]:
        """Yield the batches whose provider states a cost or tokens, beside the same of our charges."""
        for batch in self.batches:
            stated = CostTotals(batch.stated_usd, batch.stated_input_tokens, batch.stated_output_tokens)
            if stated == NOTHING_STATED:
                continue
            unclear = ["created without an answer"] if batch.creates_of_unknown_cost else []
            ours = known_sums(self.store.charges_of(batch.id), unclear)
            _, model = self.models[batch.job_id]
            yield CostComparison(batch.id, batch.provider, model, stated, ours)


def cost_report(stores: Mapping[RunFolder, RunStore], query: CostQuery = WHOLE) -> CostReport:
    """Report the cost of these runs together, with upper bounds of unknown costs.

    Answers that a run has from another of these runs are in the sums, so only those of further runs count as reused;
    a bill of some days says nothing of them.
    """
    return add_up([RunCosts.read(folder, store, query) for folder, store in stores.items()], query)


def add_up(costs: Sequence[RunCosts], query: CostQuery = WHOLE) -> CostReport:
    """Report these costs together, as :func:`cost_report` does."""
    reused = []
    if not query.has_dates:
        names = [of_run.folder.root.resolve().name for of_run in costs]
        bought = pl.concat(tables.read(of_run.folder.tables, "reused") for of_run in costs)
        bought = bought.filter(~pl.col("run").is_in(names)).unique(("run", "batch_id", "paid_as"))
        reused = usage_rows(bought)
    return build_report(
        [row for of_run in costs for row in usage_rows(of_run.table)],
        [cost for of_run in costs for cost in of_run.unknown_costs()],
        [statement for of_run in costs for statement in of_run.statements()],
        reused,
        query.by,
    )


def queried_costs(folders: Sequence[RunFolder], query: CostQuery, settings: Settings) -> CostReport:
    """Report the cost of these runs as a person asks for it."""
    with open_stores(settings) as store_of:
        return cost_report({folder: store_of(folder) for folder in folders}, query)


def charge_columns(charge: RequestCost) -> dict[str, object]:
    """Return a charge as the tables have it: amounts are exact text."""
    columns = asdict(charge)
    del columns["unknown_cost"]
    return columns | {name: decimal_text(getattr(charge, name)) for name in _COSTS}


def usage_rows(table: pl.DataFrame) -> list[UsageRow]:
    """Add up answers for the cost report: a row for all of one provider, model, role and price, and of one run and day
    if the table has these columns. A large run has a hundred thousand answers, which are added up again whenever a
    batch was collected."""
    alike = [name for name in _ALIKE if name in table.columns]
    is_unknown = [pl.col(name).is_null().alias(f"no {name}") for name in _COSTS]
    groups = _answers(table).group_by(*alike, *is_unknown, maintain_order=True)
    return [
        UsageRow(
            **{name: row[name] for name in alike} | {"role": Role(row["role"])},
            requests=row["requests"],
            usage=Usage(*(row[name] for name in TOKENS)),
            cost_batched=_total(row["cost_usd"]),
            cost_unbatched=_total(row["unbatched_usd"]),
        )
        for row in groups.agg(pl.col(TOKENS).sum(), *_COSTS, requests=pl.len()).iter_rows(named=True)
    ]


def _answers(charges: pl.DataFrame) -> pl.DataFrame:
    return charges.filter(pl.col("input_tokens").is_not_null())


def _day(batch: Batch) -> str:
    return f"{utc(batch.ended_at):%Y-%m-%d}" if batch.ended_at else NOT_ENDED


def _total(costs: Sequence[str | None]) -> Decimal | None:
    """Add amounts up; None if the first is unknown: then all of them are."""
    return None if costs[0] is None else sum((Decimal(cost) for cost in costs if cost is not None), Decimal(0))
