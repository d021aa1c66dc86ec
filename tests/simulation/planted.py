"""Three faults of the kind that the simulation is there to find, planted into one life of the program.

This is the one module here that names inner parts of the program: whoever rewrites them plants the same faults anew.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any
from unittest import mock

from layton_batch.batches import machine
from layton_batch.errors import AmbiguousCallError, TransientProviderError
from layton_batch.records import Batch, Wait
from layton_batch.store import run_lock

LOCK, ID, UNCLEAR = "lock removed", "id not committed", "unclear create taken for unmade"
FAULTS = (LOCK, ID, UNCLEAR)

_after_create = machine.after_create


def plant(fault: str) -> None:
    """Have the program of this process make a mistake."""
    match fault:
        case (
            "lock removed"
        ):  # nothing keeps two processes from acting at once, and an unclear create belongs to anybody
            _replace(run_lock, "driving", lambda *_arguments: nullcontext())
            _replace(machine, "before_call", lambda *_arguments: None)
        case "id not committed":
            _replace(machine, "after_create", _forgetting)
        case "unclear create taken for unmade":
            _replace(machine, "after_create", _careless)
        case _:
            raise AssertionError(fault)


def _replace(owner: Any, name: str, replacement: object) -> None:
    mock.patch.object(owner, name, replacement).start()


def _forgetting(batch: Batch, reply: Any, at: Any) -> Any:
    decision = _after_create(batch, reply, at)
    return Wait(replace(batch, due_at=at.now)) if isinstance(reply, str) else decision


def _careless(batch: Batch, reply: Any, at: Any) -> Any:
    unmade = TransientProviderError(str(reply)) if isinstance(reply, AmbiguousCallError) else reply
    return _after_create(batch, unmade, at)
