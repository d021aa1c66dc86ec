"""The bill of one batch: the tokens of every answer at the price of its day."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from decimal import Decimal

from layton_batch.costs.rates import Price, charger, usd
from layton_batch.costs.stated import CostTotals
from layton_batch.records import RequestCost, Response, Snapshot, Usage
from layton_batch.states import PERHAPS_BILLED, RequestOutcome

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
        if price is not None:
            self._batched, self._unbatched = charger(price, batched=True), charger(price, batched=False)

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
        for charge in charges:
            if not charge.is_answered:
                self.charges.append(charge)
                continue
            usage = Usage(
                input_tokens=charge.input_tokens or 0,
                cached_input_tokens=charge.cached_input_tokens or 0,
                output_tokens=charge.output_tokens or 0,
                reasoning_tokens=charge.reasoning_tokens or 0,
                cache_write_tokens=charge.cache_write_tokens or 0,
                hour_write_tokens=charge.hour_write_tokens or 0,
                is_known=charge.unknown_cost != WITHOUT_USAGE,
            )
            self.charges.append(self._charge(charge.custom_id, usage))

    def _charge(self, custom_id: str, usage: Usage) -> RequestCost:
        charge = RequestCost(
            custom_id, usage.input_tokens, usage.cached_input_tokens, usage.output_tokens, usage.reasoning_tokens,
            usage.cache_write_tokens, usage.hour_write_tokens,
        )  # fmt: skip
        if not usage.is_known:
            return replace(charge, unknown_cost=WITHOUT_USAGE)
        if self._price is None:
            return replace(charge, unknown_cost=WITHOUT_PRICE)
        batched, unbatched = self._batched(usage), self._unbatched(usage)
        return replace(
            charge, cost_usd=usd(batched), unbatched_usd=usd(unbatched), price_source=self._price.source,
            price_date=self._price.as_of.isoformat(),
        )  # fmt: skip

    @property
    def spent(self) -> Decimal:
        """The sum of the known costs in USD."""
        return sum((charge.cost_usd for charge in self.charges if charge.cost_usd is not None), Decimal(0))

    @property
    def unknown_cost(self) -> Decimal:
        """The most that the requests of unknown cost can have cost in USD, as far as their bounds are known. No sum of
        ``spent`` contains it."""
        return total_bound(self._bounds.get(charge.custom_id) for charge in self.charges if charge.unknown_cost)

    def ours(self) -> CostTotals:
        """Return the batch's sums by this bill, as far as they are known."""
        read = sum(charge.input_tokens or 0 for charge in self.charges)
        written = sum(charge.output_tokens or 0 for charge in self.charges)
        reasons = {charge.unknown_cost for charge in self.charges if charge.unknown_cost}
        return known_sums(CostTotals(self.spent, read, written), reasons)

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


def known_sums(sums: CostTotals, reasons: Collection[str]) -> CostTotals:
    """Return those of the sums that are known where some requests have an unknown cost, for these reasons."""
    total = None if reasons else sums.usd
    return CostTotals(total) if set(reasons) - {WITHOUT_PRICE} else replace(sums, usd=total)
