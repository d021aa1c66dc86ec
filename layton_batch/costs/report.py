"""The bill: usage rows added up by provider, model and stage, batched against the same tokens unbatched.

What has no known price is ``None`` here and the word *unknown* when printed, never 0; a sum that lacks something says
*at least*. Sums are exact; only what is printed for people is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal

from layton_batch.costs.stated import CostComparison, differing
from layton_batch.records import JsonValue, Usage
from layton_batch.states import Role
from layton_batch.text import decimal_text, money

UNKNOWN = "unknown"


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


NOTHING = TotalCost(Decimal(0), complete=True)
"""What no request at all costs."""


@dataclass(frozen=True, slots=True)
class CostLine:
    """The sum over one group of rows; a field that the group does not share is empty. ``saved`` = unbatched − batched,
    over the rows where both are known. ``requests``: those with an answer. ``unknown_cost``: upper bound for the
    ``unknown_cost_requests``, beside these sums."""

    provider: str
    model: str
    stage: str
    requests: int
    unpriced_requests: int
    input_tokens: int
    cached_input_tokens: int
    output_tokens: int
    reasoning_tokens: int
    batched: TotalCost
    unbatched: TotalCost
    saved: TotalCost
    price_source: str
    price_date: str
    unknown_cost_requests: int = 0
    unknown_cost: TotalCost = NOTHING


@dataclass(frozen=True, slots=True)
class ReusedAnswers:
    """Answers that other runs paid for, and what they cost there; in no sum of what was paid here."""

    requests: int = 0
    paid: TotalCost = NOTHING


@dataclass(frozen=True, slots=True)
class CostReport:
    """``lines`` by provider, model and stage; the next four are the same rows added up more coarsely. ``differing``:
    batches of which the provider states another cost, or other tokens, than these rows."""

    lines: tuple[CostLine, ...]
    by_provider: tuple[CostLine, ...]
    by_model: tuple[CostLine, ...]
    by_stage: tuple[CostLine, ...]
    total: CostLine
    differing: tuple[CostComparison, ...] = ()
    reused: ReusedAnswers = ReusedAnswers()


_Entry = UsageRow | UnknownCost


def build_report(
    rows: Iterable[UsageRow],
    unknown: Iterable[UnknownCost] = (),
    stated: Iterable[CostComparison] = (),
    reused: Iterable[UsageRow] = (),
) -> CostReport:
    """Add up rows in any order. Without rows the report is empty and costs exactly nothing."""
    entries: list[_Entry] = [*rows, *unknown]
    before = list(reused)
    return CostReport(
        lines=_grouped(entries, lambda row: (row.provider, row.model, str(row.role))),
        by_provider=_grouped(entries, lambda row: (row.provider, "", "")),
        by_model=_grouped(entries, lambda row: (row.provider, row.model, "")),
        by_stage=_grouped(entries, lambda row: ("", "", str(row.role))),
        total=_line(("", "", ""), entries),
        differing=differing(stated),
        reused=ReusedAnswers(sum(row.requests for row in before), _sum([row.cost_batched for row in before])),
    )


_Key = tuple[str, str, str]


def _grouped(rows: Sequence[_Entry], key: Callable[[_Entry], _Key]) -> tuple[CostLine, ...]:
    groups: dict[_Key, list[_Entry]] = {}
    for row in rows:
        groups.setdefault(key(row), []).append(row)
    return tuple(_line(group, groups[group]) for group in sorted(groups))


def _line(key: _Key, members: Sequence[_Entry]) -> CostLine:
    provider, model, stage = key
    rows = [row for row in members if isinstance(row, UsageRow)]
    unknown = [row for row in members if isinstance(row, UnknownCost)]
    whole = all(row.answered for row in unknown)  # of those the rows tell themselves
    return CostLine(
        provider=provider,
        model=model,
        stage=stage,
        requests=sum(row.requests for row in rows),
        unpriced_requests=sum(row.requests for row in rows if row.cost_batched is None),
        input_tokens=sum(row.usage.input_tokens for row in rows),
        cached_input_tokens=sum(row.usage.cached_input_tokens for row in rows),
        output_tokens=sum(row.usage.output_tokens for row in rows),
        reasoning_tokens=sum(row.usage.reasoning_tokens for row in rows),
        batched=_sum([row.cost_batched for row in rows], whole=whole),
        unbatched=_sum([row.cost_unbatched for row in rows], whole=whole),
        saved=_sum([_saved(row) for row in rows], whole=whole),
        price_source=_distinct(row.price_source for row in rows),
        price_date=_distinct(row.price_date for row in rows),
        unknown_cost_requests=sum(row.requests for row in unknown),
        unknown_cost=_sum([row.bound for row in unknown]),
    )


def line_json(line: CostLine) -> dict[str, JsonValue]:
    """Return a line with the names of the run's cost table; USD are exact decimal text.

    ``complete`` false: the line's dollars are a lower bound, or unknown, because some requests have no known price, or
    because of ``unknown_cost_requests``, which cost at most ``unknown_cost_usd`` beside that.
    """
    return {
        "provider": line.provider,
        "model": line.model,
        "stage": line.stage,
        "requests": line.requests,
        "input_tokens": line.input_tokens,
        "cached_input_tokens": line.cached_input_tokens,
        "output_tokens": line.output_tokens,
        "reasoning_tokens": line.reasoning_tokens,
        "cost_usd": line.batched.exact,
        "unbatched_usd": line.unbatched.exact,
        "saved_usd": line.saved.exact,
        "price_source": line.price_source or UNKNOWN,
        "price_date": line.price_date or UNKNOWN,
        "unpriced_requests": line.unpriced_requests,
        "unknown_cost_requests": line.unknown_cost_requests,
        "unknown_cost_usd": line.unknown_cost.exact,
        "complete": line.batched.complete and line.unbatched.complete,
    }


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
