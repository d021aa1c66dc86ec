"""Workers of an engine that are lost before their work, lost after it, or never say anything again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import BrokenExecutor, Future
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal
from unittest import mock

from layton_batch.runs import work_engine
from tests.simulation.interruptions import Inline
from tests.support.manual_clock import ManualClock

Loss = Literal["lost", "lost after", "silent"]


@dataclass(slots=True)
class Workers(Inline):
    """Do the work at once; piece number n of the history ends as ``losses`` say."""

    losses: Mapping[int, Loss]
    pieces: int = 0
    failed: int = 0

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        self.pieces += 1
        loss = self.losses.get(self.pieces)
        self.failed += loss is not None
        future = Future[Any]()
        if loss is None or loss == "lost after":
            future = Inline().submit(function, *arguments, **options)
        if loss == "silent":
            return Future[Any]()
        if loss is not None:
            future = Future[Any]()
            future.set_exception(BrokenExecutor("a worker ended"))
        return future

    @contextmanager
    def in_use(self, clock: ManualClock) -> Iterator[None]:
        """While the block runs these are the processes of the engine, and its deadlines pass on this clock."""

        def wait(futures: tuple[Future[Any], ...], seconds: float) -> None:
            if not all(future.done() for future in futures):
                clock.sleep(seconds)

        with (
            mock.patch.object(work_engine, "_processes", return_value=self),
            mock.patch.object(work_engine, "wait", wait),
        ):
            yield
