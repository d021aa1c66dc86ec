"""Reports of outages: which providers cannot be reached, and which batches wait for them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from layton_batch.clock import utc
from layton_batch.records import Batch
from layton_batch.runs.status import Status
from layton_batch.states import AT_PROVIDER, OPEN, Lifecycle
from layton_batch.text import one_line, plural

Advise = Callable[[str, int | None], str]
"""Function that returns what to check while a provider's calls fail with an HTTP status; None: it was not reached."""
AGAIN = 600.0
"""Seconds after which an outage that lasts is told again."""
NONE_REACHED = 300.0
"""Seconds without any provider, after which our own network is the likely reason."""
_LONGEST_REASON = 240
_NOT_NOW = frozenset({408, 429})


class ProviderOutages:
    """Outages of a run's providers. It gets every status of the run, and remembers which outages it has reported."""

    def __init__(self, advise: Advise = lambda _provider, _status: "") -> None:
        self._advise = advise
        self._told: dict[str, float] = {}
        self._none_since: float | None = None
        self._pointed = False

    def lines(self, status: Status, now: float) -> Iterator[str]:
        """Yield the lines to print at ``now`` (epoch seconds): new, lasting and ended outages."""
        failing = _failing(status)
        for provider in [name for name in self._told if name not in failing]:
            del self._told[provider]
            yield f"{provider} answers again"
        for provider, batch in failing.items():
            if not 0 <= now - self._told.get(provider, now - AGAIN) < AGAIN:
                self._told[provider] = now
                advice = self._advise(provider, batch.failed_status)
                yield _outage(provider, batch, status) + (f". {advice}." if advice else "")
        yield from self._all(status, failing, now)

    def _all(self, status: Status, failing: Mapping[str, Batch], now: float) -> Iterator[str]:
        providers = {batch.provider for batch in status.batches if _is_asked(batch)}
        silent = {provider for provider, batch in failing.items() if _is_outage(batch.failed_status)}
        if not providers or providers - silent:
            self._none_since, self._pointed = None, False
            return
        self._none_since = now if self._none_since is None else min(self._none_since, now)
        if not self._pointed and now - self._none_since >= NONE_REACHED:
            self._pointed = True
            yield (
                "No provider can be reached for 5 minutes. `layton-batch doctor` checks keys, addresses and the clock; "
                "this run goes on trying."
            )


def _is_asked(batch: Batch) -> bool:
    return batch.state in OPEN - {Lifecycle.LOST}


def _failing(status: Status) -> dict[str, Batch]:
    """Return a batch of each provider whose last call about a batch failed: the batch with the latest next call. What
    keeps a batch from being sent is told whatever the provider's reply was."""
    failing: dict[str, Batch] = {}
    for batch in status.batches:
        is_told = batch.state is Lifecycle.PLANNED or (batch.state in AT_PROVIDER and _is_outage(batch.failed_status))
        if _is_asked(batch) and batch.failures and is_told:
            failing[batch.provider] = max(
                failing.get(batch.provider, batch), batch, key=lambda candidate: candidate.due_at
            )
    return failing


def _is_outage(status: int | None) -> bool:
    """Decide whether another call may have an answer: a refusal is an answer."""
    return status is None or status >= 500 or status in _NOT_NOW


def _outage(provider: str, batch: Batch, status: Status) -> str:
    reason = one_line(batch.reason or "")[:_LONGEST_REASON].rstrip(".")
    failure = f"answers with HTTP {batch.failed_status}" if batch.failed_status else "cannot be reached"
    running = sum(other.state in AT_PROVIDER for other in status.batches if other.provider == provider)
    affected = f"{plural(running, 'batch is', 'batches are')} running there, nothing is lost"
    waiting = sum(other.state is Lifecycle.PLANNED for other in status.batches if other.provider == provider)
    if not running:
        affected = f"{plural(waiting, 'batch waits', 'batches wait')} to be sent, nothing is lost"
    return f"{provider} {failure} ({affected}); next try {utc(batch.due_at):%H:%M:%S} UTC. {reason}"
