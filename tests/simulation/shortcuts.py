"""Shortcuts that change no outcome: things made once that every run would make again, and for histories no waiting."""

from __future__ import annotations

import copy
import functools
import hashlib
import re
import sqlite3
import sys
import tempfile
import threading
from collections import defaultdict
from collections.abc import Callable, Hashable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any
from unittest import mock

import vl_convert
from sqlalchemy import URL, Engine, create_engine, make_url
from sqlalchemy.engine.default import DefaultDialect
from starlette import routing

from layton_batch.clock import Pacing
from layton_batch.plug_ins import Registry
from layton_batch.runs import accounts
from layton_batch.settings import Settings
from layton_batch.site import board_charts
from layton_batch.store import engine as opening
from layton_batch.store import schema
from layton_batch.store.engine import open_engine, sqlite_url
from layton_batch.store.run_store import RunStore
from tests.support.manual_clock import ManualClock

READ_AGAIN = ("row", "jobs", "batches", "money", "price_changes")
"""What a tick of the program asks its store several times over."""
READ_AGAIN_ON_SQLITE = (
    "all_jobs", "answer_locations", "answered_batches", "answering_batches", "asked_of", "attempted", "batch",
    "batches_of_unknown_cost", "bought_elsewhere", "charges_of", "count_requests", "ends_of", "events", "files", "held",
    "items_of", "job_batches", "jobs_alike", "jobs_with_wanted", "known_answers", "known_provider_ids",
    "known_requests", "locate_answers", "owner_of", "planned_of_retired", "provider_ids", "requests_of",
    "requests_to_ask", "retired_among", "unfinished", "was_absent_before",
)  # fmt: skip
"""What else is the same until its tables change. A server of the state can be lost at every reading, and files that
object storage has may be awaited there."""
_ANY = "any table"
OF_THE_LEASE = ("drive", "renew", "stop_driving")
"""What changes nothing of that."""

Asked = tuple[str, str, tuple[object, ...]]


@functools.cache
def empty_database() -> bytes:
    """A state store as it is when its schema has just been made; making one takes longer than the rest of a history."""
    with tempfile.TemporaryDirectory() as name, migrated():
        path = Path(name) / "state.sqlite3"
        open_engine(sqlite_url(path)).dispose()
        return path.read_bytes()


def scratch() -> str | None:
    """A place in memory for histories: a disk's syncs would only slow them down."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


@contextmanager
def hastened() -> Iterator[None]:
    """Spare every run of this process what takes most of its time and is seldom the claim.

    Sites have no charts, except within :func:`drawn`. A new SQLite store gets its tables from a copy of the schema,
    except within :func:`migrated`. Its engines share their compiled statements. Keys are digested by a quick hash.
    The paths of a sandbox are compiled once, and plug-ins are searched once for each list of folders.
    """
    with (
        mock.patch.object(board_charts, "charts", return_value=[]),
        mock.patch.object(vl_convert, "svg_to_png", functools.lru_cache(256)(vl_convert.svg_to_png)),
        mock.patch.object(opening, "_create_schema", _copy_schema),
        mock.patch.object(opening, "create_engine", _sharing_on_sqlite),
        mock.patch.object(accounts, "scrypt", _quick_digest),
        mock.patch.object(routing, "compile_path", functools.cache(routing.compile_path)),
        mock.patch.object(Registry, "_entry_points", lambda registry: _entry_points(registry.group, tuple(sys.path))),
    ):
        yield


@contextmanager
def drawn() -> Iterator[None]:
    """Draw the charts of sites, those of equal boards once."""
    with mock.patch.object(board_charts, "charts", _charts):
        yield


@contextmanager
def migrated() -> Iterator[None]:
    """Open every store as the program does, and make the tables of a new one by the migration."""
    with (
        mock.patch.object(opening, "_create_schema", _create_schema),
        mock.patch.object(opening, "create_engine", create_engine),
    ):
        yield


@functools.cache
def _entry_points(group: str, _folders: tuple[str, ...]) -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=group)}


_create_schema = opening._create_schema


def _copy_schema(engine: Engine, current: str | None) -> None:
    if current is not None or engine.dialect.name != "sqlite":
        _create_schema(engine, current)
        return
    with engine.begin() as connection:
        if opening._revision(connection) is None:  # no other thread was first
            for statement in _schema():
                connection.exec_driver_sql(statement)


@functools.cache
def _schema() -> tuple[str, ...]:
    """The statements that make an empty store, without those of the transaction around them."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "state.sqlite3"
        path.write_bytes(empty_database())
        with closing(sqlite3.connect(path)) as database:
            return tuple(database.iterdump())[1:-1]


_drawn: dict[str, Sequence[board_charts.Chart]] = {}
_draw = board_charts.charts


def _charts(*tables: object) -> Sequence[board_charts.Chart]:
    key = repr(tables)
    if key not in _drawn:
        _drawn[key] = _draw(*tables)  # type: ignore[arg-type]
    return _drawn[key]


@contextmanager
def unhurried(clock: ManualClock, *, for_days: bool = False) -> Iterator[None]:
    """Waiting takes no time: one SDK waits by itself between its tries of an upload; the loop looks up twice a minute
    whether or not anything is due, and every five seconds for what a limit holds back. ``for_days``: the history may
    last so long, and looks up less often."""
    with ExitStack() as stack:
        stack.enter_context(migrated())
        stack.enter_context(mock.patch.object(opening, "create_engine", _sharing))
        pacing = Pacing(idle=3600.0, held=120.0) if for_days else Pacing(idle=3600.0)
        stack.enter_context(mock.patch.object(Settings, "pacing", pacing))
        stack.enter_context(mock.patch("time.sleep", clock.sleep))
        stack.enter_context(mock.patch.object(accounts, "scrypt", _quick_digest))
        stack.enter_context(mock.patch.object(board_charts, "charts", return_value=[]))  # no claim is about charts
        _remember(stack, _Memory())
        yield


