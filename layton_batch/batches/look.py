"""Look: find out from a provider's list whether a create whose reply is missing was carried out.

That is done before anything is sent again, and an hour after a create was given up, which closes its bill.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from layton_batch.batches import machine
from layton_batch.batches.bill import total_bound
from layton_batch.batches.steps import ProviderLists, Tick, at, carry_out, step_each
from layton_batch.errors import ManifestError, MissingKeyError, ProviderError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, MatchingBatch, Submission
from layton_batch.runs.context import Run
from layton_batch.runs.provider_threads import ProviderThread


def look(run: Run, provider: Provider, batch: Batch) -> bool:
    """Look for the batch once. Return True if that ends the search: it is there, was never made, or is `lost`."""
    reading = _reading(run, provider, batch)
    decision = machine.after_look(
        batch, reading, at(run, batch), bound=total_bound(run.store.asked_of(batch.id).values()),
        given_up_creates=run.store.given_up_creates(batch.id),
    )  # fmt: skip
    return carry_out(run, batch, decision, reading if isinstance(reading, ProviderError) else None)


def _reading(run: Run, provider: Provider, batch: Batch) -> Sequence[MatchingBatch] | ProviderError:
    """Return the batches of the provider's list that may be this one, or why the list cannot be read."""
    try:
        return _not_taken(run, provider.find(_query(run, batch)))
    except ProviderError as error:
        return error


def sent_already(
    run: Run, lists: ProviderLists, provider: Provider, batch: Batch, input_ref: str | None
) -> Sequence[MatchingBatch]:
    """Find batches that are surely this one, though the store knows of none, and others with the run's mark that it
    does not know (``of_a_copy``): a copy of this run went on elsewhere, or an older copy was put back in its place.

    ``input_ref``: the file that was uploaded for the batch. Our tag tells that, or our custom_ids. The list is read
    once for all batches that are sent within seconds. Raises ProviderError where it cannot be read to its end: then
    nothing is to be sent.
    """
    reading = lists.reading(batch, run.clock.now())
    query = replace(_query(run, batch), input_ref=input_ref, intended_at=run.born, reading=reading)
    return _surely(run, provider, query)


def surely_ours(run: Run, provider: Provider, batch: Batch) -> Sequence[MatchingBatch]:
    """Batches at the provider that are surely this one, whose create was intended. Raises ProviderError where the list
    cannot be read to its end."""
    return _surely(run, provider, _query(run, batch))


def _surely(run: Run, provider: Provider, query: Submission) -> Sequence[MatchingBatch]:
    """Find the batches that are certainly ours. Empty where the API has no list that could tell."""
    if not provider.capabilities.shows_ours:
        return []
    return [match for match in _not_taken(run, provider.find(query)) if match.certain or match.of_a_copy]


def _query(run: Run, batch: Batch) -> Submission:
    """Return the batch as a list is to be searched for it now, with the names that need no look."""
    return replace(
        submission(run, batch), asked_at=run.clock.now(), known_ids=run.store.known_provider_ids(),
        oldest_at=min(run.born, batch.submitting_at or run.born),
        marks=(f"{run.tag_prefix}-", f"r{run.mark}-"), knows=run.store.has_given_a_name,
        custom_ids=run.providers.ended_custom_ids[batch.provider],
    )  # fmt: skip


def _not_taken(run: Run, matches: Sequence[MatchingBatch]) -> Sequence[MatchingBatch]:
    """Leave out other batches of this run, and repetitions: a list that grows while it is read repeats rows."""
    taken = run.store.provider_ids()
    return list({match.provider_id: match for match in matches if match.provider_id not in taken}.values())


def submission(run: Run, batch: Batch) -> Submission:
    """Return what a dialect needs to know of a batch."""
    return Submission(
        batch_id=batch.id,
        tag=batch.tag,
        path=run.folder.workspace.root / batch.path,
        file_name=f"{batch.tag}.jsonl",
        sha256=batch.sha256,
        requests=batch.requests,
        model=batch.model,
        input_ref=batch.input_ref,
        intended_at=batch.submitting_at,
        window=run.window(batch),
    )


# ---- creates that were given up ----------------------------------------------------------------------------------


def to_close(run: Run) -> Mapping[ProviderThread, Sequence[Batch]]:
    """Return by thread the batches for whose given-up creates a list is to be searched now."""
    groups: dict[ProviderThread, list[Batch]] = defaultdict(list)
    for batch in run.store.batches():
        if batch.given_up_creates and _is_due(run, batch):
            thread = run.threads.of(batch)
            if not run.threads.is_busy(thread):
                groups[thread].append(batch)
    return groups


def _is_due(run: Run, batch: Batch) -> bool:
    try:
        return machine.is_to_look_later(batch, at(run, batch))
    except ManifestError:  # the manifest does not say any more where its provider is
        return False


def close(run: Run, tick: Tick, thread: ProviderThread, batches: Sequence[Batch]) -> None:
    """Look for the given-up creates of the thread's batches. Without a key the bill stays as it is: all answers of the
    run may be here."""
    if not batches:
        return
    try:
        provider = run.providers.of(thread)
        if provider.capabilities.shows_ours:
            step_each(run, tick, f"list {thread.provider}", batches, lambda batch: _look_later(run, provider, batch))
    except MissingKeyError:
        return


def _look_later(run: Run, provider: Provider, batch: Batch) -> bool:
    """Look once more for creates of the batch that were given up: they may be in the list by now, or certainly not."""
    batch = run.store.batch(batch.id)  # it may have moved in this tick
    if not _is_due(run, batch):
        return False
    reading = _reading(run, provider, batch)
    decision = machine.after_later_look(
        batch, reading, at(run, batch), bound=total_bound(run.store.asked_of(batch.id).values())
    )
    return carry_out(run, batch, decision, reading if isinstance(reading, ProviderError) else None)
