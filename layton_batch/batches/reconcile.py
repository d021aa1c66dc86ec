"""Reconcile: find out whether a create whose reply is missing was carried out, before anything is sent again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from layton_batch.batches import machine
from layton_batch.batches.bill import total_bound
from layton_batch.batches.decisions import at, carry_out
from layton_batch.batches.tick import ProviderLists
from layton_batch.errors import ProviderError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Batch, MatchingBatch, Submission
from layton_batch.runs.context import Run


def reconcile(run: Run, provider: Provider, batch: Batch) -> bool:
    """Look for the batch once. Return True if that ends the search: it is there, was never made, or is `lost`."""
    reading = _reading(run, provider, batch)
    decision = machine.after_look(
        batch, reading, at(run, batch), bound=total_bound(run.store.asked_of(batch.id).values()),
        given_up_creates=run.store.given_up_creates(batch.id),
    )  # fmt: skip
    return carry_out(run, batch, decision, reading if isinstance(reading, ProviderError) else None)


def look_later(run: Run, provider: Provider, batch: Batch) -> bool:
    """Look once more for creates of the batch that were given up: they may be in the list by now, or certainly not."""
    reading = _reading(run, provider, batch)
    decision = machine.after_later_look(
        batch, reading, at(run, batch), bound=total_bound(run.store.asked_of(batch.id).values())
    )
    return carry_out(run, batch, decision, reading if isinstance(reading, ProviderError) else None)


def _reading(run: Run, provider: Provider, batch: Batch) -> Sequence[MatchingBatch] | ProviderError:
    """Return the batches of the provider's list that may be this one, or why the list cannot be read."""
    try:
        return _not_taken(run, provider.find(_look(run, batch)))
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
    look = replace(_look(run, batch), input_ref=input_ref, intended_at=run.born, reading=reading)
    return _surely(run, provider, look)


def surely_ours(run: Run, provider: Provider, batch: Batch) -> Sequence[MatchingBatch]:
    """Batches at the provider that are surely this one, whose create was intended. Raises ProviderError where the list
    cannot be read to its end."""
    return _surely(run, provider, _look(run, batch))


def _surely(run: Run, provider: Provider, query: Submission) -> Sequence[MatchingBatch]:
    """Find the batches that are certainly ours. Empty where the API has no list that could tell."""
    if not provider.capabilities.shows_ours:
        return []
    return [match for match in _not_taken(run, provider.find(query)) if match.certain or match.of_a_copy]


def _look(run: Run, batch: Batch) -> Submission:
    """The batch as a list is to be looked through for it now, and what needs no look."""
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
