"""A cost report as JSON, Markdown and CSV.

Model and provider names come from manifests and providers, so each form guards against what a name could do in it:
start a formula in a spreadsheet, break a Markdown table, move the cursor.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Mapping, Sequence
from decimal import ROUND_HALF_UP, Decimal

from layton_batch.costs.report import Amount, CostLine, CostReport
from layton_batch.invisible import printable
from layton_batch.records import JsonValue

UNKNOWN = "unknown"
AT_LEAST = "at least"
HEADERS = (
    "Provider",
    "Model",
    "Stage",
    "Requests",
    "Input",
    "Cached",
    "Output",
    "Reasoning",
    "Batched",
    "Unbatched",
    "Saved",
    "Price source",
    "Price date",
)
NUMERIC = frozenset(range(3, 11))
"""Columns of HEADERS to be set flush right."""

_CENT, _SMALL = Decimal("0.01"), Decimal("0.0001")
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "＝", "＋", "－", "＠")
_MARKDOWN = re.compile(r"([\\`*_{}\[\]<>|#~&])")


def money(usd: Decimal) -> str:
    """Dollars for people: to the cent, below one dollar to four decimals; what would round to nothing says so."""
    size = abs(usd)
    if 0 < size < _SMALL / 2:
        return ("-" if usd < 0 else "") + "<$0.0001"
    rounded = size.quantize(_CENT if size >= 1 else _SMALL, ROUND_HALF_UP)
    if size == 0:
        rounded = Decimal("0.00")
    return f"{'-' if usd < 0 else ''}${rounded:,f}"


def amount_text(amount: Amount) -> str:
    """An amount for people: ``unknown``, ``$1.23`` or ``at least $1.23``."""
    if amount.usd is None:
        return UNKNOWN
    return money(amount.usd) if amount.complete else f"{AT_LEAST} {money(amount.usd)}"


def exact(amount: Amount) -> str:
    """An amount for programs: exact decimal text, or ``unknown``."""
    return UNKNOWN if amount.usd is None else format(amount.usd, "f")


def report_json(report: CostReport) -> dict[str, JsonValue]:
    """``{"rows", "by_provider", "by_stage", "total"}``; keys are the cost table's columns, dollars exact decimal text.

    ``complete`` false: the row's dollars are a lower bound, or unknown, because some requests have no known price, or
    because of ``untold_requests``, which cost at most ``untold_usd`` beside that.
    """
    return {
        "rows": [line_json(line) for line in report.lines],
        "by_provider": [line_json(line) for line in report.by_provider],
        "by_stage": [line_json(line) for line in report.by_stage],
        "total": line_json(report.total),
    }


def line_json(line: CostLine) -> dict[str, JsonValue]:
    """One line under the names of the run's cost table."""
    return {
        "provider": line.provider,
        "model": line.model,
        "stage": line.stage,
        "requests": line.requests,
        "input_tokens": line.input_tokens,
        "cached_input_tokens": line.cached_input_tokens,
        "output_tokens": line.output_tokens,
        "reasoning_tokens": line.reasoning_tokens,
        "cost_usd": exact(line.batched),
        "unbatched_usd": exact(line.unbatched),
        "saved_usd": exact(line.saved),
        "price_source": line.price_source or UNKNOWN,
        "price_date": line.price_date or UNKNOWN,
        "unpriced_requests": line.unpriced_requests,
        "untold_requests": line.untold_requests,
        "untold_usd": exact(line.untold),
        "complete": line.batched.complete and line.unbatched.complete,
    }


def report_csv(report: CostReport) -> str:
    """A header, a row per line and a last row whose provider is ``total``; dollars exact."""
    out = io.StringIO()
    rows = [line_json(line) for line in report.lines]
    total: Mapping[str, JsonValue] = {**line_json(report.total), "provider": "total"}
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(total.keys())
    writer.writerows([_csv_cell(value) for value in row.values()] for row in (*rows, total))
    return out.getvalue()


def _csv_cell(value: JsonValue) -> JsonValue:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str) or _is_number(value):
        return value
    return spreadsheet_text(value)


def spreadsheet_text(text: str) -> str:
    """Printable text for a CSV cell. Spreadsheets run cells that start like a formula, also after blanks, and also with
    full-width signs; a leading apostrophe makes such a cell text."""
    shown = printable(text)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA_STARTS) or text.startswith(_FORMULA_STARTS) else shown


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d+(\.\d+)?", text, re.ASCII) is not None


def report_markdown(report: CostReport) -> str:
    """A GitHub-style table with the total as its last row."""
    rule = ["---:" if column in NUMERIC else "---" for column in range(len(HEADERS))]
    rows = [[_MARKDOWN.sub(r"\\\1", cell) for cell in cells] for cells in _plain_rows(report)]
    lines = [f"| {' | '.join(cells)} |" for cells in (HEADERS, rule, *rows)]
    return "\n".join(lines) + "\n"


def _plain_rows(report: CostReport) -> list[Sequence[str]]:
    return [_cells(line, line.provider) for line in report.lines] + [_cells(report.total, "Total")]


def _cells(line: CostLine, first: str) -> Sequence[str]:
    texts = (
        first,
        line.model,
        line.stage,
        f"{line.requests:,}",
        f"{line.input_tokens:,}",
        f"{line.cached_input_tokens:,}",
        f"{line.output_tokens:,}",
        f"{line.reasoning_tokens:,}",
        amount_text(line.batched),
        amount_text(line.unbatched),
        amount_text(line.saved),
        line.price_source or UNKNOWN,
        line.price_date or UNKNOWN,
    )
    return [printable(text) for text in texts]
