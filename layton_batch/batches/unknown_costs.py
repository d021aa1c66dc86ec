"""Unknown costs of creates: what a create may have cost that nobody has an answer to, and that no list shows.

Such a create may have been carried out and billed all the same. So its reserve goes on counting against the budget, as
unknown cost, in the batch's row and in the table ``untold``, until a later list or a person closes it.
"""

from __future__ import annotations

import glob
from decimal import Decimal
from functools import partial
from pathlib import Path

from layton_batch.files import atomic, tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Batch
from layton_batch.runs.context import Run
from layton_batch.text import decimal_text

CREATE_WITHOUT_ANSWER = "created without an answer"
"""The word of the table ``untold`` for a request of such a create."""


def bound_of(run: Run, batch: Batch) -> Decimal:
    """Return the most that one create of the batch can have cost in USD, as far as it is known."""
    return sum((bound for bound in run.store.asked_of(batch.id).values() if bound is not None), Decimal(0))


def write_unknown_costs(run: Run, batch: Batch) -> bool:
    """Have the table ``untold`` say what its row does of the batch's given-up creates: those that are not closed. True
    where a part was written or removed."""
    facts = batch.facts
    parts = {
        number: run.folder.part("untold", f"{batch.id}.create{number}")
        for number in range(1, facts.given_up_creates + 1)
    }
    wrong = {number: part for number, part in parts.items() if part.exists() is not (number > facts.closed_creates)}
    for number, part in wrong.items():
        if number > facts.closed_creates:
            tables.write_rows(part, "untold", _rows(run, batch))
        else:
            atomic.remove(part)
    return bool(wrong)


def create_parts(folder: RunFolder, batch: Batch) -> list[Path]:
    """Return the parts of the table ``untold`` for the given-up creates of a batch."""
    return sorted(folder.part("untold", batch.id).parent.glob(f"{glob.escape(batch.id)}.create*.parquet"))


def bill_creates(run: Run) -> bool:
    """``write_unknown_costs`` for every batch of the run, each its own job's trouble."""
    batches = [batch for batch in run.store.batches() if batch.facts.given_up_creates]
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
