"""Engines: where results are read and the tables of jobs are made: in this process, in processes of this machine, or in
a Dask cluster.

What is done there reads and writes files of the run's folder, and nothing else; the state store is the opener's alone.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from dataclasses import dataclass, field
from multiprocessing import get_context
from threading import Lock
from typing import ParamSpec, TypeVar

from layton_batch.errors import EngineError, ManifestError

Asked = ParamSpec("Asked")
Made = TypeVar("Made")
THREADS, PROCESSES, DASK = "threads", "processes", "dask://"
CONNECT_SECONDS = 10.0
MOST_ENDED = 2
"""Workers that may end in the middle of their work before this process does it."""


@dataclass(slots=True)
class Engine:
    """Opened when first needed; provider threads and stages share it. Raises ManifestError for a name that is none."""

    name: str = THREADS
    _open: Executor | None = None
    _ended: int = field(default=0, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def __post_init__(self) -> None:
        is_cluster = self.name.startswith(DASK) and self.name != DASK
        if self.name not in (THREADS, PROCESSES) and not is_cluster:
            raise ManifestError(f"engine {self.name!r}: write {THREADS}, {PROCESSES} or {DASK}HOST:PORT")

    @property
    def is_here(self) -> bool:
        """Whether this process does the work itself: in the thread that asks for it."""
        return self.name == THREADS or self._ended >= MOST_ENDED

    def submit(self, work: Callable[Asked, Made], /, *args: Asked.args, **kwargs: Asked.kwargs) -> Future[Made]:
        """Have it done. ``work`` is a function of a module, of records that pickle can carry. Raises EngineError where
        the engine cannot be reached."""
        if self.is_here:
            return _done(work, *args, **kwargs)
        with self._lock:
            if self._open is None:
                self._open = _processes() if self.name == PROCESSES else _cluster(self.name.removeprefix(DASK))
            workers = self._open
        try:
            return workers.submit(work, *args, **kwargs)
        except BrokenExecutor as error:
            broken = Future[Made]()
            broken.set_exception(error)
            return broken

    def renew(self) -> None:
        """A worker ended in the middle of its work: the next work gets new ones, and later none."""
        self._ended += 1
        self.close()

    def close(self) -> None:
        """Let go of the workers, once they are done."""
        executor, self._open = self._open, None
        if executor is not None:
            executor.shutdown()


def _done(work: Callable[Asked, Made], *args: Asked.args, **kwargs: Asked.kwargs) -> Future[Made]:
    """Work that was done before this returns; what is no error of it ends the caller."""
    found = Future[Made]()
    try:
        found.set_result(work(*args, **kwargs))
    except Exception as error:  # raised where the result is asked for
        found.set_exception(error)
    return found


def _processes() -> Executor:
    return ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"), initializer=_alone)


def _alone() -> None:
    """A stop is told to the process that asked."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _cluster(address: str) -> Executor:
    try:
        from distributed import Client
    except ImportError as error:
        install = "run pip install '.[dask]' in the checkout of layton-batch on every machine"
        raise ManifestError(f"engine {DASK}{address}: {install}") from error
    try:
        return _Cluster(Client(address, timeout=CONNECT_SECONDS))  # type: ignore[no-untyped-call]
    except OSError as error:
        raise EngineError(f"engine {DASK}{address} cannot be reached ({error}): is its scheduler running?") from error


class _Cluster(Executor):
    """A client's executor that takes the client along when it is closed."""

    def __init__(self, client: object) -> None:
        self._client, self._executor = client, client.get_executor()  # type: ignore[attr-defined]

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        return self._executor.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        self._executor.shutdown(wait=wait)
        self._client.close()  # type: ignore[attr-defined]
