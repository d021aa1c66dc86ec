"""How a board is scored."""

from __future__ import annotations

from dataclasses import dataclass

from layton_batch.stats.calibrated import PROVIDER_SHIFT

CALIBRATED, HIERARCHICAL, PAPER = "calibrated", "hierarchical", "paper"
METHODS = (HIERARCHICAL, CALIBRATED, PAPER)


@dataclass(frozen=True, slots=True)
class Rules:
    """How a board is scored. ``level`` is that of all methods but the paper's, which is 0.95; ``provider_shift`` is
    ``calibrated``'s; ``other_jury``: the labels stand beside votes of another jury, which widens ``hierarchical``;
    ``label_error``: the chance that a label is wrong, which only ``hierarchical`` allows for."""

    method: str = HIERARCHICAL
    metric: str = "both_correct"
    level: float = 0.95
    seed: int = 0
    provider_shift: float = PROVIDER_SHIFT
    other_jury: bool = False
    label_error: float = 0.0
