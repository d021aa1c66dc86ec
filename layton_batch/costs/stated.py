"""What providers say that batches cost, by their own books, beside our bill of the same answers."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from layton_batch.records import JsonValue
from layton_batch.text import decimal_text

TOLERANCE = Decimal("0.01")
"""Up to this share of the larger figure two statements count as the same: providers round."""


@dataclass(frozen=True, slots=True)
class Sums:
    """One batch by one side's books; None: that side does not say."""

    usd: Decimal | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


NOTHING_STATED = Sums()


@dataclass(frozen=True, slots=True)
class Statement:
    """A batch by its provider's books and by our bill."""

    batch_id: str
    provider: str
    model: str
    stated: Sums
    ours: Sums

    @property
    def differs(self) -> bool:
        """Whether a figure that both sides have differs by more than TOLERANCE."""
        return bool(self._differing())

    @property
    def text(self) -> str:
        """Both sides in words: the figures that differ, or all of the provider's where none does."""
        shown = self._differing() or [name for name in _NAMES if getattr(self.stated, name) is not None]
        said, ours = (
            ", ".join(_figure(name, getattr(side, name)) for name in shown) for side in (self.stated, self.ours)
        )
        return f"{self.provider} says {said}; our bill says {ours}"

    def _differing(self) -> list[str]:
        return [name for name in _NAMES if _apart(getattr(self.stated, name), getattr(self.ours, name))]


_NAMES = {"usd": "", "input_tokens": "tokens read", "output_tokens": "tokens written"}


def _apart(said: Decimal | int | None, ours: Decimal | int | None) -> bool:
    if said is None or ours is None:
        return False
    return abs(Decimal(said) - Decimal(ours)) > TOLERANCE * max(Decimal(said), Decimal(ours))


def _figure(name: str, value: Decimal | int | None) -> str:
    if value is None:
        return "unknown"
    return f"${decimal_text(value)}" if isinstance(value, Decimal) else f"{value:,} {_NAMES[name]}"


def statement_json(one: Statement) -> dict[str, JsonValue]:
    """One batch for programs; dollars are exact decimal text, what a side does not say is null."""
    return {
        "batch_id": one.batch_id,
        "provider": one.provider,
        "model": one.model,
        "stated_usd": decimal_text(one.stated.usd),
        "cost_usd": decimal_text(one.ours.usd),
        "stated_input_tokens": one.stated.input_tokens,
        "input_tokens": one.ours.input_tokens,
        "stated_output_tokens": one.stated.output_tokens,
        "output_tokens": one.ours.output_tokens,
    }


def differing(statements: Iterable[Statement]) -> tuple[Statement, ...]:
    """Those whose two sides differ, in the order of their batches."""
    return tuple(sorted((one for one in statements if one.differs), key=lambda one: one.batch_id))
