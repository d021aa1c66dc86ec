"""The bill of one batch, row by row: the tokens of every answer at the price of its day."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal

from layton_batch.costs.prices import PriceBook
from layton_batch.costs.report import UsageRow, priced_row
from layton_batch.records import Batch, Job, Response, Usage
from layton_batch.states import Role


class Bill:
    """What the answers of one batch cost, added up; those without a known price add nothing to ``spent``."""

    def __init__(self, prices: PriceBook, job: Job, batch: Batch) -> None:
        self.spent = Decimal(0)
        self._job, self._batch = job, batch
        self._price = prices.price(job.spec.provider, job.spec.model)

    def row(self, answer: Response) -> dict[str, object]:
        """The answer's usage row, entered into the bill."""
        spec = self._job.spec
        charged = priced_row(spec.provider, spec.name, self._job.role, answer.usage, self._price)
        self.spent += charged.cost_batched or Decimal(0)
        return _row(charged, answer.custom_id, self._batch)


def _row(charged: UsageRow, custom_id: str, batch: Batch) -> dict[str, object]:
    usage = charged.usage
    return {
        "custom_id": custom_id,
        "role": str(charged.role),
        "provider": charged.provider,
        "model": charged.model,
        "batch_id": batch.id,
        "attempt": batch.attempt,
        "input_tokens": usage.input_tokens,
        "cached_input_tokens": usage.cached_input_tokens,
        "output_tokens": usage.output_tokens,
        "reasoning_tokens": usage.reasoning_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
        "cost_usd": _text(charged.cost_batched),
        "unbatched_usd": _text(charged.cost_unbatched),
        "price_source": charged.price_source,
        "price_date": charged.price_date,
    }


def _text(usd: Decimal | None) -> str | None:
    return None if usd is None else format(usd, "f")


def usage_rows(table: Iterable[dict[str, object]]) -> list[UsageRow]:
    """Rows of a usage table (``iter_rows(named=True)``) as the cost report takes them."""
    return [
        UsageRow(
            provider=str(row["provider"]),
            model=str(row["model"]),
            role=Role(str(row["role"])),
            requests=1,
            usage=Usage(*(int(str(row[name])) for name in _TOKENS)),
            cost_batched=_decimal(row["cost_usd"]),
            cost_unbatched=_decimal(row["unbatched_usd"]),
            price_source=None if row["price_source"] is None else str(row["price_source"]),
            price_date=None if row["price_date"] is None else str(row["price_date"]),
        )
        for row in table
    ]


_TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "cache_write_tokens")


def _decimal(value: object) -> Decimal | None:
    return None if value is None else Decimal(str(value))
