"""The bill of one batch: the tokens of every answer at the price of its day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from layton_batch.costs.rates import Price, charge
from layton_batch.costs.stated import CostTotals
from layton_batch.records import RequestCost, Response, Snapshot, Usage
from layton_batch.states import PERHAPS_BILLED, RequestOutcome

TOKENS = (
    "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "cache_write_tokens",
    "hour_write_tokens",
)  # fmt: skip
"""Numbers of tokens, in the order of the fields of a usage and of a charge."""
WITHOUT_USAGE = "answered without usage"
"""The answer does not say its tokens: its cost is unknown, whatever its price."""
WITHOUT_PRICE = "answered without a price"
COST_UNKNOWN = "cost_untold"
"""The event of a batch whose cost is not known in full."""

Bounds = Mapping[str, Decimal | None]
"""Upper bounds of a batch's requests in USD, by custom_id; None: not known."""


class Bill:
    """The charges of one batch, and their sums. ``price``: of the batch's model, None: not known. ``bounds``: of the
    batch's requests; they stand for those whose cost is unknown."""

    def __init__(self, price: Price | None, bounds: Bounds) -> None:
        self.charges: list[RequestCost] = []
        """In the order of the responses: of answers, and of other requests that may have been billed."""
        self._price, self._bounds = price, bounds
        self._stated: Decimal | None = None

    def enter(self, responses: Iterable[Response]) -> None:
        """Add the charges of responses."""
        for response in responses:
            if response.outcome is RequestOutcome.SUCCEEDED:
                self.charges.append(self._charge(response.custom_id, response.usage))
                if (stated := response.usage.stated_usd) is not None:
                    self._stated = (self._stated or Decimal(0)) + stated
            elif response.error_class in PERHAPS_BILLED:
                self.charges.append(
                    RequestCost(response.custom_id, unknown_cost=str(response.error_class).replace("_", " "))
                )

    def charge_again(self, charges: Iterable[RequestCost]) -> None:
        """Add earlier charges, at the price of this bill. The charge of a request without an answer stays as it is."""
        for earlier in charges:
            tokens: dict[str, Any] = {name: getattr(earlier, name) or 0 for name in TOKENS}
            usage = Usage(**tokens, is_known=earlier.unknown_cost != WITHOUT_USAGE)
            self.charges.append(self._charge(earlier.custom_id, usage) if earlier.is_answered else earlier)

    def _charge(self, custom_id: str, usage: Usage) -> RequestCost:
        charged: dict[str, Any] = {name: getattr(usage, name) for name in TOKENS}
        if self._price is None or not usage.is_known:
            charged["unknown_cost"] = WITHOUT_PRICE if usage.is_known else WITHOUT_USAGE
        else:
            charged["cost_usd"] = charge(usage, self._price, batched=True)
            charged["unbatched_usd"] = charge(usage, self._price, batched=False)
            charged |= {"price_source": self._price.source, "price_date": self._price.as_of.isoformat()}
        return RequestCost(custom_id, **charged)

    @property
    def spent(self) -> Decimal:
        """The sum of the known costs in USD."""
        return _spent(self.charges)

    @property
    def unknown_cost(self) -> Decimal:
        """The most that the requests of unknown cost can have cost in USD, as far as their bounds are known. No sum of
        ``spent`` contains it."""
        return total_bound(self._bounds.get(charge.custom_id) for charge in self.charges if charge.unknown_cost)

    def stated(self, snapshot: Snapshot | None) -> CostTotals:
        """Return the batch's sums as its provider states them: of the whole, or of the answers in the bill."""
        if snapshot is None:
            return CostTotals(self._stated)
        stated = self._stated if snapshot.stated_usd is None else snapshot.stated_usd
        tokens = snapshot.stated_usage
        return CostTotals(stated, tokens.input_tokens, tokens.output_tokens) if tokens else CostTotals(stated)

    def anomalies(self) -> Iterator[tuple[str, str]]:
        """Yield kind and detail of the event about unknown costs."""
        reasons = Counter(charge.unknown_cost for charge in self.charges if charge.unknown_cost)
        if not reasons:
            return
        numbers = ", ".join(f"{count} {reason}" for reason, count in sorted(reasons.items()))
        bound = self.unknown_cost
        most = f"at most ${bound:f}, which the budget counts" if bound else "no bound is known"
        yield COST_UNKNOWN, f"{numbers}: what they cost cannot be told and is not in this run's bill; {most}"


def total_bound(bounds: Iterable[Decimal | None]) -> Decimal:
    """Return the most that requests can have cost in USD, as far as their bounds are known."""
    return sum((bound for bound in bounds if bound is not None), Decimal(0))


def known_sums(charges: Sequence[RequestCost], unclear: Collection[str] = ()) -> CostTotals:
    """Return a batch's sums by our bill that are known. ``unclear``: further reasons why they are not."""
    reasons = {charge.unknown_cost for charge in charges if charge.unknown_cost} | {*unclear}
    usd = None if reasons else _spent(charges)
    if reasons - {WITHOUT_PRICE}:
        return CostTotals(usd)
    read, written = (
        sum(getattr(charge, name) or 0 for charge in charges) for name in ("input_tokens", "output_tokens")
    )
    return CostTotals(usd, read, written)


def _spent(charges: Iterable[RequestCost]) -> Decimal:
    return sum((charge.cost_usd for charge in charges if charge.cost_usd is not None), Decimal(0))
