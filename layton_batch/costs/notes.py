"""What has to be said of a bill besides its sums."""

from __future__ import annotations

from layton_batch.costs.report import CostLine, CostReport
from layton_batch.text import money, plural, tokens_text


def reused_note(report: CostReport) -> str | None:
    """Answers that were paid for before, not in these sums."""
    if not report.reused.requests:
        return None
    answers = plural(report.reused.requests, "answer was", "answers were")
    return f"reused: {answers} paid for by another job or run, {report.reused.paid.text} there and nothing here"


def cached_note(total: CostLine) -> str | None:
    """How much of the input providers read from their caches."""
    if not total.cached_input_tokens:
        return None
    cached, read = tokens_text(total.cached_input_tokens), tokens_text(total.input_tokens)
    return f"cached: {cached} of {read} input tokens were read from providers' caches, at their lower rate"


def unknown_cost_note(total: CostLine) -> str | None:
    """What the sums lack: requests whose line cannot be read or had, and answers that do not tell their tokens."""
    if not total.unknown_cost.usd:
        return None
    requests = plural(total.unknown_cost_requests, "request")
    return f"upper bound for {requests} whose cost is unknown, not in these sums: {money(total.unknown_cost.usd)}"


def differing_note(report: CostReport) -> str | None:
    """What providers state of batches otherwise than this bill, the first such batch as an example."""
    if not report.differing:
        return None
    first, batches = report.differing[0], plural(len(report.differing), "batch", "batches")
    return f"the provider's own statement differs by more than 1 % for {batches}: {first.batch_id}: {first.text}"


def bill_notes(report: CostReport) -> list[str]:
    """Of answers that others paid for, and of other statements; what has no known cost stands beside the sums."""
    return [note for note in (reused_note(report), differing_note(report)) if note]
