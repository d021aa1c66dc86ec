"""A run's status as JSON and as tables."""

from __future__ import annotations

from collections.abc import Sequence

from layton_batch.records import Batch
from layton_batch.reports.table import Table, columns, console, say_line, show
from layton_batch.run.status import JobStatus, RunState, Status
from layton_batch.states import Lifecycle
from layton_batch.text import decimal_text, money, one_line, plural

_STYLES = {RunState.DONE: "green", RunState.RUNNING: "cyan"}
_ENDS = ("succeeded", "errored", "expired", "cancelled", "missing", "waiting")


def status_json(status: Status) -> dict[str, object]:
    """The form of ``status --json``; dollars are exact decimal text."""
    return {
        "run": status.run,
        "state": str(status.state),
        "reason": status.reason,
        "spent_usd": decimal_text(status.spent_usd),
        "reserved_usd": decimal_text(status.reserved_usd),
        "untold_usd": decimal_text(status.unknown_cost_usd),  # the former name of the next
        "unknown_cost_usd": decimal_text(status.unknown_cost_usd),
        "complete": status.complete,
        "jobs": [_job(job) for job in status.jobs],
        "batches": [_batch(batch) for batch in status.batches],
    }


def _job(job: JobStatus) -> dict[str, object]:
    names = ("id", "role", "provider", "model", "requests", *_ENDS, "planned", "graded")
    return {name: getattr(job, name) for name in names} | {"errors": dict(job.errors)}


def _batch(batch: Batch) -> dict[str, object]:
    return {
        "id": batch.id,
        "job": batch.job_id,
        "provider": batch.provider,
        "state": str(batch.state),
        "outcome": str(batch.outcome) if batch.outcome else None,
        "provider_id": batch.provider_id,
        "provider_status": batch.provider_status,
        "requests": batch.requests,
        "attempt": batch.attempt,
        "parent": batch.parent_id,
        "reason": batch.reason or batch.cause,
    }


def print_status(status: Status) -> None:
    """The run's jobs, and the batches that need eyes."""
    from rich.text import Text

    state = (str(status.state).replace("_", " "), _STYLES.get(status.state, "yellow"))
    console().print(Text.assemble((one_line(status.run), "bold"), "  ", state, "  ", _spent(status)))
    if status.reason:
        say_line(status.reason, "yellow")
    show(_jobs_table(status.jobs))
    for job in status.jobs:
        if job.unanswered:
            say_line(f"no answer {job.id}: {_account(job)}", "yellow")
    for batch in status.batches:
        if batch.reason and batch.state is not Lifecycle.COLLECTED:
            say_line(f"{batch.state} {batch.id}: {batch.reason}", "yellow")


def _account(job: JobStatus) -> str:
    """``186 requests = 180 succeeded + 4 errored (rate_limited 4) + 2 expired``: every request, by how it ended."""
    errors = ", ".join(f"{why} {count:,}" for why, count in job.errors.items())
    parts = [
        f"{count:,} {name}" + (f" ({errors})" if name == "errored" else "")
        for name in _ENDS
        if (count := getattr(job, name))
    ]
    return f"{plural(job.requests, 'request')} = {' + '.join(parts)}"


def _spent(status: Status) -> str:
    """What is known to be spent; what may be missing in it is said."""
    parts = [f"spent {money(status.spent_usd)}"]
    if status.unknown_cost_usd:
        parts.append(f"upper bound for requests whose cost is unknown: {money(status.unknown_cost_usd)}")
    if status.unpriced_models:
        parts.append(f"not counted: {plural(status.unpriced_models, 'model')} without a known price")
    return "; ".join(parts)


def _jobs_table(jobs: Sequence[JobStatus]) -> Table:
    """Jobs added up by stage and provider: a run has one line per provider and role, however many models."""
    groups: dict[tuple[str, str], list[JobStatus]] = {}
    for job in jobs:
        groups.setdefault((job.role, job.provider), []).append(job)
    rows = []
    for group, mine in groups.items():
        sums = [sum(getattr(job, name) for job in mine) for name in ("requests", "succeeded", "unanswered", "waiting")]
        unplanned = sum(not job.planned for job in mine)
        waiting = f"{sums[3]:,}" + (f" + {plural(unplanned, 'unplanned job')}" if unplanned else "")
        rows.append((*group, str(len(mine)), *(f"{count:,}" for count in sums[:3]), waiting))
    heads = columns("stage", "provider", "jobs", "requests", "answered", "no answer", "waiting", text=2)
    return Table(heads, tuple(rows))
