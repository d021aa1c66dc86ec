"""Costs of batches by the providers' own books, beside our bill of the same answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from layton_batch.records import JsonValue
from layton_batch.text import decimal_text

TOLERANCE = Decimal("0.01")
"""Up to this share of the larger figure two statements count as the same: providers round."""


@dataclass(frozen=True, slots=True)
class CostTotals:
    """Figures of one batch by one side; None: that side does not state the figure."""

    usd: Decimal | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


NOTHING_STATED = CostTotals()


@dataclass(frozen=True, slots=True)
class CostComparison:
    """A batch by its provider's books and by our bill."""

    batch_id: str
    provider: str
    model: str
    stated: CostTotals
    ours: CostTotals

    @property
    def differs(self) -> bool:
        """Return whether a figure that both sides have differs by more than TOLERANCE."""
        return bool(self._differing())

    @property
    def text(self) -> str:
        """Describe both sides: the figures that differ, or all of the provider's if none differs."""
        shown = self._differing() or [name for name in _NAMES if getattr(self.stated, name) is not None]
        stated_figures, our_figures = (
            ", ".join(_figure(name, getattr(side, name)) for name in shown) for side in (self.stated, self.ours)
        )
        return f"{self.provider} says {stated_figures}; our bill says {our_figures}"

    def _differing(self) -> list[str]:
        return [name for name in _NAMES if _apart(getattr(self.stated, name), getattr(self.ours, name))]


_NAMES = {"usd": "", "input_tokens": "tokens read", "output_tokens": "tokens written"}


def _apart(stated: Decimal | int | None, ours: Decimal | int | None) -> bool:
    if stated is None or ours is None:
        return False
    return abs(Decimal(stated) - Decimal(ours)) > TOLERANCE * max(Decimal(stated), Decimal(ours))


def _figure(name: str, value: Decimal | int | None) -> str:
    if value is None:
        return "unknown"
    return f"${decimal_text(value)}" if isinstance(value, Decimal) else f"{value:,} {_NAMES[name]}"


def comparison_json(comparison: CostComparison) -> dict[str, JsonValue]:
    """Return one batch as JSON. USD are exact decimal text; a figure that a side does not state is null."""
    return {
        "batch_id": comparison.batch_id,
        "provider": comparison.provider,
        "model": comparison.model,
        "stated_usd": decimal_text(comparison.stated.usd),
        "cost_usd": decimal_text(comparison.ours.usd),
        "stated_input_tokens": comparison.stated.input_tokens,
        "input_tokens": comparison.ours.input_tokens,
        "stated_output_tokens": comparison.stated.output_tokens,
        "output_tokens": comparison.ours.output_tokens,
    }


def differing(comparisons: Iterable[CostComparison]) -> tuple[CostComparison, ...]:
    """Return the comparisons whose two sides differ, in the order of their batches."""
    different = (comparison for comparison in comparisons if comparison.differs)
    return tuple(sorted(different, key=lambda comparison: comparison.batch_id))
