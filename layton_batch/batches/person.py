"""A person's commands about batches: stop them all, and say where a lost one is.

Nothing more is sent of a cancelled run; what providers have is asked to stop, and is still collected. Whoever drives
the run meanwhile leaves a lost batch alone.
"""

from __future__ import annotations

from collections.abc import Sequence

from layton_batch.batches import machine
from layton_batch.batches.bill import total_bound
from layton_batch.batches.look import sent_already, surely_ours
from layton_batch.batches.steps import ProviderLists, at
from layton_batch.clock import utc
from layton_batch.errors import ManifestError, ProviderError, UnknownStatusError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch
from layton_batch.runs.context import Run
from layton_batch.runs.provider_threads import ProviderThread
from layton_batch.states import Lifecycle


def stop_rest(run: Run, thread: ProviderThread) -> bool:
    """Stop the thread's batches of a cancelled run that were not sent, or were sent while the run was cancelled: the
    next poll asks their provider. Return whether there were any."""
    batches = run.store.batches({Lifecycle.PLANNED, Lifecycle.IN_FLIGHT}, thread.provider)
    batches, now = [batch for batch in batches if run.threads.of(batch) == thread], run.clock.now()
    for batch in batches:
        if batch.state is Lifecycle.PLANNED:
            withdraw(run, batch, "the run was cancelled before this was sent")
        else:
            run.store.apply(batch, machine.to_stop(batch, now), now)
    return bool(batches)


def withdraw(run: Run, batch: Batch, reason: str) -> None:
    """A planned batch is over before it was sent."""
    now = run.clock.now()
    run.store.apply(batch, machine.withdrawn(batch, reason, now), now)


# ---- a lost batch ------------------------------------------------------------------------------------------------


def adopt_batch(run: Run, batch_id: str, provider_id: str) -> None:
    """The batch is this one at the provider. Raises ManifestError where ours is not lost, or that one cannot be it;
    ProviderError where the provider does not know that id."""
    batch = _lost(run, batch_id)
    if (owner := run.store.owner_of(provider_id, batch.id)) is not None:
        raise ManifestError(f"{provider_id} is batch {owner[1]} of run {owner[0]}: adopt another, or --resubmit")
    provider = run.providers.get(batch.provider)
    status, total = _reading(provider, provider_id)
    is_its_own = provider_id == batch.provider_id  # also where the provider has lost a row of it since
    if not is_its_own and total not in (None, 0, batch.requests):
        raise ManifestError(
            f"{provider_id} holds {total} requests, batch {batch.id} {batch.requests}: it is another one"
        )
    try:
        marked = _marked(run, batch)
    except ProviderError:
        marked = []  # the list cannot be read now: the person's word and the batch's own size have to do
    if marked and provider_id not in marked and not is_its_own:
        raise ManifestError(f"{_told(batch, marked)}, {provider_id} does not: adopt that one")
    now = at(run, batch)
    run.store.apply(batch, machine.adopted(batch, provider_id, status, now), now.now)


def _reading(provider: Provider, provider_id: str) -> tuple[str, int | None]:
    """The provider's word for the batch, known to us or not, and how many requests it holds."""
    try:
        snapshot = provider.snapshot(provider_id)
    except UnknownStatusError as error:
        return error.code or "unknown", None
    return snapshot.provider_status, snapshot.total


def send_again(run: Run, batch_id: str) -> None:
    """Plan the lost batch again, which may be paid for once more. What the earlier create may have cost goes on
    counting against the budget.

    Raises ManifestError where it is not lost, or its create may still reach the provider, or the provider shows that it
    was made (no person need be asked then), or its list cannot be read.
    """
    batch = _lost(run, batch_id)
    _require_absent(run, batch)
    now = run.clock.now()
    move = machine.sent_again(batch, total_bound(run.store.asked_of(batch.id).values()), now)
    run.store.apply(batch, move, now)


