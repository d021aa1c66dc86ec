"""Submit: from planned batches to batches the provider has, each paid for once.

The order per batch: bring the file to the provider (free), commit the intent and the money set aside for it, send the
one paid call, commit the provider's id. Whatever ends between intent and id leaves the batch `submitting`, and the
next pass looks for it by its tag before anything is sent again.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from decimal import Decimal

from layton_batch.batches import machine
from layton_batch.batches.admission import HELD, with_files, within_limits
from layton_batch.batches.batch_file import check_file
from layton_batch.batches.cancel import is_cancelled, stop_rest
from layton_batch.batches.decisions import Answering, NoAnswer, Step, at, carry_out, step_each
from layton_batch.batches.reconcile import reconcile, sent_already, submission
from layton_batch.clock import is_due
from layton_batch.errors import FileError, ProviderError, SentElsewhereError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, Found
from layton_batch.runs.context import Run
from layton_batch.runs.lanes import Lane
from layton_batch.states import Lifecycle
from layton_batch.store.standing import HeldBack


def submit(run: Run, lane: Lane, ready: Sequence[Batch]) -> bool:
    """Settle what was being sent in this lane when the program stopped, then send what is ready."""
    stopped = False
    if is_cancelled(run):
        stopped = stop_rest(run, lane)
        ready = [batch for batch in ready if batch.state is Lifecycle.SUBMITTING]
    return stopped | _submit_group(run, lane, ready)


def to_send(run: Run) -> Mapping[Lane, Sequence[Batch]]:
    """Return what is due to be settled or sent now, by lane, without the lanes at work: weighed together, for all share
    one budget and the limits of their providers."""
    now, in_hand = run.clock.now(), run.in_hand
    waiting = run.store.batches({Lifecycle.SUBMITTING, Lifecycle.PLANNED})
    sending = [batch for batch in waiting if batch.state is Lifecycle.PLANNED and batch.id in in_hand]
    due = [batch for batch in waiting if is_due(batch.due_at, now) and not run.lanes.is_at_work(run.seats.lane(batch))]
    unsettled = [batch for batch in due if batch.state is Lifecycle.SUBMITTING]
    planned = [batch for batch in due if batch.state is Lifecycle.PLANNED]
    affordable = [] if is_cancelled(run) else _affordable(run, with_files(run, planned), sending)
    groups: dict[Lane, list[Batch]] = defaultdict(list)
    for batch in [*unsettled, *within_limits(run, affordable, sending)]:
        groups[run.seats.lane(batch)].append(batch)
    return groups


def _affordable(run: Run, due: Sequence[Batch], sending: Sequence[Batch]) -> list[Batch]:
    """The due batches that cannot break the budget even if every request costs its upper bound.

    ``sending``: planned batches that lanes at work are about to send; they count as sent. The run is stopped by its
    budget where nothing planned, due or not, fits beside what is spent and set aside already; a batch that only has to
    wait for others is held back, which stops nothing.
    """
    limit = run.manifest.budget.max_usd
    if limit is None:
        run.store.set_stopped(None, run.clock.now())
        return list(due)
    committed = run.store.money().committed + sum((batch.max_cost or Decimal(0) for batch in sending), Decimal(0))
    in_hand = {batch.id for batch in sending}
    planned = [batch for batch in run.store.batches({Lifecycle.PLANNED}) if batch.id not in in_hand]
    reasons = [_unaffordable(batch, committed, limit) for batch in planned]
    stops = bool(reasons) and all(reasons) and not sending
    run.store.set_stopped(reasons[0] if stops else None, run.clock.now())
    allowed = []
    for batch in due:
        if reason := _unaffordable(batch, committed, limit):
            run.store.hold_back(batch, HeldBack(f"{HELD}{reason}"))
        else:
            committed += batch.max_cost or Decimal(0)
            allowed.append(batch)
    return allowed


def _unaffordable(batch: Batch, committed: Decimal, limit: Decimal) -> str | None:
    """Why the budget does not allow the batch beside what is committed."""
    if batch.max_cost is None:
        return f"{batch.provider} {batch.model} has no known price: give one in [[prices]], or drop the budget"
    if committed + batch.max_cost <= limit:
        return None
    return (
        f"batch {batch.id} could cost up to ${batch.max_cost:.2f}; ${committed:.2f} of the budget of "
        f"${limit} is spent or set aside: raise max_usd to go on"
    )


def _submit_group(run: Run, lane: Lane, batches: Sequence[Batch]) -> bool:
    """One lane's batches, one after another, in one thread."""
    if not batches:
        return False
    provider = run.providers.of(lane)

    def step(batch: Batch) -> bool:
        is_unclear = batch.state is Lifecycle.SUBMITTING
        return _look_for(run, provider, batch) if is_unclear else _send(run, provider, batch)

    return step_each(run, _stage(lane.provider), batches, step)


