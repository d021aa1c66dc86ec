"""The bill: usage rows added up by provider, model, day …, batched against the same tokens live (unbatched), and notes
on it.

What has no known price is ``None`` here and the word *unknown* when printed, never 0; a sum that lacks something says
*at least*. Sums are exact; only what is printed for people is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from decimal import Decimal
from itertools import count

from layton_batch.columns import DATA, EVERYWHERE, Column, OutputForm, Table, record
from layton_batch.costs.stated import CostComparison, differing
from layton_batch.errors import ManifestError
from layton_batch.records import JsonValue, Usage
from layton_batch.states import Role
from layton_batch.text import NONE, decimal_text, money, plural, tokens_text

UNKNOWN = "unknown"
STAGES: Mapping[str, str] = {Role.PREDICT: "answers", Role.JUDGE: "jury", Role.REJUDGE: "jury on labelled answers"}
"""What was paid for, in words for people."""
BY = ("provider", "model", "stage")
"""The groups of a bill that is asked for without any."""
GROUPS = ("run", *BY, "day", "week", "month")
"""Groups by which a bill can be added up."""
_IN_FILES = DATA | {OutputForm.MARKDOWN}
NOT_ENDED = "not ended"
"""The day of a batch that has not ended."""


@dataclass(frozen=True, slots=True)
class CostQuery:
    """Groups of a bill, and its first and last day (UTC, both included). A batch counts on the day it ended."""

    by: Sequence[str] = BY
    since: date | None = None
    until: date | None = None

    @classmethod
    def parse(cls, by: str | None, since: str | None, until: str | None, today: date) -> CostQuery:
        """Read the options ``--by day,model``, ``--since`` and ``--until``. Raises ManifestError."""
        names = BY if by is None else tuple(dict.fromkeys(name.strip() for name in by.split(",")))
        if wrong := [name for name in names if name not in GROUPS]:
            raise ManifestError(f"cost: by {wrong[0]!r}: must be one or several of {', '.join(GROUPS)}")
        return cls(names, _day("since", since, today), _day("until", until, today))

    @property
    def has_dates(self) -> bool:
        """Return whether the bill is of some days only."""
        return self.since is not None or self.until is not None

    def includes(self, day: str) -> bool:
        """Return whether the bill is of this day, an ISO date. A batch that has not ended counts as of today."""
        if day == NOT_ENDED:
            return self.until is None
        moment = date.fromisoformat(day)
        return (self.since is None or self.since <= moment) and (self.until is None or moment <= self.until)


WHOLE = CostQuery()
"""A bill of all days, by provider, model and stage."""


def _day(option: str, text: str | None, today: date) -> date | None:
    """Read ``2026-11-28``, ``today``, ``yesterday`` or ``7d``, which is seven days ago."""
    if text is None:
        return None
    if text == "today":
        return today
    if text == "yesterday" or (text.endswith("d") and text[:-1].isdecimal() and len(text) <= 5):
        return today - timedelta(days=1 if text == "yesterday" else int(text[:-1]))
    try:
        return date.fromisoformat(text)
    except ValueError as error:
        wanted = "give a date such as 2026-11-28, `today`, `yesterday`, or `7d` for seven days ago"
        raise ManifestError(f"cost: {option} {text!r}: {wanted}") from error


@dataclass(frozen=True, slots=True)
class UsageRow:
    """Tokens of one or more requests of one model in one role, and what they cost in USD; None: price unknown.

    A row of several requests must hold the sum of their single costs, since a price may step up with a request's input.
    """

    provider: str
    model: str
    role: Role
    requests: int
    usage: Usage
    cost_batched: Decimal | None
    cost_unbatched: Decimal | None
    price_source: str | None = None
    price_date: str | None = None
    run: str = ""
    day: str = NOT_ENDED


@dataclass(frozen=True, slots=True)
class UnknownCost:
    """Requests that were or may have been billed, and whose cost is unknown; ``bound``: the most it can be, where that
    is known. Where they were ``answered``, a usage row without a cost stands for them as well."""

    provider: str
    model: str
    role: Role
    bound: Decimal | None
    answered: bool = False
    requests: int = 1
    run: str = ""
    day: str = NOT_ENDED


@dataclass(frozen=True, slots=True)
class TotalCost:
    """A sum of dollars over rows. ``usd`` None: none of them is known; not ``complete``: at least one is unknown."""

    usd: Decimal | None
    complete: bool

    @property
    def text(self) -> str:
        """Return the sum for people: ``unknown``, ``$1.23`` or ``at least $1.23``."""
        if self.usd is None:
            return UNKNOWN
        return money(self.usd) if self.complete else f"at least {money(self.usd)}"

    @property
    def exact(self) -> str:
        """Return the sum for programs: exact decimal text, or ``unknown``."""
        return UNKNOWN if self.usd is None else decimal_text(self.usd)


@dataclass(frozen=True, slots=True)
class CostLine:
    """The sum over one ``group`` of rows, named by the values of what the bill is added up by. ``saved`` = unbatched −
    batched, and ``share_of_live`` = batched / unbatched, over the rows where both are known. ``requests``: those with
    an answer. ``unknown_cost``: upper bound for the ``unknown_cost_requests``, beside these sums."""

    group: tuple[str, ...]
    requests: int
    unpriced_requests: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    batched: TotalCost
    unbatched: TotalCost
    saved: TotalCost
    share_of_live: Decimal | None
    price_source: str
    price_date: str
    unknown_cost_requests: int
    unknown_cost: TotalCost


@dataclass(frozen=True, slots=True)
class CostReport:
    """A bill: a line for each group of what it is added up ``by``.
    ``differing``: batches of which the provider states another cost, or other tokens, than these rows. ``reused``:
    answers that other runs paid for, and what they cost there; in no sum of what was paid here."""

    by: Sequence[str]
    lines: tuple[CostLine, ...]
    total: CostLine
    differing: tuple[CostComparison, ...]
    reused: CostLine


_Entry = UsageRow | UnknownCost


def build_report(
    rows: Iterable[UsageRow],
    unknown: Iterable[UnknownCost] = (),
    stated: Iterable[CostComparison] = (),
    reused: Iterable[UsageRow] = (),
    by: Sequence[str] = BY,
) -> CostReport:
    """Add up rows in any order. Without rows the report is empty and costs exactly nothing."""
    entries: list[_Entry] = [*rows, *unknown]
    return CostReport(
        by=by,
        lines=_lines(entries, by),
        total=_line((), entries),
        differing=differing(stated),
        reused=_line((), list(reused)),
    )


def _lines(entries: Iterable[_Entry], by: Sequence[str]) -> tuple[CostLine, ...]:
    groups: dict[tuple[str, ...], list[_Entry]] = {}
    for entry in entries:
        groups.setdefault(tuple(_value(entry, name) for name in by), []).append(entry)
    return tuple(_line(group, groups[group]) for group in sorted(groups))


def _value(entry: _Entry, name: str) -> str:
    if name in ("week", "month") and entry.day != NOT_ENDED:
        year, week, _ = date.fromisoformat(entry.day).isocalendar()
        return entry.day[:7] if name == "month" else f"{year}-W{week:02}"
    return str(getattr(entry, {"stage": "role", "week": "day", "month": "day"}.get(name, name)))


def _line(group: tuple[str, ...], members: Sequence[_Entry]) -> CostLine:
    rows = [row for row in members if isinstance(row, UsageRow)]
    unknown = [row for row in members if isinstance(row, UnknownCost)]
    whole = all(row.answered for row in unknown)  # of those the rows tell themselves
    return CostLine(
        group=group,
        requests=sum(row.requests for row in rows),
        unpriced_requests=sum(row.requests for row in rows if row.cost_batched is None),
        input_tokens=sum(row.usage.input_tokens for row in rows),
        cached_input_tokens=sum(row.usage.cached_input_tokens for row in rows),
        output_tokens=sum(row.usage.output_tokens for row in rows),
        reasoning_tokens=sum(row.usage.reasoning_tokens for row in rows),
        batched=_sum([row.cost_batched for row in rows], whole=whole),
        unbatched=_sum([row.cost_unbatched for row in rows], whole=whole),
        saved=_sum([_saved(row) for row in rows], whole=whole),
        share_of_live=_share(rows),
        price_source=_distinct(row.price_source for row in rows),
        price_date=_distinct(row.price_date for row in rows),
        unknown_cost_requests=sum(row.requests for row in unknown),
        unknown_cost=_sum([row.bound for row in unknown]),
    )


def _share(rows: Sequence[UsageRow]) -> Decimal | None:
    priced = [
        (row.cost_batched, row.cost_unbatched)
        for row in rows
        if row.cost_batched is not None and row.cost_unbatched is not None
    ]
    live = sum((unbatched for _, unbatched in priced), Decimal(0))
    return sum((batched for batched, _ in priced), Decimal(0)) / live if live else None


def line_json(line: CostLine, by: Sequence[str] = BY) -> dict[str, JsonValue]:
    """Return a line with the names of the run's cost table, after those of what the bill is added up ``by`` (none of
    its total); USD are exact decimal text.

    ``complete`` false: the line's dollars are a lower bound, or unknown, because some requests have no known price, or
    because of ``unknown_cost_requests``, which cost at most ``unknown_cost_usd`` beside that.
    """
    groups = zip(by, line.group, strict=False)
    return {**dict(groups), **record((column for column in COLUMNS if OutputForm.JSON in column.surfaces), line)}


def cost_table(report: CostReport, title: str = "") -> Table[CostLine]:
    """Return a bill as a table: what it is added up by, then the columns of every bill, and the total."""
    return Table((*map(_group_column, report.by, count()), *COLUMNS), report.lines, title, total=report.total)


def _group_column(name: str, at: int) -> Column[CostLine]:
    def value(line: CostLine) -> str:
        return line.group[at] if line.group else "" if at else "total"

    def text(line: CostLine) -> str:
        return STAGES.get(value(line), value(line)) if name == "stage" else value(line)

    return Column(name, value=value, text=text, is_text=True)


def share_text(line: CostLine) -> str:
    """Return a line's share of live in percent."""
    return NONE if line.share_of_live is None else f"{line.share_of_live:.0%}"