def not_made(run: Run, batch_id: str) -> None:
    """No create of the batch without an answer was carried out: none of them cost anything. A lost batch is planned
    again.

    Raises ManifestError where there is no such create, or the provider shows that it was made, and as ``send_again``.
    """
    batch = run.store.batch(batch_id)
    if batch.state is Lifecycle.LOST and batch.provider_id is not None:
        raise ManifestError(f"batch {batch.id} was made: it is {batch.provider_id}. `--resubmit` pays for it once more")
    if batch.state is not Lifecycle.LOST and not batch.creates_of_unknown_cost:
        raise ManifestError(f"batch {batch.id} of run {run.id} is {batch.state}, and each of its creates was answered")
    _require_absent(run, batch)
    now = run.clock.now()
    run.store.apply(
        batch, machine.never_made(batch, now, bound=total_bound(run.store.asked_of(batch.id).values())), now
    )


def _require_absent(run: Run, batch: Batch) -> None:
    """Raise ManifestError where the batch's create may still arrive, its provider shows that it was made, or its list
    cannot be read."""
    now, sent, longest = run.clock.now(), batch.submitting_at, sum(run.pacing.looks)
    if batch.provider_id is None and sent is not None and abs(now - sent) < longest:
        raise ManifestError(
            f"batch {batch.id} is not sent again yet: its create may still reach {batch.provider} until "
            f"{utc(sent + longest):%H:%M:%S} UTC. Look in the console then; if it is not there, give this command again"
        )
    try:
        marked = _marked(run, batch)
    except ProviderError as error:
        raise ManifestError(
            f"batch {batch.id} is not sent again: the list of {batch.provider}, which may show that it was made, could "
            f"not be read ({error}); try again later, or `--adopt` it"
        ) from error
    if marked:
        raise ManifestError(f"{_told(batch, marked)}: it was made, and would be paid twice. `--adopt {marked[0]}`")


def ignore_copy(run: Run, batch_id: str) -> None:
    """Send the planned batch although a copy of the workspace sent others. They are known from now on, and never this
    workspace's. Raises ManifestError where no copy holds it back, ProviderError where the list cannot be read."""
    batch = run.store.batch(batch_id)
    provider = run.providers.get(batch.provider)
    matches = sent_already(run, ProviderLists(), provider, batch, batch.input_ref)
    copies = [match.provider_id for match in matches if match.of_a_copy]
    if batch.state is not Lifecycle.PLANNED or not copies:
        raise ManifestError(f"no batch of a copy of this workspace holds {batch_id} back: there is nothing to ignore")
    run.store.know_provider_ids(batch_id, copies)
    for waiting in run.store.batches({Lifecycle.PLANNED}):
        if waiting.provider == batch.provider and waiting.needs_person:
            run.store.apply(waiting, machine.after_ignoring(waiting, run.clock.now()), run.clock.now())


def give_up(run: Run, batch_id: str) -> None:
    """Nobody can say what became of the batch: its requests end without an answer, and what they may have cost is
    unknown cost. Raises ManifestError where the batch is not lost."""
    batch, now = _lost(run, batch_id), run.clock.now()
    run.store.apply(batch, machine.given_up(batch, now), now)


def _marked(run: Run, batch: Batch) -> list[str]:
    """Ids of the batches at the provider that are surely this one. Raises ProviderError where it does not list them."""
    matches = surely_ours(run, run.providers.get(batch.provider), batch)
    return [match.provider_id or "one without an id" for match in matches if match.certain]


def _told(batch: Batch, marked: Sequence[str]) -> str:
    return f"{batch.provider} shows {', '.join(marked)} with the marks of batch {batch.id}"


def _lost(run: Run, batch_id: str) -> Batch:
    batch = run.store.batch(batch_id)
    if batch.state is not Lifecycle.LOST:
        raise ManifestError(f"batch {batch_id} of run {run.id} is {batch.state}, not lost: there is nothing to resolve")
    return batch
