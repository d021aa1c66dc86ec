"""The engine of a run: the executor of the tasks that write the tables of jobs.

A task is one job. It reads and writes files of the run's folder and nothing else; only the process that opened the run
uses the state store.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing import get_context
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from layton_batch.errors import EngineError, ManifestError

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
