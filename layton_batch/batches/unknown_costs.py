"""Unknown costs of creates: what a create may have cost that nobody has an answer to, and that no list shows.

Such a create may have been carried out and billed all the same. So its reserve goes on counting against the budget, as
unknown cost, in the batch's row, until a later list or a person closes it.
"""

from __future__ import annotations

from decimal import Decimal

from layton_batch.records import Batch
from layton_batch.runs.context import Run


def bound_of(run: Run, batch: Batch) -> Decimal:
    """Return the most that one create of the batch can have cost in USD, as far as it is known."""
    return sum((bound for bound in run.store.asked_of(batch.id).values() if bound is not None), Decimal(0))
