"""Parts of a run's status: tables of jobs and batches, and sentences on what a person has to know."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType

from layton_batch.clock import iso, utc
from layton_batch.columns import DATA, Column, OutputForm, Table, Texts, columns
from layton_batch.records import Batch
from layton_batch.runs.status import (
    JobStatus,
    ProviderTrouble,
    RunState,
    Status,
    failing_batches,
    place,
    waits_for_a_person,
)
from layton_batch.states import OPEN, Lifecycle
from layton_batch.store.rows import reserve
from layton_batch.text import NONE, decimal_text, money, one_line, plural

_ENDS = ("succeeded", "errored", "expired", "cancelled", "missing", "waiting")
PROGRAMS, ON_BOTH = DATA, DATA | {OutputForm.TERMINAL}
LONGEST_WORDS, LONGEST_TROUBLE = 200, 500
SHOWN_BATCHES = 12
"""Open batches that have a line of their own, those that a person has to see to first."""


def job_json(job: JobStatus, words: Sequence[tuple[str, int]]) -> dict[str, object]:
    """Return a job in the form of ``status --json``. ``words``: what its provider said of failed requests."""
    names = ("id", "role", "provider", "model", "requests", *_ENDS, "planned", "graded")
    messages = [{"message": text, "responses": count} for text, count in words]
    return {name: getattr(job, name) for name in names} | {
        "errors": dict(job.errors), "where": dict(job.where), "words": messages,
    }  # fmt: skip


def batches_table(
    batches: Sequence[Batch], now: float = 0.0, expected_ends: Mapping[str, float] = MappingProxyType({})
) -> Table[Batch]:
    """A row a batch. People read at ``now`` (epoch seconds) how old it is, how long ago its provider told of it, in
    what time it is asked next and has to be over; programs read the moments."""

    def moment(
        name: str,
        at: Callable[[Batch], float | None],
        words: str = "",
        text: Callable[[Batch], str] | None = None,
    ) -> Column[Batch]:
        surfaces = ON_BOTH if words else PROGRAMS
        return Column(name, words, value=lambda batch: moment_text(at(batch)), text=text, surfaces=surfaces)

    return Table(
        (
            Column("id", "batch", is_text=True, surfaces=ON_BOTH),
            Column("job", value=lambda batch: batch.job_id, surfaces=PROGRAMS),
            Column("provider", surfaces=PROGRAMS),
            Column("state", value=lambda batch: str(Lifecycle.LOST if waits_for_a_person(batch) else batch.state),
                   text=lambda batch: str(batch.state), is_text=True, surfaces=ON_BOTH),
            Column("outcome", value=lambda batch: str(batch.outcome) if batch.outcome else None, surfaces=PROGRAMS),
            Column("provider_id", "at the provider", is_text=True, surfaces=ON_BOTH),
            *(Column(name, surfaces=PROGRAMS) for name in ("provider_status", "requests", "attempt")),
            Column("parent", value=lambda batch: batch.parent_id, surfaces=PROGRAMS),
            Column("reason", value=lambda batch: batch.reason or batch.cause, surfaces=PROGRAMS),
            moment("submitted_at", lambda batch: batch.submitted_at, "age",
                   lambda batch: _since(batch.submitted_at or batch.submitting_at, now)),
            moment("read_at", lambda batch: batch.read_at, "read", lambda batch: _since(batch.read_at, now)),
            moment("next_at", lambda batch: batch.due_at or None if batch.state in OPEN else None, "next",
                   lambda batch: _until(batch.due_at if batch.state is not Lifecycle.LOST else None, now)),
            moment("deadline_at", lambda batch: batch.deadline_at if batch.state in OPEN else None, "deadline",
                   lambda batch: _until(batch.deadline_at, now)),
            moment("expected_end", lambda batch: expected_ends.get(batch.id)),
            moment("ended_at", lambda batch: batch.ended_at),
            Column("set_aside_usd", "set aside",
                   value=lambda batch: decimal_text(reserve(batch.state, batch.max_cost)),
                   text=lambda batch: money(reserve(batch.state, batch.max_cost)), surfaces=ON_BOTH),
        ),
        batches,
    )  # fmt: skip


def moment_text(seconds: float | None) -> str | None:
    """Return epoch seconds as RFC 3339 in UTC."""
    return None if seconds is None else iso(seconds)


def trouble_line(trouble: ProviderTrouble) -> str:
    """Return a provider's trouble as one line: how many requests wait, since when, and its own sentence."""
    since = "" if trouble.since is None else f" since {utc(trouble.since):%Y-%m-%d %H:%M} UTC"
    then = "a person is needed" if trouble.needs_person else f"next try {utc(trouble.next_try):%H:%M:%S} UTC"
    waiting = plural(trouble.requests, "request waits", "requests wait")
    return one_line(f"{trouble.provider}: {waiting}{since}; {then}: {trouble.message}"[:LONGEST_TROUBLE])