def _stage(provider: str) -> str:
    return f"send {provider}"


def _look_for(run: Run, provider: Provider, batch: Batch) -> bool:
    with run.seats.turn(batch.provider):
        run.heed_stop()
        return carry_out(run, batch, reconcile(run, provider, batch))


# ---- sending -------------------------------------------------------------------------------------------------------


def _send(run: Run, provider: Provider, batch: Batch) -> bool:
    """Nothing is sent before the batch file is what was planned, and the provider has it and has shown, in a list read
    to its end, that it has no such batch yet."""
    input_ref = _uploaded(run, provider, batch)
    if isinstance(input_ref, Step):
        return carry_out(run, batch, input_ref)
    answering: Answering = run.kept.setdefault(Answering, Answering())
    with run.seats.turn(batch.provider):
        run.heed_stop()
        if answering.is_silent(_stage(batch.provider)):
            return False  # another create got no answer meanwhile: this one would wait as long
        elsewhere = _listed(run, provider, batch, input_ref)
        if isinstance(elsewhere, Step):
            return carry_out(run, batch, elsewhere)
        now = at(run, batch)
        try:
            batch = run.store.apply(batch, machine.before_create(batch, input_ref, now), now.now)
        except SentElsewhereError as error:
            return carry_out(run, batch, Step(machine.withdrawn(batch, str(error), now.now, plan_again=True)))
        if elsewhere:
            return carry_out(run, batch, Step(machine.after_certain(batch, elsewhere, at(run, batch))))
        try:
            return carry_out(run, batch, _create(run, provider, batch))
        except NoAnswer:
            answering.not_heard(_stage(batch.provider))  # before the next one has its turn
            raise


def _uploaded(run: Run, provider: Provider, batch: Batch) -> str | Step | None:
    """Return the provider's name of the batch file, where it has one. A step: the file cannot be sent now."""
    try:
        check_file(run, batch)
        return batch.input_ref or provider.upload(submission(run, batch))
    except FileError as error:
        return Step(machine.after_file_trouble(batch, error))
    except ProviderError as error:
        return Step(machine.after_upload(batch, error, at(run, batch)), error)


def _listed(run: Run, provider: Provider, batch: Batch, input_ref: str | None) -> Sequence[Found] | Step:
    """Return what the provider's list shows of the batch, whose file it has as ``input_ref``. A step: the list cannot
    be read to its end now."""
    try:
        return sent_already(run, provider, batch, input_ref)
    except ProviderError as error:
        return Step(machine.after_unread_list(batch, error, at(run, batch)), error)


def _create(run: Run, provider: Provider, batch: Batch) -> Step:
    """Send the one paid call, unless the intent to pay is too old."""
    if (stale := machine.before_call(batch, at(run, batch))) is not None:
        return Step(stale)
    try:
        provider_id = provider.create(submission(run, batch))
    except FileError as error:
        return Step(machine.after_create(batch, error, at(run, batch)))
    except ProviderError as error:
        return Step(machine.after_create(batch, error, at(run, batch)), error)
    return Step(machine.after_create(batch, provider_id, at(run, batch)))
