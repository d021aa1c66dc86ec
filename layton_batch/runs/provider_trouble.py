"""Refusals and silence of providers: one record a provider, from a run's batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from layton_batch.records import Batch
from layton_batch.states import OPEN, BatchOutcome, ErrorClass, Lifecycle


@dataclass(frozen=True, slots=True)
class ProviderTrouble:
    """Requests that wait because a provider refuses them or cannot be reached.

    ``message``: the error of the batch that was tried last, in the provider's words. ``since``: the first failure after
    the provider's last answer, ``next_try``: of the program; epoch seconds. ``needs_person``: a person has to mend what
    the message names.
    """

    provider: str
    message: str
    requests: int
    since: float | None
    next_try: float
    needs_person: bool = False


def failing_batches(batches: Sequence[Batch]) -> Mapping[str, Sequence[tuple[Batch, str]]]:
    """Return by provider the open batches whose last call failed, or whose attempt before was refused whole, each with
    the error. A lost batch is a matter of its own."""
    by_id = {batch.id: batch for batch in batches}
    failing: dict[str, list[tuple[Batch, str]]] = defaultdict(list)
    for batch in batches:
        if batch.state not in OPEN - {Lifecycle.LOST}:
            continue
        parent = by_id.get(batch.parent_id or "")
        is_unclear = batch.unclear_since is not None or batch.state is Lifecycle.SUBMITTING
        if batch.failures or (is_unclear and batch.reason):
            failing[batch.provider].append((batch, batch.reason or ""))
        elif parent is not None and _was_refused(parent):
            failing[batch.provider].append((batch, parent.reason or ""))
    return failing


def _was_refused(batch: Batch) -> bool:
    is_failed = batch.outcome is BatchOutcome.FAILED and batch.error_class is ErrorClass.RATE_LIMITED
    return is_failed or batch.error_class is ErrorClass.ACCOUNT


def provider_troubles(
    batches: Sequence[Batch], refused_since: Callable[[str], float | None]
) -> tuple[ProviderTrouble, ...]:
    """Return the trouble of each provider that has some. ``refused_since``: tells when a provider's refusals began."""
    return tuple(
        _trouble(provider, failing, refused_since(provider))
        for provider, failing in sorted(failing_batches(batches).items())
    )


def _trouble(provider: str, failing: Sequence[tuple[Batch, str]], since: float | None) -> ProviderTrouble:
    last, message = max(failing, key=lambda pair: (pair[0].needs_person, pair[0].due_at))
    heard = [moment for batch, _ in failing if (moment := batch.read_at or batch.submitted_at or batch.submitting_at)]
    return ProviderTrouble(
        provider=provider,
        message=message,
        requests=sum(batch.requests for batch, _ in failing),
        since=min(heard, default=None) if since is None else since,
        next_try=min(batch.due_at for batch, _ in failing),
        needs_person=last.needs_person,
    )