def _quick_digest(key: bytes, *, salt: bytes, dklen: int, **_cost: int) -> bytes:
    """No key here is anybody's: its digest need not be slow."""
    return hashlib.blake2b(key, key=hashlib.sha256(salt).digest(), digest_size=dklen).digest()


@functools.cache
def _first_engine(url: URL) -> Engine:
    """The engine others learn from, which has asked its server, or SQLite in memory, what it can do."""
    engine = create_engine(url)
    engine.connect().close()
    engine.dispose()
    return engine


def _sharing_on_sqlite(url: URL, **options: Any) -> Engine:
    make = _sharing if url.get_backend_name() == "sqlite" else create_engine
    return make(url, **options)


def _sharing(url: URL, **options: Any) -> Engine:
    """An engine that keeps what the ones before it have learnt: how a statement of ours is said in SQL.

    Every life of the program opens a new one, and would spend a fifth of its time on that.
    """
    engine = create_engine(url, **options)
    first = _first_engine(make_url("sqlite://") if url.get_backend_name() == "sqlite" else url)
    engine.dialect, engine._compiled_cache = first.dialect, first._compiled_cache
    return engine


class _Memory:
    """What stores were asked and answered, and from which tables; a commit forgets what was read from its tables."""

    def __init__(self) -> None:
        self.answers: dict[Asked, tuple[object, frozenset[str]]] = {}
        self.local = _Local()
        self._written: dict[int, set[str]] = defaultdict(set)  # by connection

    def executed(self, connection: object, statement: str) -> None:
        """Note the tables of a statement."""
        if self.local.reads:
            self.local.reads[-1] |= _tables_of(statement)
        if not statement.startswith(("SELECT", "BEGIN")):
            self._written[id(connection)] |= _tables_of(statement)

    def committed(self, connection: object) -> None:
        """Forget what was read from the tables that a transaction changed."""
        written = self._written.pop(id(connection), set()) | {_ANY}
        if not self.local.leases_only:
            self.answers = {asked: answer for asked, answer in self.answers.items() if answer[1].isdisjoint(written)}


class _Local(threading.local):
    """Of one thread: whether it changes leases only, and the tables that the readings it is within have read."""

    def __init__(self) -> None:
        self.leases_only = False
        self.reads: list[set[str]] = []


@functools.cache
def _tables_of(statement: str) -> frozenset[str]:
    """The tables that a statement of ours names."""
    return frozenset(re.findall(r"[a-z_]+", statement)) & schema.metadata.tables.keys()


def _remember(stack: ExitStack, memory: _Memory) -> None:
    """Until its tables change, by whomever, a store that is asked the same says the same; a commit that only moves the
    lease changes nothing."""
    replaced: list[tuple[type, str, Callable[..., Any]]] = [
        (DefaultDialect, "do_commit", _forgetting(memory)),
        (DefaultDialect, "do_execute", _noting(memory, "do_execute")),
        (DefaultDialect, "do_executemany", _noting(memory, "do_executemany")),
        *((RunStore, name, _remembering(name, memory)) for name in (*READ_AGAIN, *READ_AGAIN_ON_SQLITE)),
        *((RunStore, name, _telling(name, memory)) for name in OF_THE_LEASE),
    ]
    for owner, name, replacement in replaced:
        stack.enter_context(mock.patch.object(owner, name, replacement))


def _noting(memory: _Memory, name: str) -> Callable[..., None]:
    original = getattr(DefaultDialect, name)

    def execute(dialect: DefaultDialect, cursor: Any, statement: str, *rest: Any) -> None:
        memory.executed(cursor.connection, statement)
        original(dialect, cursor, statement, *rest)

    return execute


def _forgetting(memory: _Memory) -> Callable[..., None]:
    original: Callable[..., None] = DefaultDialect.do_commit

    def do_commit(dialect: DefaultDialect, connection: Any) -> None:
        original(dialect, connection)
        memory.committed(getattr(connection, "dbapi_connection", connection))

    return do_commit


def _telling(name: str, memory: _Memory) -> Callable[..., Any]:
    original = getattr(RunStore, name)

    def write(store: RunStore, *arguments: Any, **named: Any) -> Any:
        memory.local.leases_only = True
        try:
            return original(store, *arguments, **named)
        finally:
            memory.local.leases_only = False

    return write


def _remembering(name: str, memory: _Memory) -> Callable[..., Any]:
    original = getattr(RunStore, name)

    def read(store: RunStore, *arguments: Any, **named: Any) -> Any:
        if name not in READ_AGAIN and (store.arrive is not None or store.engine.dialect.name != "sqlite"):
            return original(store, *arguments, **named)
        by_name = {key: _hashable(value) for key, value in named.items()}
        place = f"{store.engine.url} {store.run_id}"
        asked = (place, name, (*map(_hashable, arguments), frozenset(by_name.items())))
        answer = memory.answers.get(asked)
        if answer is None:
            reads = memory.local.reads
            reads.append(set())
            try:
                found = original(store, *arguments, **named)
            finally:
                tables = reads.pop()
            answer = memory.answers[asked] = found, frozenset(tables if store.arrive is None else {_ANY})
        if memory.local.reads:
            memory.local.reads[-1] |= answer[1]
        found = answer[0]
        return copy.copy(found) if isinstance(found, list | dict) else found

    return read


def _hashable(argument: Any) -> Any:
    if isinstance(argument, list | tuple):
        return tuple(argument)
    return argument if isinstance(argument, Hashable) else frozenset(argument)
