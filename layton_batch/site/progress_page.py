"""How the run went: requests by outcome, batches by state, and what a person should know."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from markupsafe import Markup

from layton_batch.runs.status import JobStatus, RunState, Status
from layton_batch.site.html_table import plain_table
from layton_batch.site.pages import short_line
from layton_batch.states import Lifecycle
from layton_batch.text import Table, columns, money

OUTCOMES = ("succeeded", "errored", "expired", "cancelled", "missing", "waiting")
_ROLES = {"predict": "answers", "judge": "verdicts", "rejudge": "verdicts on labelled answers"}
_WORDS = {
    RunState.RUNNING: "This run is not finished; its numbers will change.",
    RunState.NEEDS_PERSON: "This run waits for a person, who has to decide about a batch, or to mend what stops it.",
    RunState.OVER_BUDGET: "This run stopped at its budget; its numbers are not final.",
    RunState.CANCELLED: "This run was cancelled; its numbers rest on what came back before.",
}


@dataclass(frozen=True, slots=True)
class RunProgress:
    """``notice`` is empty for a run that is done."""

    run: str
    notice: str
    reason: str
    by_role: Markup
    by_job: Markup
    batches: tuple[str, ...]
    lost: tuple[str, ...]
    spent: str


def show_progress(status: Status) -> RunProgress:
    """One reading of the run; outcomes that nothing had are left out."""
    outcomes = [name for name in OUTCOMES if name == "succeeded" or any(_ends(status.jobs, [name]))]
    roles = list(dict.fromkeys(job.role for job in status.jobs))
    by_role = [(role_words(role), [job for job in status.jobs if job.role == role]) for role in roles]
    names = ("requests", *outcomes)
    return RunProgress(
        run=short_line(status.run),
        notice=_WORDS.get(status.state, ""),
        reason=short_line(status.reason, 500),
        by_role=_shown("Requests by outcome", ("asked for", *names),
                       [(words, *_counts(jobs, outcomes)) for words, jobs in by_role]),
        by_job=_shown("Requests by job and outcome", ("asked for", "provider", "model", *names),
                      [(role_words(job.role), job.provider, job.model, *_counts([job], outcomes))
                       for job in status.jobs]),
        batches=_batch_words(status),
        lost=tuple(_lost(status)),
        spent=money(status.spent_usd),
    )  # fmt: skip


def _shown(caption: str, names: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    table = Table(columns(*names, text=("asked for", "provider", "model")), tuple(map(tuple, rows)))
    return plain_table(table, caption) if rows else Markup()


def _counts(jobs: Sequence[JobStatus], outcomes: Sequence[str]) -> list[str]:
    return [f"{count:,}" for count in (sum(job.requests for job in jobs), *_ends(jobs, outcomes))]


def _ends(jobs: Sequence[JobStatus], outcomes: Sequence[str]) -> list[int]:
    return [sum(int(getattr(job, name)) for job in jobs) for name in outcomes]


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
