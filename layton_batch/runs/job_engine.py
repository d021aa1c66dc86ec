"""The engine that makes the tables of jobs: an executor of tasks.

A task is one job. It reads and writes files of the run's folder and nothing else; only the process that opened the run
uses the state store.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from layton_batch.errors import DamagedTableError, EngineError, ManifestError
from layton_batch.files import atomic, tables
from layton_batch.records import Job

if TYPE_CHECKING:
    from distributed import Client

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")
THREADS, PROCESSES, DASK = "threads", "processes", "dask://"
CONNECT_SECONDS = 10.0


class CallingThread(Executor):
    """Executor that does each task in the thread that submits it."""

    def submit(
        self, fn: Callable[Arguments, Result], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[Result]:
        """Do the task now. Interrupts are raised here, errors with the result."""
        future = Future[Result]()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # raised when the result is read
            future.set_exception(error)
        return future


@dataclass(slots=True)
class JobEngine:
    """Makes the tables of jobs. What is wrong with one table stops its job only.

    ``folder``: of the run's tables. ``note``: writes an event of such a kind with such a detail. ``is_remaking``: a
    damaged table was removed in this tick, or the worker that made it ended: the next tick makes it. ``trouble``: by
    job, or by what is made of all of them, why this process leaves it; a person has to see to it.
    """

    folder: Path
    note: Callable[[str, str], None]
    executor: Executor = field(default_factory=CallingThread)
    is_remaking: bool = False
    trouble: dict[str, str] = field(default_factory=dict)
    _removed: set[Path] = field(default_factory=set)

    def submit(
        self, work: Callable[Arguments, None], /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Future[None]:
        """Give a job's work to the engine. ``work``: a function of a module, of records that pickle can carry."""
        try:
            return self.executor.submit(work, *args, **kwargs)
        except BrokenExecutor:
            self.executor = CallingThread()
            return self.executor.submit(work, *args, **kwargs)

    def wait_for(self, job: Job, work: Future[None]) -> bool:
        """Wait for a job's work. Return False if its worker was lost: the next tick does the work in this process."""
        try:
            work.result()
        except (BrokenExecutor, CancelledError) as error:
            self.executor, self.is_remaking = CallingThread(), True
            reason = str(error) or type(error).__name__
            lost = f"the engine lost the worker that made its tables ({reason}); the next tick makes them"
            self.note("worker_lost", f"{job.id}: {lost}")
            return False
        return True

    def apart(self, about: str, work: Callable[[], bool]) -> bool:
        """Work on one job and return the result. A damaged table stops that job only: the rest of the run goes on.

        A damaged table of the run that is computed from others is removed, and its stage makes it again. Else the job
        is left as it is.
        """
        if about in self.trouble:
            return False
        try:
            return work()
        except DamagedTableError as error:
            is_new = error.path not in self._removed
            if is_new and error.path.is_relative_to(self.folder) and error.path.parent.name in tables.DERIVED:
                atomic.remove(error.path)
                self._removed.add(error.path)
                self.is_remaking = True
                self.note("table_made_again", f"{about}: {error}")
                return True
            self.trouble[about] = str(error)
            self.note("table_damaged", f"{about}: {error}")
            return False


def check_engine(name: str) -> None:
    """Raise ManifestError if no engine has this name."""
    if name not in (THREADS, PROCESSES) and (name == DASK or not name.startswith(DASK)):
        raise ManifestError(f"engine {name!r}: write {THREADS}, {PROCESSES} or {DASK}HOST:PORT")


@contextmanager
def opened_engine(name: str) -> Iterator[Executor]:
    """Open the engine of this name, and release its workers in the end, also those that are not done.

    Raises EngineError if Dask's scheduler cannot be reached, ManifestError if its address is wrong or Dask is missing.
    """
    check_engine(name)
    if name == THREADS:
        yield CallingThread()
    elif name == PROCESSES:
        executor = ProcessPoolExecutor(mp_context=get_context("spawn"), initializer=_ignore_interrupts)
        try:
            yield executor
        finally:
            executor.shutdown(wait=False, cancel_futures=True)
    else:
        with _connected(name) as client:
            yield client.get_executor(pure=False)


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C in a worker: the process that started it handles the stop."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _connected(name: str) -> Client:
    try:
        from distributed import Client

        return Client(name.removeprefix(DASK), timeout=CONNECT_SECONDS)  # type: ignore[no-untyped-call]
    except ImportError as error:
        install = "run pip install '.[dask]' in the checkout of layton-batch on every machine"
        raise ManifestError(f"engine {name}: {install}") from error
    except ValueError as error:
        raise ManifestError(f"engine {name}: {error}") from error
    except OSError as error:
        reason = str(error) or "no answer"
        raise EngineError(f"engine {name} cannot be reached ({reason}): is its scheduler running?") from error
