"""The quick reader of SQLite files: what the full store says, and nothing where the file is not in order."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from layton_batch.errors import StoreError
from layton_batch.records import Entry, Job, ModelSpec, RowCount
from layton_batch.runs.status import read_status
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, RequestOutcome, Role
from layton_batch.store import RunStore, sqlite_url
from layton_batch.store.reading import Reader, quick_reader
from layton_batch.store.revising import Revision, keep_retired_ends, revise
from layton_batch.store.rows import ACTUAL, RESERVED
from tests.store.rows import JOB, NOW, RUN, moved, opened

OTHER = Job("predict-gone", Role.PREDICT, ModelSpec(name="gone", provider="groq", model="g-1", family="groq"))


def told(error: sqlite3.Error) -> StoreError:
    return StoreError(f"told: {error}")


@pytest.fixture
def database(tmp_path: Path) -> Path:
    return tmp_path / "state.sqlite3"


@pytest.fixture
def store(database: Path) -> Iterator[RunStore]:
    with opened(sqlite_url(database), 3, (JOB, OTHER)) as store:
        yield store


def busy(store: RunStore) -> None:
    """A batch is at the provider, one is collected, a job is retired, and some of another's requests are."""
    flying, over, _ = store.batches()
    for state in (Lifecycle.SUBMITTING, Lifecycle.IN_FLIGHT, Lifecycle.ENDED):
        over = store.apply(over, moved(over, state, submitted_at=NOW, provider_id="b-1"), NOW)
    ends = [
        RowCount(over.id, RequestOutcome.SUCCEEDED, ErrorClass.NONE, 2, 0),
        RowCount(over.id, RequestOutcome.ERRORED, ErrorClass.RATE_LIMITED, 1, 1),
    ]
    money = [Entry(over.id, RESERVED, Decimal("0.50")), Entry(over.id, ACTUAL, Decimal("0.1234"))]
    done = moved(over, Lifecycle.COLLECTED, entries=money, counts=ends, outcome=BatchOutcome.COMPLETED, ended_at=NOW)
    store.apply(over, done, NOW)
    store.apply(flying, moved(flying, Lifecycle.SUBMITTING, needs_person=True, max_cost=None), NOW)
    keep_retired_ends(store, JOB.id, {(RequestOutcome.EXPIRED, ErrorClass.NONE): 1})
    revise(store, Revision([JOB], (), [OTHER.id], "asked", "items"), NOW)


def readings(store: Reader) -> tuple[object, ...]:
    counts = sorted(store.row_counts(), key=str)
    return (
        store.row(), store.jobs(), store.batches(), counts, store.money(), store.retired_ends(), store.events(),
        store.events(4), read_status(store),
    )  # fmt: skip


def test_the_quick_reader_says_what_the_store_says_in_the_same_types(store: RunStore, database: Path) -> None:
    busy(store)
    with quick_reader(database, RUN, told) as reader:
        assert reader is not None
        assert repr(readings(reader)) == repr(readings(store))


def test_batches_planned_for_a_retired_job_are_not_shown(store: RunStore, database: Path) -> None:
    revise(store, Revision([OTHER], (), [JOB.id], "asked", "items"), NOW)
    with quick_reader(database, RUN, told) as reader:
        assert reader is not None
        assert (reader.batches(), reader.jobs()) == ([], store.jobs())


def test_a_later_reading_has_what_was_written_since(store: RunStore, database: Path) -> None:
    with quick_reader(database, RUN, told) as reader:
        assert reader is not None
        before = len(reader.events())
        store.add_event(NOW, None, "noted", "something")
        assert len(reader.events()) == before + 1


def test_a_run_that_is_not_in_the_store_has_no_row(store: RunStore, database: Path) -> None:
    with quick_reader(database, "another", told) as reader:
        assert reader is not None
        assert reader.row() is None


@pytest.mark.parametrize("change", ["UPDATE alembic_version SET version_num = '0002'", "PRAGMA journal_mode=DELETE"])
def test_a_file_that_is_not_as_this_version_leaves_it_is_left_to_the_store(database: Path, change: str) -> None:
    with opened(sqlite_url(database)):
        pass
    other = sqlite3.connect(database)
    other.execute(change)
    other.commit()
    other.close()
    with quick_reader(database, RUN, told) as reader:
        assert reader is None


def test_a_file_that_is_missing_or_no_database_is_left_to_the_store(database: Path) -> None:
    with quick_reader(database, RUN, told) as reader:
        assert reader is None
    assert not database.exists()
    database.write_bytes(b"no database at all" * 99)
    with quick_reader(database, RUN, told) as reader:
        assert reader is None


def test_what_goes_wrong_in_a_reading_is_told_by_who_asked(store: RunStore, database: Path) -> None:
    with quick_reader(database, RUN, told) as reader:
        assert reader is not None
        other = sqlite3.connect(database)
        other.execute("DROP TABLE events")
        other.close()
        with pytest.raises(StoreError, match="told: no such table"):
            reader.events()
