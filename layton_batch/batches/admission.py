"""Admission: which planned batches are sent now. What would break a limit or the budget is held back with a reason."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from decimal import Decimal

from layton_batch.batches import machine
from layton_batch.batches.decisions import at
from layton_batch.records import Batch
from layton_batch.runs.context import Run
from layton_batch.states import OPEN, Lifecycle
from layton_batch.store.standing import ProviderLoad

_MAY_RELEASE = OPEN - {Lifecycle.PLANNED, Lifecycle.LOST}
"""States of a batch whose reserve is released in time, by itself."""
_CUSTOM_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")


def custom_id_problem(custom_id: str) -> str | None:
    """Why a request's name would be refused: what every provider here takes is 1 to 64 of ``A-Za-z0-9_-``."""
    if _CUSTOM_ID.fullmatch(custom_id):
        return None
    return f"custom_id {custom_id[:80]!r} is not 1 to 64 of A-Z a-z 0-9 _ -"


def admitted(run: Run, due: Sequence[Batch], planned: Sequence[Batch], sending: Sequence[Batch]) -> list[Batch]:
    """Return those of the ``due`` batches that can be sent now, together; the store gets why the others cannot.

    ``planned``: every planned batch but those ``sending``, which threads are about to send and which count as sent.
    A batch that waits for a person comes last: it is perhaps not sent, and must not take the room of one that is.
    Before it comes what no list showed so far, after what was not sent yet.
    """
    due = sorted(due, key=lambda batch: (batch.needs_person, batch.facts.absent_creates))
    return _within_limits(run, _affordable(run, _with_files(run, due), planned, sending), sending)


def _with_files(run: Run, planned: Sequence[Batch]) -> list[Batch]:
    """Return the batches whose files are here."""
    root = run.folder.workspace.root
    present = []
    for batch in planned:
        if (root / batch.path).is_file():
            present.append(batch)
        else:
            run.store.apply(batch, machine.without_file(batch, root), run.clock.now())
    return present


def _affordable(run: Run, due: Sequence[Batch], planned: Sequence[Batch], sending: Sequence[Batch]) -> list[Batch]:
    """Return the due batches that cannot break the budget even if every request costs its upper bound.

    The run is stopped by its budget where nothing planned, due or not, fits beside what is spent and reserved already,
    and no batch is at a provider, whose reserve may be released. A batch that waits for a person does not count: it is
    not sent whatever fits. A batch that has to wait for others is held back, which stops nothing.
    """
    budget, now = run.manifest.budget.max_usd, run.clock.now()
    if budget is None:
        run.store.set_stopped(None, now)
        return list(due)
    committed = run.store.money().committed + sum((batch.max_cost or Decimal(0) for batch in sending), Decimal(0))
    reasons = [machine.unaffordable(batch, committed, budget) for batch in planned if not batch.needs_person]
    stops = bool(reasons) and all(reasons) and not sending and not run.store.batches(_MAY_RELEASE)
    run.store.set_stopped(reasons[0] if stops else None, now)
    allowed = []
    for batch in due:
        if reason := machine.unaffordable(batch, committed, budget):
            run.store.apply(batch, machine.held_back(batch, reason), now)
        else:
            committed += batch.max_cost or Decimal(0)
            allowed.append(batch)
    return allowed


def _within_limits(run: Run, planned: Sequence[Batch], sending: Sequence[Batch]) -> list[Batch]:
    """Return the batches that could all be sent now without breaking a limit of their providers."""
    now = run.clock.now()
    loads: dict[str, ProviderLoad] = {}
    allowed = []
    for batch in planned:
        load = loads.get(batch.provider)
        if load is None:
            load = run.store.load(batch.provider, now)
            for other in sending:
                load = load.plus(other, now) if other.provider == batch.provider else load
        wait = machine.paused(batch, load, now, run.pacing)
        wait = wait or machine.over_limit(batch, load, run.providers.dialect(batch.provider).limits)
        if wait is None:
            load = load.plus(batch, now)
            allowed.append(batch)
        else:
            run.store.apply(batch, wait, now)
        loads[batch.provider] = load
    return allowed


def warn_of_results(run: Run, batches: Iterable[Batch]) -> None:
    """Write an event, once a batch, where results not yet here will not be kept much longer at the provider, and where
    the batch was paid for with another account than it is asked about with."""
    for batch in batches:
        moment = at(run, batch)
        if (warning := machine.under_another_account(batch, moment)) is not None:
            batch = run.store.apply(batch, warning, moment.now)
        if (warning := machine.expiring(batch, moment.retention, moment.now)) is not None:
            run.store.apply(batch, warning, moment.now)
