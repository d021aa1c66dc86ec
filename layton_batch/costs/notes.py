"""Notes on a bill besides its sums."""

from __future__ import annotations

from layton_batch.costs.report import CostLine, CostReport
from layton_batch.text import money, plural, tokens_text


def reused_note(report: CostReport) -> str | None:
    """Describe the answers that were paid for before and are not in these sums."""
    if not report.reused.requests:
        return None
    answers = plural(report.reused.requests, "answer was", "answers were")
    return f"reused: {answers} paid for by another run, {report.reused.paid.text} there and nothing here"


def cached_note(total: CostLine) -> str | None:
    """Describe how much of the input providers read from their caches."""
    if not total.cached_input_tokens:
        return None
    cached, read = tokens_text(total.cached_input_tokens), tokens_text(total.input_tokens)
    return f"cached: {cached} of {read} input tokens were read from providers' caches, at their lower rate"


def unknown_cost_note(total: CostLine) -> str | None:
    """Describe what the sums lack: requests without a readable result, and answers without token counts."""
    if not total.unknown_cost.usd:
        return None
    requests = plural(total.unknown_cost_requests, "request")
    return f"upper bound for {requests} whose cost is unknown, not in these sums: {money(total.unknown_cost.usd)}"


def differing_note(report: CostReport) -> str | None:
    """Describe the differences between this bill and the providers' statements, with the first batch as an example."""
    if not report.differing:
        return None
    first, batches = report.differing[0], plural(len(report.differing), "batch", "batches")
    return f"the provider's own statement differs by more than 1 % for {batches}: {first.batch_id}: {first.text}"


def bill_notes(report: CostReport) -> list[str]:
    """Return the notes on reused answers and on differing statements. Unknown costs stand beside the sums instead."""
    return [note for note in (reused_note(report), differing_note(report)) if note]
