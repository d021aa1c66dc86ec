"""Unknown costs of creates: what a create may have cost that nobody has an answer to, and that no list shows.

Such a create may have been carried out and billed all the same. So its reserve goes on counting against the budget, as
unknown cost, in the ledger and in the table ``untold``.
"""

from __future__ import annotations

import glob
from decimal import Decimal
from functools import partial
from pathlib import Path

from layton_batch.batches.machine import settle
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Batch, LedgerEntry
from layton_batch.runs.context import Run
from layton_batch.text import decimal_text

CREATE_WITHOUT_ANSWER = "created without an answer"
"""The word of the table ``untold`` for a request of such a create."""


def unknown_cost_entries(run: Run, batch: Batch) -> tuple[LedgerEntry, ...]:
    """The ledger's entries, for the move that gives this create up."""
    bounds = [bound for bound in run.store.asked_of(batch.id).values() if bound is not None]
    return settle(batch, reserved=run.store.held(batch.id), unknown_cost=sum(bounds, Decimal(0)))


def write_unknown_costs(run: Run, batch: Batch) -> bool:
    """Have the table ``untold`` say what the ledger does of the batch's creates that were given up, after the commit
    that gave one up, and again where a stop came between. True where a part was written."""
    numbers = range(1, batch.facts.creates_of_unknown_cost + 1)
    parts = [run.folder.part("untold", f"{batch.id}.create{number}") for number in numbers]
    lacking = [part for part in parts if not part.exists()]
    for part in lacking:
        tables.write_rows(part, "untold", _rows(run, batch))
    return bool(lacking)


def create_parts(folder: RunFolder, batch: Batch) -> list[Path]:
    """Return the parts of the table ``untold`` for the given-up creates of a batch."""
    return sorted(folder.part("untold", batch.id).parent.glob(f"{glob.escape(batch.id)}.create*.parquet"))


def bounds_of_creates(run: Run, batch: Batch) -> Decimal:
    """Return the most that the given-up creates of a batch may have cost in USD, as far as it is known."""
    parts = create_parts(run.folder, batch)
    amounts = (usd for part in parts for usd in tables.read_part(part)["bound_usd"].drop_nulls())
    return sum((Decimal(usd) for usd in amounts), Decimal(0))


def catch_up(run: Run) -> bool:
    """``write_unknown_costs`` for every batch of the run, each its own job's trouble."""
    batches = [batch for batch in run.store.batches() if batch.facts.creates_of_unknown_cost]
    written = [run.apart(batch.job_id, partial(write_unknown_costs, run, batch)) for batch in batches]
    return any(written)


def _rows(run: Run, batch: Batch) -> list[tables.Row]:
    job = next(job for job in run.store.all_jobs() if job.id == batch.job_id)
    return [
        {
            "custom_id": custom_id,
            "role": str(job.role),
            "provider": batch.provider,
            "model": job.spec.name,
            "batch_id": batch.id,
            "attempt": batch.attempt,
            "why": CREATE_WITHOUT_ANSWER,
            "answered": False,
            "bound_usd": decimal_text(bound),
        }
        for custom_id, bound in run.store.asked_of(batch.id).items()
    ]
