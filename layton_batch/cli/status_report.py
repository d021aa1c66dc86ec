"""A run's status as JSON and as tables, and the exit code it means."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.cli.terminal import console, one_line, say
from layton_batch.costs.cost_layout import money
from layton_batch.records import Batch
from layton_batch.run.status import JobStatus, RunState, Status
from layton_batch.states import Lifecycle

if TYPE_CHECKING:
    from rich.table import Table

    from layton_batch.run.context import Run

CODES = {RunState.RUNNING: 75, RunState.NEEDS_PERSON: 4, RunState.OVER_BUDGET: 3, RunState.CANCELLED: 0}
UNANSWERED = 5


def exit_code(status: Status) -> int:
    """CLI.md's exit codes: 0 done, 75 not finished, 3 budget, 4 a person, 5 done with gaps."""
    if status.state is RunState.DONE:
        return UNANSWERED if status.unanswered else 0
    return CODES[status.state]


def status_json(status: Status) -> dict[str, object]:
    """The form of ``status --json``; dollars are exact decimal text."""
    return {
        "run": status.run,
        "state": str(status.state),
        "reason": status.reason,
        "spent_usd": format(status.spent_usd, "f"),
        "reserved_usd": format(status.reserved_usd, "f"),
        "untold_usd": format(status.untold_usd, "f"),
        "complete": status.complete,
        "jobs": [_job(job) for job in status.jobs],
        "batches": [_batch(batch) for batch in status.batches],
    }


def _job(job: JobStatus) -> dict[str, object]:
    names = ("id", "role", "provider", "model", "requests", "succeeded", "errored", "expired", "cancelled", "missing",
             "waiting", "planned", "graded")  # fmt: skip
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
    from rich.markup import escape

    out = console()
    out.print(f"[bold]{escape(one_line(status.run))}[/]  {_state_text(status)}  {_spent(status)}")
    if status.reason:
        out.print(f"[yellow]{escape(one_line(status.reason))}[/]")
    out.print(_jobs_table(status))
    for job in status.jobs:
        if job.unanswered:
            out.print(f"[yellow]no answer[/] {escape(one_line(job.id))}: {_account(job)}")
    for batch in status.batches:
        if batch.reason and str(batch.state) != "collected":
            out.print(f"[yellow]{batch.state}[/] {escape(batch.id)}: {escape(one_line(batch.reason))}")


def _account(job: JobStatus) -> str:
    """``186 requests = 180 succeeded + 4 errored (rate_limited 4) + 2 expired``: every request, by how it ended."""
    parts = [
        f"{count:,} {name}" + (f" ({', '.join(f'{why} {n:,}' for why, n in job.errors.items())})" * (name == "errored"))
        for name in ("succeeded", "errored", "expired", "cancelled", "missing", "waiting")
        if (count := getattr(job, name))
    ]
    return f"{job.requests:,} requests = {' + '.join(parts)}"


def _spent(status: Status) -> str:
    """What is known to be spent; what may be missing in it is said."""
    unpriced = status.unpriced_models
    more = f" and up to {money(status.untold_usd)} more that cannot be told" if status.untold_usd else ""
    more += f" and what {unpriced} model(s) without a known price cost" if unpriced else ""
    return f"spent ${status.spent_usd:,.2f}{more}"


def _state_text(status: Status) -> str:
    colour = {RunState.DONE: "green", RunState.RUNNING: "cyan"}.get(status.state, "yellow")
    return f"[{colour}]{str(status.state).replace('_', ' ')}[/]"


def _jobs_table(status: Status) -> Table:
    """Jobs added up by stage and provider: a run has one line per provider and role, however many models."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("stage")
    table.add_column("provider")
    for name in ("jobs", "requests", "answered", "no answer", "waiting"):
        table.add_column(name, justify="right")
    for role, provider in dict.fromkeys((job.role, job.provider) for job in status.jobs):
        jobs = [job for job in status.jobs if (job.role, job.provider) == (role, provider)]
        sums = [sum(getattr(job, name) for job in jobs) for name in ("requests", "succeeded", "unanswered", "waiting")]
        unplanned = sum(not job.planned for job in jobs)
        waiting = f"{sums[3]:,}" + (f" +{unplanned} jobs" if unplanned else "")
        table.add_row(role, escape(one_line(provider)), str(len(jobs)), *(f"{value:,}" for value in sums[:3]), waiting)
    return table


def print_outcome(run: Run, status: Status) -> None:
    """What `run` says at its end: the leaderboard and the bill when there are any, else where it stands."""
    from layton_batch.cli.board_report import print_board
    from layton_batch.cli.cost_tables import print_costs
    from layton_batch.stages.publish import cost_report
    from layton_batch.stages.rank import board

    if status.state is not RunState.DONE:
        print_status(status)
        say(_advice(status))
        return
    print_board(board(run, run.rules))
    print_costs(cost_report([run.folder]))
    if status.unanswered:
        say(f"{status.unanswered} requests have no answer; `layton-batch status {status.run}` shows which jobs")
    say(f"run folder: {_near(run.folder.root)}\nsite: {_near(run.folder.site / 'index.html')}")


def _near(path: Path) -> Path:
    """A path as short as it can be said from here."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def _asked_of_a_person(status: Status) -> str:
    if any(batch.state is Lifecycle.LOST for batch in status.batches):
        return "a batch is lost: look at the provider, then `layton-batch resolve` it (--adopt ID or --resubmit)"
    return "a batch is not sent: mend what its line above names, and call again"


def _advice(status: Status) -> str:
    match status.state:
        case RunState.NEEDS_PERSON:
            return _asked_of_a_person(status)
        case RunState.OVER_BUDGET:
            return "stopped by the budget: raise [budget] max_usd (or --max-usd) and call again"
        case RunState.CANCELLED:
            return "cancelled; what was answered is kept"
        case _:
            return "not finished yet: the same command goes on"