def _tokens(name: str, words: str) -> Column[CostLine]:
    return Column(name, words, "{:,}", surfaces=EVERYWHERE - {OutputForm.TERMINAL})


def _amount(
    name: str, words: str, total: Callable[[CostLine], TotalCost], hidden: Collection[OutputForm] = ()
) -> Column[CostLine]:
    return Column(
        name,
        words,
        value=lambda line: total(line).exact,
        text=lambda line: total(line).text,
        surfaces=EVERYWHERE - {*hidden},
    )


COLUMNS: tuple[Column[CostLine], ...] = (
    Column("requests", format="{:,}"),
    Column(
        "tokens", text=lambda line: tokens_text(line.input_tokens + line.output_tokens), surfaces={OutputForm.TERMINAL}
    ),
    _tokens("input_tokens", "input"),
    _tokens("cached_input_tokens", "cached"),
    _tokens("output_tokens", "output"),
    _tokens("reasoning_tokens", "reasoning"),
    _amount("cost_usd", "cost", lambda line: line.batched),
    _amount("unbatched_usd", "live", lambda line: line.unbatched),
    _amount("saved_usd", "saved", lambda line: line.saved, {OutputForm.TERMINAL}),
    Column(
        "share_of_live",
        "share\nof live",
        value=lambda line: None if line.share_of_live is None else round(float(line.share_of_live), 4),
        text=share_text,
    ),
    Column("price_source", "price source", value=lambda line: line.price_source or UNKNOWN, surfaces=_IN_FILES,
           is_text=True),
    Column("price_date", "price date", value=lambda line: line.price_date or UNKNOWN, surfaces=_IN_FILES,
           is_text=True),
    Column("unpriced_requests", surfaces=DATA),
    Column("unknown_cost_requests", surfaces=DATA),
    Column("unknown_cost_usd", value=lambda line: line.unknown_cost.exact, surfaces=DATA),
    Column("complete", value=lambda line: line.batched.complete and line.unbatched.complete, surfaces=DATA),
)  # fmt: skip
"""Columns of every bill, on every surface."""


def _saved(row: UsageRow) -> Decimal | None:
    if row.cost_batched is None or row.cost_unbatched is None:
        return None
    return row.cost_unbatched - row.cost_batched


def _sum(costs: Sequence[Decimal | None], *, whole: bool = True) -> TotalCost:
    known_costs = [cost for cost in costs if cost is not None]
    if not costs:
        return TotalCost(Decimal(0), complete=whole)
    return TotalCost(
        sum(known_costs, Decimal(0)) if known_costs else None, complete=whole and len(known_costs) == len(costs)
    )


def _distinct(values: Iterable[str | None]) -> str:
    return "; ".join(sorted({value for value in values if value}))


def reused_note(report: CostReport) -> str | None:
    """Describe the answers that were paid for before and are not in these sums."""
    if not report.reused.requests:
        return None
    answers = plural(report.reused.requests, "answer was", "answers were")
    return f"reused: {answers} paid for by another run, {report.reused.batched.text} there and nothing here"


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
