"""Engines: where results are read and the tables of jobs are made: in this process, in processes of this machine, or in
a Dask cluster.

What is done there reads and writes files of the run's folder, and nothing else; the state store is the opener's alone.
A scheduler or a worker that is frozen answers nothing, and nobody tells of it: whoever waits stops at a deadline.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from concurrent.futures import (
    BrokenExecutor,
    CancelledError,
    Executor,
    Future,
    ProcessPoolExecutor,
    ThreadPoolExecutor,
    wait,
)
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from secrets import token_hex
from threading import Lock
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from layton_batch.clock import Deadlines
from layton_batch.errors import EngineError, ManifestError, file_error

if TYPE_CHECKING:
    from distributed import Client

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
THREADS, PROCESSES, DASK, DASK_TLS = "threads", "processes", "dask://", "tls://"
FORMS = f"{THREADS}, {PROCESSES}, {DASK}HOST:PORT or {DASK_TLS}HOST:PORT"
CONNECT_SECONDS = 10.0
CLOSE_SECONDS = 2.0
CHECK_SECONDS = 60.0
"""How long a cluster's workers may take to show that they see the run's folder."""
MOST_ENDED = 2
"""Workers that may end in the middle of their work before this process does it."""


@dataclass(slots=True)
class Engine:
    """Opened when first needed; provider threads and stages share it. ``deadline``: seconds of one wait for a result.

    Raises ManifestError for a name that is none.
    """

    name: str = THREADS
    deadline: float = Deadlines().engine
    _open: Executor | None = None
    _ended: int = field(default=0, init=False)
    _lock: Lock = field(default_factory=Lock, init=False)

    def __post_init__(self) -> None:
        if self.name not in (THREADS, PROCESSES) and not self.is_cluster:
            raise ManifestError(f"engine {self.name!r}: write {FORMS}")

    @property
    def is_cluster(self) -> bool:
        """Return whether the name is the address of a Dask scheduler."""
        return any(self.name.startswith(scheme) and self.name != scheme for scheme in (DASK, DASK_TLS))

    @property
    def is_here(self) -> bool:
        """Return whether this process does the work itself, in the calling thread."""
        return self.name == THREADS or self._ended >= MOST_ENDED

    def submit(
        self, work: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        """Have it done. ``work`` is a function of a module, of records that pickle can carry. Raises EngineError where
        the engine cannot be reached."""
        if self.is_here:
            return _done(work, *args, **kwargs)
        try:
            return self._workers().submit(work, *args, **kwargs)
        except BrokenExecutor as error:
            broken = Future[Result]()
            broken.set_exception(error)
            return broken

    def result(self, future: Future[Result]) -> Result:
        """Return what the work came to. Raises what it raises, and BrokenExecutor where a worker was lost with it, or
        says nothing until the deadline."""
        wait((future,), self.deadline)
        if not future.done():
            raise BrokenExecutor(f"no result in {self.deadline:g} seconds")
        try:
            return future.result()
        except CancelledError as error:
            raise BrokenExecutor("its cluster was left, or lost it") from error

    def check_folder(self, folder: Path) -> None:
        """Have each worker of a cluster read and write in the folder of a run.

        Raises ManifestError where one cannot, EngineError where the cluster does not answer or has no workers.
        """
        if self.is_cluster and not self.is_here and isinstance(workers := self._workers(), _Cluster):
            workers.check_folder(folder.absolute(), min(CHECK_SECONDS, self.deadline))

    def renew(self) -> None:
        """Release the workers after one was lost. The next work gets new workers, but not without end."""
        self._ended += 1
        self.close()

    def close(self) -> None:
        """Release the workers, also those that are not done."""
        executor, self._open = self._open, None
        if executor is not None:
            executor.shutdown(wait=False, cancel_futures=True)

    def _workers(self) -> Executor:
        with self._lock:
            if self._open is None:
                self._open = _processes() if self.name == PROCESSES else _Cluster(self.name)
            return self._open


def _done(work: Callable[Arguments, Result], *args: Arguments.args, **kwargs: Arguments.kwargs) -> Future[Result]:
    """Do the work now and return it as a future. Interrupts are raised here, errors with the result."""
    future = Future[Result]()
    try:
        future.set_result(work(*args, **kwargs))
    except Exception as error:  # raised when the result is read
        future.set_exception(error)
    return future


def _processes() -> Executor:
    return ProcessPoolExecutor(os.cpu_count(), mp_context=get_context("spawn"), initializer=_alone)


def _alone() -> None:
    """Ignore Ctrl-C in a worker: the process that started it handles the stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class _Cluster(Executor):
    """The executor of a client of a Dask scheduler, which is closed with it. ``name``: the engine's."""

    def __init__(self, name: str) -> None:
        self._name = name
        try:
            from distributed import Client
        except ImportError as error:
            install = "run pip install '.[dask]' in the checkout of layton-batch on every machine"
            raise ManifestError(f"engine {name}: {install}") from error
        address = name.removeprefix(DASK)
        try:
            with ThreadPoolExecutor(1) as thread:  # a caller's thread may have an event loop of its own
                thread.submit(asyncio.run, _reach(address)).result()
            self._client: Client = Client(address, timeout=CONNECT_SECONDS)  # type: ignore[no-untyped-call]
        except (TypeError, ValueError) as error:  # certificates that are missing or wrong, an address that is none
            raise ManifestError(f"engine {name}: {error}") from error
        except OSError as error:
            reason = str(error) or "no answer"
            raise EngineError(f"engine {name} cannot be reached ({reason}): is its scheduler running?") from error
        self._executor = self._client.get_executor(pure=False)  # type: ignore[no-untyped-call]

    def submit(self, fn, /, *args, **kwargs):  # type: ignore[no-untyped-def]
        return self._executor.submit(fn, *args, **kwargs)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        with suppress(TimeoutError):
            self._client.close(timeout=CLOSE_SECONDS)  # type: ignore[no-untyped-call]

    def check_folder(self, folder: Path, seconds: float) -> None:
        nonce, text = folder / f".seen-{token_hex(8)}", token_hex(16)
        try:
            nonce.write_text(text, encoding="ascii")
            answers = self._client.run(copy_nonce, nonce, on_error="return", callback_timeout=seconds)
        except TimeoutError as error:
            raise EngineError(
                f"engine {self._name}: its scheduler or a worker gives no answer in {seconds:g} seconds; nothing is "
                "sent before: start it again"
            ) from error
        except OSError as error:
            raise file_error(f"the run folder {folder} cannot be written: {error}", error) from error
        finally:
            nonce.unlink(missing_ok=True)
        if not answers:
            raise EngineError(
                f"engine {self._name} has no workers; nothing is sent before there are some (docs/cluster.md)"
            )
        for worker, answer in sorted(answers.items()):
            if answer != text:
                raise ManifestError(
                    f"engine {self._name}: its worker {worker} cannot work in {folder} ({answer}); nothing is sent: "
                    "mount the folder of runs there under the same path, and install layton-batch there"
                )


async def _reach(address: str) -> None:
    """Connect to a scheduler. Raises TimeoutError where it does not answer: Dask's client would wait for ever."""
    from distributed.comm.core import connect
    from distributed.security import Security

    how = Security().get_connection_args("client")  # type: ignore[no-untyped-call]
    connection = await asyncio.wait_for(connect(address, CONNECT_SECONDS, **how), CONNECT_SECONDS)  # type: ignore[no-untyped-call]
    connection.abort()


def copy_nonce(nonce: Path) -> str:
    """Return what the file holds, and write beside it as tables are written. Raises OSError."""
    text, copy = nonce.read_text(encoding="ascii"), nonce.with_name(f"{nonce.name}-{token_hex(4)}")
    copy.write_text(text, encoding="ascii")
    copy.unlink()
    return text
