"""What simulated histories read in the workspace's database: the tables of the design, in this one module."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass

from sqlalchemy import create_engine, text

_BATCHES = "SELECT key, batch_id, provider, state, provider_id, path FROM batches"
_ATTEMPTS = (
    "SELECT a.batch, a.fingerprint, a.is_open, a.outcome, b.state FROM attempts a JOIN batches b ON b.key = a.batch"
)
_WANTED = "SELECT answer FROM requests WHERE answer NOT IN (SELECT fingerprint FROM answers)"
_PROVIDER_IDS = "SELECT provider_id FROM provider_batches"


@dataclass(frozen=True, slots=True)
class BatchRow:
    """A batch. ``path``: of its file, from the workspace's folder."""

    key: int
    id: str
    provider: str
    state: str
    provider_id: str | None
    path: str


@dataclass(frozen=True, slots=True)
class AttemptRow:
    """An answer in a batch. ``state``: of the batch."""

    batch: int
    answer: bytes
    is_open: bool
    outcome: str | None
    state: str


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a workspace. ``provider_ids``: every id that a batch was ever known by at a provider."""

    batches: list[BatchRow]
    attempts: list[AttemptRow]
    provider_ids: Collection[str]
    wanted_without_answer: int

    def contradictions(self) -> list[str]:
        """Return what rows say against each other once nothing is under way, in words."""
        broken = (
            [f"{self.wanted_without_answer} requests want an answer that has no row"]
            if self.wanted_without_answer
            else []
        )
        named = [batch.provider_id for batch in self.batches if batch.provider_id]
        broken += [f"{name} stands for {count} batches" for name, count in Counter(named).items() if count > 1]
        ended = [row for row in self.attempts if row.state == "collected"]
        if lacking := [row for row in ended if row.outcome is None]:
            broken.append(f"{len(lacking)} attempts of collected batches have no outcome")
        if early := [row for row in self.attempts if row.state != "collected" and row.outcome is not None]:
            broken.append(f"{len(early)} attempts have an outcome before their batch is collected")
        if still := [row for row in ended if row.is_open]:
            broken.append(f"{len(still)} attempts of collected batches are open")
        answered = Counter(row.answer for row in self.attempts if row.outcome == "succeeded")
        broken += [f"an answer was bought {count} times" for count in answered.values() if count > 1]
        return broken


def read(url: str) -> Rows:
    """Read a workspace's database."""
    engine = create_engine(url)
    try:
        with engine.connect() as connection:
            batches = [BatchRow(*row) for row in connection.execute(text(_BATCHES))]
            attempts = [AttemptRow(*row) for row in connection.execute(text(_ATTEMPTS))]
            known = {str(row[0]) for row in connection.execute(text(_PROVIDER_IDS))}
            lacking = len(connection.execute(text(_WANTED)).all())
    finally:
        engine.dispose()
    return Rows(batches, attempts, known | {batch.provider_id for batch in batches if batch.provider_id}, lacking)
