"""Creates in doubt: what a create may have cost that nobody has an answer to, and that no list shows.

It may have been carried out and billed all the same. So what was set aside for it goes on counting against the budget,
as what cannot be told, in the ledger and in the table ``untold``.
"""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

from layton_batch import tables
from layton_batch.records import Batch
from layton_batch.run import Run
from layton_batch.stages.resubmit import exact
from layton_batch.stages.sent import sent
from layton_batch.stages.usage_rows import bounds
from layton_batch.store import Entry
from layton_batch.store.standing import RELEASED, UNTOLD

IN_DOUBT = "created without an answer"
"""The word of the table ``untold`` for a request of such a create."""
NOT_CREATED, RESUBMIT = "not_in_list", "resubmit"
"""Events: a list that never had the batch; a person has it sent again. Each leaves one create in doubt."""


def set_down(run: Run, batch: Batch) -> list[Entry]:
    """Write the batch's requests into ``untold``; the ledger's entries, for the move that gives this create up."""
    asked = sent(run, batch)
    job = next(job for job in run.store.jobs() if job.id == batch.job_id)
    most = bounds(asked)
    rows: list[tables.Row] = [
        {
            "custom_id": custom_id,
            "role": str(job.role),
            "provider": batch.provider,
            "model": job.spec.name,
            "batch_id": batch.id,
            "attempt": batch.attempt,
            "why": IN_DOUBT,
            "answered": False,
            "bound_usd": exact(bound),
        }
        for custom_id, bound in most.items()
    ]
    tables.write_rows(_part(run, batch), "untold", rows)
    known = [bound for bound in most.values() if bound is not None]
    amounts = {RELEASED: run.store.held(batch.id), UNTOLD: sum(known, Decimal(0))}
    return [Entry(batch.id, kind, usd) for kind, usd in amounts.items() if usd]


def take_back(run: Run, batch: Batch) -> None:
    """The create is found after all: what was set down for it by a process that ended before its commit goes."""
    _part(run, batch).unlink(missing_ok=True)


def _part(run: Run, batch: Batch) -> Path:
    """One file for each create of the batch that was given up."""
    earlier = sum(run.store.events_since(batch.id, (), kind) for kind in (NOT_CREATED, RESUBMIT))
    return run.folder.part("untold", f"{batch.id}.create{earlier + 1}")
