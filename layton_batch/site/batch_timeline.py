"""Timeline of a run's batches, and the providers' messages about failed requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from markupsafe import Markup

from layton_batch.clock import utc
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Batch
from layton_batch.runs.failure_words import failure_words
from layton_batch.runs.status import Status
from layton_batch.site.html_table import HtmlBody, HtmlCell, HtmlColumn, HtmlRow, plain_table, table_html
from layton_batch.site.pages import safe_html, short_line
from layton_batch.site.progress_page import role_words
from layton_batch.states import Lifecycle
from layton_batch.text import Table, columns, plural

MOST_BATCHES = 2_000
_FORM = "%Y-%m-%d %H:%M"


@dataclass(frozen=True, slots=True)
class BatchTimeline:
    """Batches of a run in time. ``begin``, ``end``: the period that the bars cover; ``more``: omitted batches.

    ``reused``: a sentence about batches that were never sent because their answers had been paid for.
    """

    lines: Markup
    failures: Markup
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
        lines=_shown(sent[:MOST_BATCHES], roles, begin, end),
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


_COLUMNS = (
    HtmlColumn("Sent (UTC)", "when", is_text=True, label="sent"),
    HtmlColumn("Provider", "name", is_text=True, label=""),
    HtmlColumn("Model", is_head=True), HtmlColumn("For", "name", is_text=True, label="for"),
    HtmlColumn("Requests", is_falling=True, label="requests"), HtmlColumn("Attempt", is_falling=True, label="attempt"),
    HtmlColumn("State", "state", is_text=True, label=""), HtmlColumn("Took", is_falling=True, label="took"),
    HtmlColumn("Time", "time", is_text=True, label=""),
)  # fmt: skip


def _shown(sent: Sequence[Batch], roles: Mapping[str, str], begin: float, end: float) -> Markup:
    rows = [_row(batch, roles.get(batch.job_id, ""), begin, (end - begin) or 1.0) for batch in sent]
    caption = "Batches in the order in which they were sent"
    return table_html(caption, _COLUMNS, [HtmlBody(rows, "batch-rows")], kind="cards batches") if rows else Markup()


def _row(batch: Batch, role: str, begin: float, whole: float) -> HtmlRow:
    last = _last(batch)
    took = max(last - batch.submitted_at, 0.0) if batch.submitted_at and last else None
    is_bad = batch.state is Lifecycle.LOST or str(batch.outcome) in ("failed", "expired", "cancelled")
    state = f"{batch.state}{f', {batch.outcome}' if batch.outcome else ''}".replace("_", " ")
    why = short_line(batch.reason or batch.cause, 500)
    name = short_line(batch.id) + (f", at the provider {short_line(batch.provider_id)}" if batch.provider_id else "")
    bar = ""
    if took is not None and batch.submitted_at:
        start, width = 100 * (batch.submitted_at - begin) / whole, max(100 * took / whole, 0.4)
        bar = (
            f'<svg class="span" aria-hidden="true" focusable="false"><rect class="{"late" if is_bad else "range"}" '
            f'x="{start:.2f}%" width="{width:.2f}%" y="3" height="10"></rect></svg>'
        )
    remark = safe_html(f' <span class="fine">{escape(why)}</span>' if why else "")
    return HtmlRow([
        _moment(batch.submitted_at) or "not sent", short_line(batch.provider), short_line(batch.model),
        role_words(role) if role else "", f"{batch.requests:,}", str(batch.attempt),
        HtmlCell(state, tone="bad" * is_bad, after=remark),
        HtmlCell("" if took is None else _duration(took), sort="" if took is None else f"{took:.3f}"),
        HtmlCell(after=safe_html(f'{bar}<span class="unseen">{escape(name)}</span>')),
    ])  # fmt: skip


def _failures(folder: RunFolder, status: Status) -> Markup:
    """Show the providers' messages about failed requests, with their number; every attempt counts."""
    providers = {job.id: job.provider for job in status.jobs}
    rows = tuple(
        (short_line(providers.get(job)), short_line(job), f"{count:,}", words[:500])
        for job, counts in failure_words(folder, status).items()
        for words, count in counts
    )
    names = ("provider", "job", "times", "message")
    return plain_table(Table(columns(*names, text=("provider", "job", "message")), rows), "Messages of providers") \
        if rows else Markup()  # fmt: skip


def _moment(seconds: float | None) -> str:
    return utc(seconds).strftime(_FORM) if seconds else ""


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{plural(days, 'day')} {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s" if minutes else f"{rest} s"
