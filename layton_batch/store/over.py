"""Batches that are over, read once: a run of years has thousands of them, and nothing of theirs changes any more.

Every change of a row is made under a claim, which raised the row's fence, or raises it itself. So as long as there are
as many of them, with the same sum of fences, they are those that were read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from sqlalchemy import Connection, and_, func, select

from layton_batch.records import Batch
from layton_batch.states import Lifecycle
from layton_batch.store import schema
from layton_batch.store.rows import batch_from
from layton_batch.store.standing import visible


@dataclass(frozen=True, slots=True)
class _Read:
    count: int = 0
    fences: int = 0
    batches: Mapping[int, Batch] = field(default_factory=dict)


@dataclass(slots=True)
class Over:
    """The collected batches of one run, as one process knows them; threads may share it."""

    _known: _Read = field(default_factory=_Read)

    def with_open_ones(self, connection: Connection, run_id: str) -> list[Batch]:
        """Every batch of the run that counts, in order of entry."""
        table = schema.batches
        still_open = table.c.state != str(Lifecycle.COLLECTED)
        query = select(table).where(table.c.run_id == run_id, still_open, visible(run_id))
        found = {row["seq"]: batch_from(row) for row in connection.execute(query).mappings()}
        found |= self._read(connection, run_id)  # after the others: one may have been collected between
        return [found[seq] for seq in sorted(found)]

    def _read(self, connection: Connection, run_id: str) -> Mapping[int, Batch]:
        """By their number in the order of entry."""
        table = schema.batches
        mine = and_(table.c.run_id == run_id, table.c.state == str(Lifecycle.COLLECTED))
        count, fences = connection.execute(select(func.count(), func.sum(table.c.fence)).where(mine)).one()
        known = self._known
        if (count, int(fences or 0)) != (known.count, known.fences):
            rows = connection.execute(select(table).where(mine)).mappings().all()
            found = {row["seq"]: batch_from(row) for row in rows}
            known = self._known = _Read(len(rows), sum(row["fence"] for row in rows), found)
        return known.batches
