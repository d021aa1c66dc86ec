"""A plan as JSON and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from layton_batch.costs.expected import bundled_priors
from layton_batch.reports.table import say_line, show
from layton_batch.stages.preview import EARLIER, PlannedJob, Preview
from layton_batch.text import Column, Table, columns, decimal_text, money, plural


def plan_json(preview: Preview) -> dict[str, object]:
    """Dollars are exact decimal text, null where a price is unknown."""
    return {
        "run": preview.run_id,
        "items": preview.items,
        "requests": preview.requests,
        "answered": preview.answered,
        "to_send": preview.to_send,
        "expected_usd": decimal_text(preview.expected_usd),
        "max_usd": decimal_text(preview.max_usd),
        "budget_usd": decimal_text(preview.budget),
        "providers": {name: decimal_text(usd) for name, usd in preview.by_provider().items()},
        "jobs": [_job(job) for job in preview.jobs],
        "caveats": list(preview.caveats),
        "refused": list(preview.refused),
    }


def _job(planned: PlannedJob) -> dict[str, object]:
    return {
        "id": planned.job.id,
        "role": str(planned.job.role),
        "provider": planned.job.spec.provider,
        "model": planned.job.spec.name,
        "depends_on": planned.job.depends_on,
        "requests": planned.requests,
        "answered": planned.answered,
        "shards": planned.shards,
        "bytes": planned.size_bytes,
        "too_large": planned.too_large,
        "expected_usd": decimal_text(planned.expected_usd),
        "expected_from": planned.expected_from,
        "max_usd": decimal_text(planned.max_usd),
        "price": planned.price_note,
    }


def print_plan(preview: Preview) -> None:
    """Stages and providers on one screen; the amounts are over every first attempt, judges included."""
    items, jobs = plural(preview.items, "item"), plural(len(preview.jobs), "job")
    groups = dict.fromkeys((str(one.job.role), one.job.spec.provider) for one in preview.jobs)
    rows = [(*group, *_figures([one for one in preview.jobs if _group(one) == group])) for group in groups]
    rows.append(("total", "", *_figures(preview.jobs)))
    title = f"{preview.run_id}  {items}, {jobs}; nothing was sent"
    heads = columns("stage", "provider", "jobs", "requests", "files", "size", "expected", "at most", text=2)
    show(Table(heads, tuple(rows), title, sums=frozenset({len(rows) - 1})))
    say_line(in_short(preview))
    if preview.budget is not None:
        say_line(f"budget: {money(preview.budget)}")
    notes = tuple(("note", caveat) for caveat in (_sources(preview), *preview.caveats))
    show(Table((Column("", style="yellow"), Column("", is_text=True)), notes), gap=1)


def in_short(preview: Preview) -> str:
    """How much there is to ask and to pay, in one line."""
    count = f"{plural(preview.requests, 'request')}, of which {preview.answered:,} answered already, "
    at_most = "unknown" if preview.max_usd is None else money(preview.max_usd)
    expected = "unknown" if preview.expected_usd is None else money(preview.expected_usd)
    return f"{count}{preview.to_send:,} to send: expected {expected}, at most {at_most}"


def _sources(preview: Preview) -> str:
    """Which of the expected costs are from earlier runs and which from the priors."""
    priors = f"the bundled priors by reasoning effort of {bundled_priors().as_of}"
    earlier = [one for one in preview.jobs if one.expected_from == EARLIER]
    if not earlier:
        return f"expected: from {priors}; no earlier run of these models and this task"
    if len(earlier) == len(preview.jobs):
        return "expected: from the tokens of earlier runs of these models and this task"
    names = ", ".join(dict.fromkeys(f"{one.job.role} {one.job.spec.name}" for one in earlier))
    return f"expected: from the tokens of earlier runs for {names}; from {priors} for the others"


def _group(one: PlannedJob) -> tuple[str, str]:
    return str(one.job.role), one.job.spec.provider


def _figures(group: Sequence[PlannedJob]) -> tuple[str, ...]:
    return (
        str(len(group)),
        f"{sum(one.requests for one in group):,}",
        str(sum(one.shards for one in group)),
        f"{sum(one.size_bytes for one in group) / 1e6:,.1f} MB",
        _total([one.expected_usd for one in group]),
        _total([one.max_usd for one in group]),
    )


def _total(amounts: Sequence[Decimal | None]) -> str:
    return "unknown" if None in amounts else money(sum((usd for usd in amounts if usd is not None), Decimal(0)))
