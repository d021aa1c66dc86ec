"""What a person does in a history: commands beside `run`, looks at a provider's console; and when that is due."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layton_batch.batches.cancel import cancel_run
from layton_batch.batches.resolve import adopt_batch, send_again
from layton_batch.batches.retry import retry_run
from layton_batch.clock import Clock
from layton_batch.errors import AnotherDriverError, ManifestError, ProviderError
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Batch
from layton_batch.runs.context import Run
from layton_batch.runs.open import open_run
from layton_batch.runs.status import RunState, Status
from layton_batch.runs.stores import open_store
from layton_batch.states import OPEN, Lifecycle
from layton_batch.store.orders import OrderKind, give_order
from layton_batch.store.run_store import RunStore

if TYPE_CHECKING:
    from layton_batch.sandbox import Fault
    from tests.simulation.world import History, Plan

PATIENT_LOOKS = 1_000
"""How often a person comes back after a second."""
_LOOKS_OF_DAYS = 10_000
"""How often a person comes back after a minute: longer than any outage."""
ATTEMPTS = 3
"""What a request gets by itself."""
FEW_RETRIES = 3
"""How often a person calls `retry` for what the world's faults do not count."""
LOSSY = {("batch", name) for name in ("stop", "fail", "expire", "cancel")} | {("row", "missing"), ("row", "error")}
"""Faults that leave a request without an answer, which takes one of its attempts."""
TOO_LARGE = "exceeds what a batch may have"
"""In the sentence of a provider that fails a batch for its size."""
SERVER_ERROR = 500
ELSEWHERE = "is the key of another project?"
"""In the reason of a batch that the account does not show."""


def cancel(found: History, asked: Manifest, clock: Clock) -> None:
    """What `layton-batch cancel --no-wait` does."""
    with open_run(asked, found.folder.root.parent, found.settings, clock=clock) as run:
        cancel_run(run)
        row = run.store.row()
        found.cancelled = row is not None and row.cancelled  # what is done already stays so


def retry(found: History, asked: Manifest, clock: Clock) -> None:
    """What `layton-batch retry` does: where another program drives the run, it is left an order."""
    if found.by_itself is None:
        rows = found.providers.ledger().rows
        found.by_itself = tuple(row.custom_id for row in rows if row.batch_id not in found.providers.hidden)
    try:
        with open_run(asked, found.folder.root.parent, found.settings, clock=clock) as run:
            retry_run(run)
    except AnotherDriverError:
        with open_store(found.folder, found.settings) as store:
            give_order(store, OrderKind.RETRY, clock.now())
    found.cancelled = False


def is_stuck(found: History, status: Status) -> bool:
    """Whether a person is asked for, or nothing ends under another account."""
    is_elsewhere = status.state is RunState.RUNNING and found.plan.swarm.changes_account
    return status.state is RunState.NEEDS_PERSON or is_elsewhere


def resolve(found: History, asked: Manifest, clock: Clock) -> None:
    """What a person does who comes when the outage is over: sets the keys of the accounts that have the batches, looks
    for every `lost` batch at its provider, puts back the damaged files that batches wait for, and has asked again what
    a provider cancelled."""
    clock.sleep(sum(outage.seconds for outage in found.plan.outages))
    found.troubles.last = found.clock.true()  # a person took so long
    if found.plan.swarm.changes_account:
        _set_keys(found)
    with open_run(asked, found.folder.root.parent, found.settings, clock=clock) as run:
        found.troubles.rot.put_back(" ".join(batch.reason or "" for batch in run.store.batches()))
        for batch in run.store.batches({Lifecycle.LOST}):
            if _is_other(found, run.store, batch) == found.troubles.surroundings.has_other(batch.provider):
                _resolve(found, run, batch.id, clock)
        if any(batch.state is Lifecycle.COLLECTED and batch.needs_person for batch in run.store.batches()):
            retry_run(run)


def _set_keys(found: History) -> None:
    """Set the key of the account that has a provider's first open batch; the others have their turn after it."""
    with open_store(found.folder, found.settings) as store:
        first = {batch.provider: batch for batch in reversed(store.batches(OPEN - {Lifecycle.PLANNED}))}
        wanted = {provider: _is_other(found, store, batch) for provider, batch in first.items()}
    for provider, is_other in wanted.items():
        if is_other != found.troubles.surroundings.has_other(provider):
            found.troubles.switch(provider)