def trouble_json(trouble: ProviderTrouble) -> dict[str, object]:
    """Return a provider's trouble in the form of ``status --json``."""
    moments = {"since": moment_text(trouble.since), "next_try": moment_text(trouble.next_try)}
    return {name: getattr(trouble, name) for name in ("provider", "message", "requests", "needs_person")} | moments


def most_urgent(batches: Sequence[Batch], count: int) -> list[Batch]:
    """Return ``count`` open batches that a provider has or may have: lost batches first, then by age."""
    still_open = [batch for batch in batches if batch.state in OPEN]
    sent = [batch for batch in still_open if place(batch.state, is_uploaded=bool(batch.input_ref)) != "planned"]
    return sorted(sent, key=lambda batch: (batch.state is not Lifecycle.LOST, batch.submitting_at or batch.due_at))[
        :count
    ]


def failure_lines(jobs: Sequence[JobStatus], words: Mapping[str, Sequence[tuple[str, int]]]) -> Iterator[str]:
    """Yield how the requests of each job with failures ended, and what the provider said."""
    for job in jobs:
        if job.unanswered:
            yield f"no answer {job.id}: {_account(job)}"
        for text, count in words.get(job.id, ()):
            yield f"  {job.provider} said ({count:,}): {text[:LONGEST_WORDS]}"


def _account(job: JobStatus) -> str:
    """``186 requests = 180 succeeded + 4 errored (rate_limited 4) + 2 expired``: every request, by how it ended."""
    errors = ", ".join(f"{why} {count:,}" for why, count in job.errors.items())
    parts = [
        f"{count:,} {name}" + (f" ({errors})" if name == "errored" else "")
        for name in _ENDS
        if (count := getattr(job, name))
    ]
    return f"{plural(job.requests, 'request')} = {' + '.join(parts)}"


def batch_lines(status: Status) -> Iterator[str]:
    """Yield the reasons of open batches, and of those that wait for a person, each once. ``trouble_line`` tells what a
    provider does not take, ``failure_lines`` what it refused, and the run's own reason why the budget holds its first
    batch back; the others are counted."""
    failing_ids = {batch.id for failing in failing_batches(status.batches).values() for batch, _ in failing}
    held = {batch.id for batch in status.batches if _is_held_by_budget(batch, status)}
    alike: dict[str, list[Batch]] = defaultdict(list)
    for batch in status.batches:
        if batch.reason and batch.id not in failing_ids | held and (batch.state in OPEN or batch.needs_person):
            alike[f"{'waits for a person: ' if batch.needs_person else ''}{batch.reason}"].append(batch)
    for reason, batches in alike.items():
        more = f" and {len(batches) - 1:,} more" if len(batches) > 1 else ""
        yield f"{batches[0].state} {batches[0].id}{more}: {reason}"
    yield from filter(None, map(_creates, status.batches))
    if len(held) > 1:
        batches_held = plural(len(held) - 1, "more batch", "more batches")
        yield f"the budget holds {batches_held} back: `layton-batch status RUN --json` names each"


