"""How the run went: requests by outcome, batches by state, and what a person should know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from layton_batch.runs.status import JobStatus, RunState, Status
from layton_batch.site.pages import short_line
from layton_batch.states import Lifecycle
from layton_batch.text import money

OUTCOMES = ("succeeded", "errored", "expired", "cancelled", "missing", "waiting")
_ROLES = {"predict": "answers", "judge": "verdicts", "rejudge": "verdicts on labelled answers"}
_WORDS = {
    RunState.RUNNING: "This run is not finished; its numbers will change.",
    RunState.NEEDS_PERSON: "This run waits for a person, who has to decide about a batch, or to mend what stops it.",
    RunState.OVER_BUDGET: "This run stopped at its budget; its numbers are not final.",
    RunState.CANCELLED: "This run was cancelled; its numbers rest on what came back before.",
}


@dataclass(frozen=True, slots=True)
class ProgressLine:
    """Requests of one job, or of all jobs of a role; ``ends`` stand under ``RunProgress.outcomes``."""

    role: str
    provider: str
    model: str
    requests: int
    ends: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RunProgress:
    """``notice`` is empty for a run that is done."""

    run: str
    notice: str
    reason: str
    outcomes: tuple[str, ...]
    by_role: tuple[ProgressLine, ...]
    jobs: tuple[ProgressLine, ...]
    batches: tuple[str, ...]
    lost: tuple[str, ...]
    spent: str


def show_progress(status: Status) -> RunProgress:
    """One reading of the run; outcomes that nothing had are left out."""
    outcomes = tuple(name for name in OUTCOMES if name == "succeeded" or any(_ends(status.jobs, (name,))))
    return RunProgress(
        run=short_line(status.run),
        notice=_WORDS.get(status.state, ""),
        reason=short_line(status.reason, 500),
        outcomes=outcomes,
        by_role=tuple(_role_line(role, status.jobs, outcomes) for role in dict.fromkeys(j.role for j in status.jobs)),
        jobs=tuple(_job_line(job, outcomes) for job in status.jobs),
        batches=_batch_words(status),
        lost=tuple(_lost(status)),
        spent=money(status.spent_usd),
    )


def _ends(jobs: Iterable[JobStatus], outcomes: Sequence[str]) -> tuple[int, ...]:
    listed = list(jobs)
    return tuple(sum(int(getattr(job, name)) for job in listed) for name in outcomes)


def _role_line(role: str, jobs: Sequence[JobStatus], outcomes: Sequence[str]) -> ProgressLine:
    mine = [job for job in jobs if job.role == role]
    return ProgressLine(role_words(role), "", "", sum(job.requests for job in mine), _ends(mine, outcomes))


def _job_line(job: JobStatus, outcomes: Sequence[str]) -> ProgressLine:
    ends = _ends([job], outcomes)
    return ProgressLine(role_words(job.role), short_line(job.provider), short_line(job.model), job.requests, ends)


def role_words(role: str) -> str:
    """Return the word for a role's results."""
    return short_line(_ROLES.get(role, role))


def _batch_words(status: Status) -> tuple[str, ...]:
    """``34 collected, completed`` …, the most frequent first."""
    counted = Counter(
        (str(batch.state).replace("_", " "), str(batch.outcome) if batch.outcome else "") for batch in status.batches
    )
    return tuple(f"{count:,} {', '.join(filter(None, key))}" for key, count in counted.most_common())


def _lost(status: Status) -> Iterable[str]:
    for batch in status.batches:
        if batch.state is Lifecycle.LOST:
            yield short_line(f"{batch.id} ({batch.provider}): {batch.reason or 'no reason recorded'}", 500)
