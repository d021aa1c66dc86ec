"""Timeline of a run's batches, and the providers' messages about failed requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from layton_batch.clock import utc
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Batch
from layton_batch.runs.failure_words import failure_words
from layton_batch.runs.status import Status
from layton_batch.site.pages import short_line
from layton_batch.site.progress_page import role_words
from layton_batch.states import Lifecycle
from layton_batch.text import plural

MOST_BATCHES = 2_000
_FORM = "%Y-%m-%d %H:%M"


@dataclass(frozen=True, slots=True)
class BatchLine:
    """One batch. ``start``, ``width``: percent of the run's time, empty if it was never sent.

    ``took``: duration in words; ``seconds``: duration for sorting.
    """

    id: str
    role: str
    provider: str
    model: str
    state: str
    is_bad: bool
    requests: int
    attempt: int
    sent: str
    took: str
    seconds: str
    why: str
    provider_id: str
    start: str = ""
    width: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """Message of a provider about failed requests, and their number; every attempt counts."""

    job: str
    provider: str
    words: str
    count: int


@dataclass(frozen=True, slots=True)
class BatchTimeline:
    """Batches of a run in time. ``begin``, ``end``: the period that the bars cover; ``more``: omitted batches.

    ``reused``: a sentence about batches that were never sent because their answers had been paid for.
    """

    lines: tuple[BatchLine, ...]
    failures: tuple[Failure, ...]
    begin: str
    end: str
    took: str
    more: int
    reused: str


def show_timeline(folder: RunFolder, status: Status) -> BatchTimeline:
    """Return the run's batches in the order of their submission."""
    reused = [batch for batch in status.batches if batch.state is Lifecycle.COLLECTED and not batch.submitted_at]
    submitted = (batch for batch in status.batches if batch.state is not Lifecycle.COLLECTED or batch.submitted_at)
    sent = sorted(submitted, key=lambda batch: (batch.submitted_at or float("inf"), batch.id))
    begin = min((batch.submitted_at for batch in sent if batch.submitted_at), default=0.0)
    end = max((moment for batch in sent for moment in (_last(batch),) if moment), default=begin)
    roles = {job.id: job.role for job in status.jobs}
    return BatchTimeline(
        lines=tuple(_line(batch, roles.get(batch.job_id, ""), begin, end) for batch in sent[:MOST_BATCHES]),
        failures=_failures(folder, status),
        begin=_moment(begin),
        end=_moment(end),
        took=_duration(end - begin) if end > begin else "",
        more=max(len(sent) - MOST_BATCHES, 0),
        reused=_reused(reused),
    )


def _reused(batches: Sequence[Batch]) -> str:
    if not batches:
        return ""
    were = plural(len(batches), "further batch was", "further batches were")
    answers = plural(sum(batch.requests for batch in batches), "answer")
    return f"{were} never sent: {answers} had been paid for already."


def _last(batch: Batch) -> float | None:
    """The last moment at which anything was heard of it: there is no clock here."""
    return batch.ended_at or batch.read_at or batch.submitted_at


def _line(batch: Batch, role: str, begin: float, end: float) -> BatchLine:
    last = _last(batch)
    took = max(last - batch.submitted_at, 0.0) if batch.submitted_at and last else None
    whole = (end - begin) or 1.0
    outcome = f", {batch.outcome}" if batch.outcome else ""
    return BatchLine(
        id=short_line(batch.id),
        role=role_words(role) if role else "",
        provider=short_line(batch.provider),
        model=short_line(batch.model),
        state=f"{batch.state}{outcome}".replace("_", " "),
        is_bad=batch.state is Lifecycle.LOST or str(batch.outcome) in ("failed", "expired", "cancelled"),
        requests=batch.requests,
        attempt=batch.attempt,
        sent=_moment(batch.submitted_at),
        took="" if took is None else _duration(took),
        seconds="" if took is None else f"{took:.3f}",
        why=short_line(batch.reason or batch.cause, 500),
        provider_id=short_line(batch.provider_id),
        start="" if took is None or not batch.submitted_at else f"{100 * (batch.submitted_at - begin) / whole:.2f}%",
        width="" if took is None else f"{max(100 * took / whole, 0.4):.2f}%",
    )


def _failures(folder: RunFolder, status: Status) -> tuple[Failure, ...]:
    words_by_job: Sequence[tuple[str, Sequence[tuple[str, int]]]] = list(failure_words(folder, status).items())
    providers = {job.id: job.provider for job in status.jobs}
    return tuple(
        Failure(short_line(job), short_line(providers.get(job)), short_line(words, 1000), count)
        for job, counts in words_by_job
        for words, count in counts
    )


def _moment(seconds: float | None) -> str:
    return utc(seconds).strftime(_FORM) if seconds else ""


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{plural(days, 'day')} {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