def _creates(batch: Batch) -> str | None:
    """Say of which creates of the batch nobody knows whether they were billed."""
    if not (number := batch.creates_of_unknown_cost):
        return None
    creates = plural(number, "create of it was", "creates of it were")
    reason = f"{creates} given up, and may have been billed: at most {money(batch.creates_usd)}"
    if extra := batch.extra_batches:
        reason += f"; {batch.provider} made {plural(extra, 'batch', 'batches')} of them"
    return f"{batch.state} {batch.id}: {reason}"


def _is_held_by_budget(batch: Batch, status: Status) -> bool:
    is_stopped = status.state is RunState.OVER_BUDGET and bool(status.reason)
    return is_stopped and batch.state is Lifecycle.PLANNED and not batch.needs_person


def money_line(status: Status) -> str:
    """Summarize known spending and reserve, and name what may be missing."""
    parts = [f"spent {money(status.spent_usd)}"]
    if status.reserved_usd:
        parts.append(f"set aside {money(status.reserved_usd)}")
    if status.unknown_cost_usd:
        parts.append(f"upper bound for requests whose cost is unknown: {money(status.unknown_cost_usd)}")
    if above := status.above_bounds_usd:
        parts.append(f"{money(above)} above the bounds that were set aside")
    if status.unpriced_models:
        parts.append(f"not counted: {plural(status.unpriced_models, 'model')} without a known price")
    return "; ".join(parts)


def jobs_table(jobs: Sequence[JobStatus]) -> Table[Texts]:
    """Jobs added up by stage and provider: a run has one line per provider and role, however many models.

    Columns of requests: where those without an outcome are, then how the others ended.
    """
    groups: dict[tuple[str, str], list[JobStatus]] = {}
    for job in jobs:
        groups.setdefault((job.role, job.provider), []).append(job)
    rows = [(*group, str(len(mine)), *map(_figure, _sums(mine))) for group, mine in groups.items()]
    unplanned = sum(not job.planned for job in jobs)
    awaited = sum(job.waiting for job in jobs if job.planned)
    why = f"{plural(awaited, 'answer')} still to come" if awaited else "the next step plans what is judged"
    notes = (f"{plural(unplanned, 'job')} not planned yet: {why}",) if unplanned else ()
    names = ("stage", "provider", "jobs", "requests", "planned", "uploaded", "at\nprovider", "answered", "no\nanswer")
    return Table(columns(*names, text=2), rows, notes=notes)


def _sums(jobs: Sequence[JobStatus]) -> tuple[int, ...]:
    def at(*places: str) -> int:
        return sum(job.where.get(name, 0) for job in jobs for name in places)

    ends = (sum(job.succeeded for job in jobs), sum(job.unanswered for job in jobs))
    return sum(job.requests for job in jobs), at("planned"), at("uploaded"), at("at_provider", "ended", "lost"), *ends


def _figure(count: int) -> str:
    return f"{count:,}" if count else NONE


def _since(moment: float | None, now: float) -> str:
    return NONE if not moment else duration(now - moment)


def _until(moment: float | None, now: float) -> str:
    return NONE if not moment else "now" if moment <= now else duration(moment - now)


def duration(seconds: float) -> str:
    """``45 s``, ``12 min``, ``3.5 h``, ``2.0 d``: at most six characters up to a hundred days."""
    seconds = max(seconds, 0.0)
    for size, unit, digits in ((86_400.0, "d", 1), (3600.0, "h", 1), (60.0, "min", 0)):
        if seconds >= 2 * size or (unit != "min" and seconds >= size):
            return f"{seconds / size:.{digits}f} {unit}"
    return f"{seconds:.0f} s"


def expectation(status: Status, now: float) -> str | None:
    if not status.expected_ends:
        return None
    last = max(status.expected_ends.values())
    if last <= now:
        return "What is at the providers takes longer than half of the batches before it took."
    moment = utc(last)
    day = f"{moment:%H:%M}" if last - now < timedelta(hours=20).total_seconds() else f"{moment:%Y-%m-%d %H:%M}"
    return f"What is at the providers is expected to end by {day} UTC, as half of the batches before it did."
