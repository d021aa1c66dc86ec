"""Page of the run: requests by outcome, batches in time, and what a person should know."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from layton_batch.clock import utc
from layton_batch.columns import text_table
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Batch
from layton_batch.runs.failure_words import failure_words
from layton_batch.runs.status import OUTCOMES, JobStatus, RunState, Status
from layton_batch.site.board import RunSite
from layton_batch.site.pages import (
    NOTHING,
    HtmlBody,
    HtmlCell,
    HtmlColumn,
    HtmlRow,
    HtmlTable,
    macros,
    plain_table,
    short_line,
)
from layton_batch.states import Lifecycle
from layton_batch.text import duration, plural

MOST_BATCHES = 2_000
_ROLES = {"predict": "answers", "judge": "verdicts", "rejudge": "verdicts on labelled answers"}
_WORDS = {
    RunState.RUNNING: "This run is not finished; its numbers will change.",
    RunState.NEEDS_PERSON: "This run waits for a person, who has to decide about a batch, or to mend what stops it.",
    RunState.OVER_BUDGET: "This run stopped at its budget; its numbers are not final.",
    RunState.CANCELLED: "This run was cancelled; its numbers rest on what came back before.",
}


def notices(status: Status) -> list[str]:
    """Return sentences that a reader has to know before the numbers of a run that is not done."""
    words = _WORDS.get(status.state, "")
    lost = [batch for batch in status.batches if batch.state is Lifecycle.LOST]
    why = [f"Lost: {batch.id} ({batch.provider}): {batch.reason or 'no reason recorded'}" for batch in lost]
    return [short_line(text, 500) for text in (words, status.reason, *why) if text] if words else []


def write_run_page(site: RunSite, status: Status) -> None:
    """Write the page about the run rather than its board."""
    reused = [batch for batch in status.batches if batch.state is Lifecycle.COLLECTED and not batch.submitted_at]
    sent = sorted((batch for batch in status.batches if batch not in reused),
                  key=lambda batch: (batch.submitted_at or float("inf"), batch.id))  # fmt: skip
    begin = min((batch.submitted_at for batch in sent if batch.submitted_at), default=0.0)
    end = max((moment for batch in sent if (moment := _last(batch))), default=begin)
    roles = {job.id: _role(job) for job in status.jobs}
    rows = [_row(batch, roles.get(batch.job_id, ""), begin, (end - begin) or 1.0) for batch in sent[:MOST_BATCHES]]
    caption = "Batches in the order in which they were sent"
    site.write(
        "run.html",
        by_role=_outcomes("Requests by outcome", ("asked for",), status.jobs, "role"),
        by_job=_outcomes("Requests by job and outcome", ("asked for", "provider", "model"), status.jobs, "id"),
        batch_counts=_batch_counts(status.batches),
        failures=_failures(site.folder, status),
        batches=HtmlTable(caption, _COLUMNS, [HtmlBody(rows, "batch-rows")], kind="cards batches") if rows else None,
        begin=_moment(begin), end=_moment(end), took=duration(end - begin) if end > begin else "",
        more=max(len(sent) - MOST_BATCHES, 0), reused=_reused(reused),
    )  # fmt: skip


# ---- requests ------------------------------------------------------------------------------------------------------


def _outcomes(caption: str, heads: Sequence[str], jobs: Sequence[JobStatus], by: str) -> HtmlTable | None:
    """Show numbers of requests, a row for all jobs of which ``by`` is the same; outcomes that nothing had are left
    out."""
    shown = ["requests", *(name for name in OUTCOMES if name == "succeeded" or any(getattr(job, name) for job in jobs))]
    groups: dict[str, list[JobStatus]] = defaultdict(list)
    for job in jobs:
        groups[getattr(job, by)].append(job)
    lines = tuple(
        (*(_role(part[0]), part[0].provider, part[0].model)[: len(heads)],
         *(f"{sum(getattr(job, name) for job in part):,}" for name in shown))
        for part in groups.values()
    )  # fmt: skip
    return plain_table(text_table("", (*heads, *shown), lines, text=heads), caption)


def _role(job: JobStatus) -> str:
    return _ROLES.get(job.role, job.role)


def _failures(folder: RunFolder, status: Status) -> HtmlTable | None:
    """Show the providers' messages about failed requests, with their number; every attempt counts."""
    providers = {job.id: job.provider for job in status.jobs}
    rows = tuple(
        (providers.get(job), job, f"{count:,}", words)
        for job, counts in failure_words(folder, status).items()
        for words, count in counts
    )
    names = ("provider", "job", "times", "message")
    return plain_table(text_table("", names, rows, text=("provider", "job", "message")), "Messages of providers")


# ---- batches -------------------------------------------------------------------------------------------------------


def _batch_counts(batches: Sequence[Batch]) -> list[str]:
    """Return ``34 collected, completed`` …, the most frequent first."""
    return [f"{count:,} {state}" for state, count in Counter(map(_state, batches)).most_common()]


def _state(batch: Batch) -> str:
    return f"{batch.state}{f', {batch.outcome}' if batch.outcome else ''}".replace("_", " ")


def _reused(batches: Sequence[Batch]) -> str:
    """Say which batches were never sent because their answers had been paid for."""
    if not batches:
        return ""
    were = plural(len(batches), "further batch was", "further batches were")
    answers = plural(sum(batch.requests for batch in batches), "answer")
    return f"{were} never sent: {answers} had been paid for already."


def _last(batch: Batch) -> float | None:
    """Return the last moment at which anything was heard of it: there is no clock here."""
    return batch.ended_at or batch.read_at or batch.submitted_at


_COLUMNS = (
    HtmlColumn("Sent (UTC)", "when", is_text=True, label="sent"),
    HtmlColumn("Provider", "name", is_text=True, label=""),
    HtmlColumn("Model", is_head=True), HtmlColumn("For", "name", is_text=True, label="for"),
    HtmlColumn("Requests", is_falling=True, label="requests"), HtmlColumn("Attempt", is_falling=True, label="attempt"),
    HtmlColumn("State", "state", is_text=True, label=""), HtmlColumn("Took", is_falling=True, label="took"),
    HtmlColumn("Time", "time", is_text=True, label=""),
)  # fmt: skip


def _row(batch: Batch, role: str, begin: float, whole: float) -> HtmlRow:
    last, cells = _last(batch), macros("cells.html")
    took = max(last - batch.submitted_at, 0.0) if batch.submitted_at and last else None
    is_bad = batch.state is Lifecycle.LOST or str(batch.outcome) in ("failed", "expired", "cancelled")
    why = short_line(batch.reason or batch.cause, 500)
    name = short_line(batch.id) + (f", at the provider {short_line(batch.provider_id)}" if batch.provider_id else "")
    start, width = "", ""
    if took is not None and batch.submitted_at:
        start = f"{100 * (batch.submitted_at - begin) / whole:.2f}%"
        width = f"{max(100 * took / whole, 0.4):.2f}%"
    return HtmlRow([
        _moment(batch.submitted_at) or "not sent", short_line(batch.provider), short_line(batch.model),
        short_line(role), f"{batch.requests:,}", str(batch.attempt),
        HtmlCell(_state(batch), tone="bad" * is_bad, after=cells.remark(why) if why else NOTHING),
        HtmlCell("" if took is None else duration(took), sort="" if took is None else f"{took:.3f}"),
        HtmlCell(after=cells.batch_time(name, start, width, is_bad)),
    ])  # fmt: skip


def _moment(seconds: float | None) -> str:
    return f"{utc(seconds):%Y-%m-%d %H:%M}" if seconds else ""
