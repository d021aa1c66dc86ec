"""A plan as JSON and as tables."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import TYPE_CHECKING

from layton_batch.cli.terminal import console, one_line
from layton_batch.stages.preview import PlannedJob, Preview

if TYPE_CHECKING:
    from rich.table import Table


def plan_json(preview: Preview) -> dict[str, object]:
    """Dollars are exact decimal text, null where a price is unknown."""
    return {
        "run": preview.run_id,
        "items": preview.items,
        "requests": sum(job.requests for job in preview.jobs),
        "max_usd": _exact(preview.max_usd),
        "budget_usd": _exact(preview.budget),
        "providers": {name: _exact(usd) for name, usd in preview.by_provider().items()},
        "jobs": [_job(job) for job in preview.jobs],
        "caveats": list(preview.caveats),
    }


def _job(planned: PlannedJob) -> dict[str, object]:
    return {
        "id": planned.job.id,
        "role": str(planned.job.role),
        "provider": planned.job.spec.provider,
        "model": planned.job.spec.name,
        "depends_on": planned.job.depends_on,
        "requests": planned.requests,
        "shards": planned.shards,
        "bytes": planned.size_bytes,
        "too_large": planned.too_large,
        "max_usd": _exact(planned.max_usd),
        "price": planned.price_note,
    }


def _exact(usd: Decimal | None) -> str | None:
    return None if usd is None else format(usd, "f")


def print_plan(preview: Preview) -> None:
    """Stages and providers on one screen; the bound is over every first attempt, judges included."""
    from rich.markup import escape
    from rich.table import Table

    out = console()
    out.print(f"[bold]{escape(preview.run_id)}[/]  {preview.items} items, {len(preview.jobs)} jobs; nothing was sent")
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("stage")
    table.add_column("provider")
    for name in ("jobs", "requests", "files", "size", "costs at most"):
        table.add_column(name, justify="right")
    for role, provider in dict.fromkeys((one.job.role, one.job.spec.provider) for one in preview.jobs):
        group = [one for one in preview.jobs if (one.job.role, one.job.spec.provider) == (role, provider)]
        table.add_row(str(role), escape(one_line(provider)), *_group(group))
    table.add_row("total", "", *_group(list(preview.jobs)), style="bold")
    out.print(table)
    if preview.budget is not None:
        out.print(f"budget: ${preview.budget:,.2f}", markup=False)
    out.print(_notes(preview.caveats))


def _notes(caveats: Sequence[str]) -> Table:
    """A note under the other, each set off from the next by its mark."""
    from rich.markup import escape
    from rich.table import Table

    notes = Table.grid(padding=(0, 1, 0, 0))
    notes.add_column(style="yellow")
    notes.add_column()
    for caveat in caveats:
        notes.add_row("note", escape(one_line(caveat)))
    return notes


def _group(group: list[PlannedJob]) -> tuple[str, ...]:
    amounts = [one.max_usd for one in group]
    total = sum((usd for usd in amounts if usd is not None), Decimal(0))
    bound = "unknown" if None in amounts else f"${total:,.2f}"
    return (
        str(len(group)),
        f"{sum(one.requests for one in group):,}",
        str(sum(one.shards for one in group)),
        f"{sum(one.size_bytes for one in group) / 1e6:,.1f} MB",
        bound,
    )
