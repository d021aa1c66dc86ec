"""Commands that look at a run while it is driven: they change nothing, and end with an answer or a sentence."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from layton_batch.errors import LaytonBatchError
from layton_batch.manifest.manifest import Manifest
from layton_batch.reports.status_tables import batches_table, status_json
from layton_batch.runs.status import read_status
from layton_batch.runs.stores import open_store
from layton_batch.stages.preview import preview
from layton_batch.stages.publish import cost_report
from layton_batch.verification.verify import verify_run

if TYPE_CHECKING:
    from tests.simulation.world import History

Command = Literal["status", "cost", "plan", "verify"]


@dataclass(frozen=True, slots=True)
class Look:
    """At point ``at`` of the history somebody calls the command, in another process."""

    at: int
    command: Command


@dataclass(slots=True)
class Beside:
    """The looks of a history that are still to come, and what broke in those before."""

    looks: list[Look]
    broken: list[str] = field(default_factory=list)
    done: int = 0

    def look(self, found: History, asked: Manifest) -> None:
        """Call the commands that are due, each in a thread that is no program of the history."""
        while self.looks and self.looks[0].at <= found.has_passed:
            look = self.looks.pop(0)
            self.done += 1
            thread = threading.Thread(target=self._call, args=(look, found, asked), name=look.command)
            thread.start()
            thread.join()

    def _call(self, look: Look, found: History, asked: Manifest) -> None:
        found.course.hands.pop(threading.get_ident(), None)  # of a program that ended: numbers of threads come again
        try:
            with suppress(LaytonBatchError):  # a sentence, such as that there is no run yet
                _CALLS[look.command](found, asked)
        except Exception as error:
            self.broken.append(f"{look.command} at point {look.at} ended with {type(error).__name__}: {error}")


def _status(found: History, _asked: Manifest) -> None:
    with open_store(found.folder, found.settings) as store:
        status_json(read_status(store))
        batches_table(read_status(store).batches, found.clock.now())


def _cost(found: History, _asked: Manifest) -> None:
    cost_report([found.folder])


def _plan(found: History, asked: Manifest) -> None:
    preview(asked, found.settings, found.clock, runs=found.folder.root.parent)


def _verify(found: History, _asked: Manifest) -> None:
    verify_run(found.folder, found.settings)


_CALLS: Mapping[Command, Callable[[History, Manifest], None]] = {
    "status": _status,
    "cost": _cost,
    "plan": _plan,
    "verify": _verify,
}
