"""Reprice: what a request can cost at most follows the manifest's prices for as long as it is not sent, and so does
what was charged by them.

Prices may be given, corrected or removed while a run is under way. A batch that is sent keeps what was set aside for
it; what its requests cost if they go again is bounded by the prices of now. Answers that were charged by a price of the
manifest, or by none, are charged again; what a published price of its day says of an answer stands.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from decimal import Decimal
from functools import partial

from layton_batch.batches.batch_file import RequestCosts
from layton_batch.batches.bill import Bill
from layton_batch.batches.run_costs import has_charges
from layton_batch.costs.rates import is_of_a_manifest
from layton_batch.records import Batch, Job
from layton_batch.runs.context import Run
from layton_batch.stages.ask import prompts_of, spec_of
from layton_batch.stages.costs import JobCosts, total, with_safety
from layton_batch.states import Lifecycle

Bounds = Mapping[str, Sequence[RequestCosts]]
"""Costs of a request by custom_id: first, and after each time that its reply was truncated."""


def reprice(run: Run) -> bool:
    """Bound planned batches and their requests anew, where they were bounded by other prices; True if any changed.

    A process that was started with an earlier manifest leaves it to one that has the manifest of now. A job whose table
    is damaged is left for the process that finds the table whole again.
    """
    batches = run.store.batches()
    planned = [batch for batch in batches if batch.state is Lifecycle.PLANNED]
    new, ever = run.store.price_changes()
    expected = {batch.id: batch.expected_usd for batch in planned}
    new &= not run.repriced
    if new or any(_became_known_or_unknown(run, batch) for batch in planned):
        if run.store.row().manifest != run.manifest.frozen_json():
            return False
        for job in run.store.all_jobs():
            job_batches = [batch for batch in batches if batch.job_id == job.id and batch.path]
            run.engine.apart(job.id, partial(_reprice_job, run, job, job_batches, expected))
    else:  # what was in hand when that was done, and was not sent after all, still has its old bound
        planned = [batch for batch in planned if ever and batch.due_at > 0]
    trouble, sending = run.engine.trouble, run.threads.sending
    planned = [batch for batch in planned if batch.job_id not in trouble and batch.id not in sending]
    new_bounds = {batch.id: _reserve(run, batch, expected[batch.id]) for batch in planned}
    is_complete = not run.engine.is_remaking  # else a table is made again first, and then all is done anew
    run.repriced |= new and is_complete
    for_all = is_complete and not any(batch.job_id in trouble for batch in batches)
    return (new or bool(planned)) and run.store.reprice(planned, new_bounds, run.clock.now(), new=new, for_all=for_all)


def _reserve(run: Run, batch: Batch, expected: Decimal | None) -> tuple[Decimal | None, Decimal | None]:
    """Return the budget's reserve for a planned batch by the bounds of its requests, and what it will probably cost."""
    return with_safety(run.manifest.budget, total(run.store.asked_of(batch.id).values()), expected), expected


def _reprice_job(run: Run, job: Job, batches: Sequence[Batch], expected: dict[str, Decimal | None]) -> bool:
    if not job.retired:  # what is not sent of a retired one never is
        _reprice_requests(run, job, batches, expected)
    for batch in batches:
        if has_charges(batch):
            _charge_again(run, job, batch)
    return True


def _charge_again(run: Run, job: Job, batch: Batch) -> None:
    """Charge the batch by the prices of now, where the manifest gives its model a price, or gave one, or nobody did."""
    charges, bounds = run.store.charges_of(batch.id), run.store.asked_of(batch.id)
    if not _is_charged_by_the_manifest(run, job, {charge.price_source for charge in charges if charge.is_answered}):
        return
    price = run.prices.price(batch.provider, batch.model)
    bill = Bill(price, bounds)
    bill.charge_again(charges)
    bound = None if price is None else bill.spent + bill.unknown_cost
    run.store.charge_again(batch.id, bill.charges, bill.spent, bill.unknown_cost, bound, run.clock.now())


def _is_charged_by_the_manifest(run: Run, job: Job, sources: Collection[str | None]) -> bool:
    """Return whether answers with these price sources are, or were, charged by a price that a manifest gave, or by
    none. A price that nobody publishes came from one."""
    model = (job.spec.provider, job.spec.model)
    is_given = any(model == (entry.provider, entry.model) for entry in run.manifest.prices)
    was_given = any(source is None or is_of_a_manifest(source) for source in sources)
    return is_given or was_given or run.prices.price(*model) is None


def _became_known_or_unknown(run: Run, batch: Batch) -> bool:
    """Also where the manifest is the same: a newer list of prices may have the model, attempts inherit their bounds."""
    return (batch.max_cost is None) != (run.prices.price(batch.provider, batch.model) is None)


def _reprice_requests(run: Run, job: Job, batches: Sequence[Batch], expected: dict[str, Decimal | None]) -> None:
    """The upper bounds of the job's requests, in every batch that asks for them, and what planned ones are expected to
    cost.

    Of a request asked for again it is not told here why: the most room that it can have got bounds it. What was sent
    with a known price is not without one afterwards, for it will have to be paid.
    """
    if not batches:
        return
    bounds = _bounds(run, job, max(batch.reask for batch in batches))
    for batch in batches:
        is_unsent = batch.state is Lifecycle.PLANNED
        old_costs = run.store.asked_of(batch.id)
        for charge in run.store.charges_of(batch.id):
            if not charge.is_answered:  # what it may have cost was bounded by the prices of its day
                del old_costs[charge.custom_id]
        costs = {name: bounds[name][batch.reask] for name in old_costs if name in bounds}
        if is_unsent:
            expected[batch.id] = total(cost.expected for cost in costs.values())
        changed = {
            name: cost.most
            for name, cost in costs.items()
            if cost.most != old_costs[name] and (is_unsent or cost.most is not None)
        }
        if changed:
            run.store.set_max_costs(batch.id, changed)


def _bounds(run: Run, job: Job, deepest: int) -> Bounds:
    names = {item_id: name for name, item_id in run.store.items_of(job.id).items()}
    costs = JobCosts(run, job)
    return {
        names[item_id]: [costs.of(spec_of(run, job, item_id, rounds), sized.size) for rounds in range(deepest + 1)]
        for item_id, sized in prompts_of(run, job, names)
    }