def _is_other(found: History, store: RunStore, batch: Batch) -> bool:
    """Whether the other account has the batch. A batch that none has is looked for in the first."""
    name = batch.provider_id or _seen_in_console(found, store, batch)
    return name in {theirs.id for theirs in found.providers.batches_at(batch.provider, is_other=True)}


def _resolve(found: History, run: Run, batch_id: str, clock: Clock) -> None:
    """Again where the provider does not answer, until it does or somebody else has done it."""
    for _ in range(_LOOKS_OF_DAYS):
        batch = run.store.batch(batch_id)
        if batch.state is not Lifecycle.LOST:
            return
        name = batch.provider_id or _seen_in_console(found, run.store, batch)
        if _was_adopted(run, batch) and batch.provider_id and ELSEWHERE not in (batch.reason or ""):
            name = None  # it shows no more than it did then: its rows are bought again
        try:
            if name is None:
                send_again(run, batch.id)
            else:
                adopt_batch(run, batch.id, name)
        except (ManifestError, ProviderError):
            clock.sleep(60.0)
    raise AssertionError(f"{batch_id} cannot be resolved")


def _was_adopted(run: Run, batch: Batch) -> bool:
    return any(event.kind == "adopted" and event.batch_id == batch.id for event in run.store.events())


def _seen_in_console(found: History, store: RunStore, batch: Batch) -> str | None:
    """The provider's batch of these requests that no batch of ours stands for."""
    ours = {other.provider_id for other in store.batches()}
    first = next(iter(store.asked_of(batch.id))).encode()
    for theirs in found.providers.batches(batch.provider):
        is_as_large = theirs.rows in (0, batch.requests)  # 0: its rows are not counted yet
        if theirs.id not in ours and is_as_large and first in found.providers.requests_of(theirs):
            return theirs.id
    return None


def calls_for_retry(plan: Plan) -> bool:
    """Whether a person is to `retry` what the program rightly leaves without an answer: damaged rows, a row that is
    missing where nothing counts rows or when it is the only one of its batch, one that alone is said to be too large,
    and one that took all its attempts."""
    lossy = [fault for fault in plan.faults if (fault.on, fault.action) in LOSSY]
    if sum(fault.times for fault in lossy) >= ATTEMPTS:
        return True
    uncounted = {"*", "together"} | {fault.provider for fault in plan.faults if not fault.counts}
    some_go_alone = plan.reask > 0 or any(fault.on == "batch" for fault in lossy)
    return plan.retry_at is not None or any(
        fault.action == "malformed_line"
        or TOO_LARGE in fault.name
        or (fault.action == "missing" and (some_go_alone or fault.provider in uncounted))
        for fault in plan.faults
    )


def most_retries(plan: Plan) -> int:
    """How often a person may have to `retry`: each fault that leaves a request without an answer may ask for one."""
    return sum(fault.times for fault in plan.faults if (fault.on, fault.action) in LOSSY) + FEW_RETRIES


def is_unclear(fault: Fault) -> bool:
    """Whether nobody can tell from the reply whether the call was carried out."""
    return fault.action != "status" or fault.status >= SERVER_ERROR


def calls_for_a_person(plan: Plan) -> bool:
    """Whether the program may rightly wait for a person: after an outage, a clock that was set, a change of keys, two
    creates in doubt or a cancel that it did not ask for, while a list is refused, or where a batch of Gemini's has no
    row to name."""
    commands = [at for at in (plan.cancel_at, plan.retry_at) if at is not None and plan.programs == 1]
    kills = len(plan.stops) + len(plan.edits) + len(commands)  # a command and an edit come when the program is killed
    kills += len(plan.freezes)  # another program goes on, and this one may have been about to pay
    doubts = kills + len(plan.denied) + (plan.late_create is not None)
    unclear = [fault for fault in plan.faults if fault.on == "create" and is_unclear(fault)]
    doubts += sum(fault.times for fault in unclear)
    return (
        bool(plan.outages or plan.moves or plan.takes_back)
        or plan.swarm.leaves_doubts
        or doubts > 1
        or any(fault.on == "list" and fault.times > 1 for fault in plan.faults)
        or any((fault.on, fault.action) == ("batch", "cancel") for fault in plan.faults)
        or any(fault.action == "missing" and fault.provider in ("*", "gemini") for fault in plan.faults)
    )
