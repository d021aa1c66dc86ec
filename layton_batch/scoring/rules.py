"""Rules of scoring."""

from __future__ import annotations

from dataclasses import dataclass

HIERARCHICAL, PAPER = "hierarchical", "paper"
PAPER_LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class ScoringRules:
    """Rules by which a board is scored. ``method``: hierarchical, or the paper's, which reproduces the published table
    at its level 0.95; ``other_jury``: the labels stand beside votes of another jury, which widens intervals;
    ``drifted``: the judges changed since people labelled, which widens them too; ``label_error``: the chance that a
    label is wrong; ``in_turn``: a third judge was asked only where two differ. The paper's method knows none of
    these."""

    method: str = HIERARCHICAL
    metric: str = "both_correct"
    level: float = 0.95
    seed: int = 0
    other_jury: bool = False
    drifted: bool = False
    label_error: float = 0.0
    in_turn: bool = False
