"""The groups of sizes that ZebraLogic's tables count by (WildEval/ZeroEval); "3*4" is 3 houses and 4 attributes."""

from __future__ import annotations

from collections.abc import Mapping

_SMALL = "2*2 2*3 2*4 2*5 2*6 3*2 3*3 4*2"
_MEDIUM = "3*4 3*5 3*6 4*3 4*4 5*2 6*2"
_LARGE = "4*5 5*3 4*6 5*4 6*3"
_XL = "5*5 5*6 6*4 6*5 6*6"

SMALL, MEDIUM, LARGE, XL = (frozenset(sizes.split()) for sizes in (_SMALL, _MEDIUM, _LARGE, _XL))
EASY = SMALL - {"4*2"}
HARD = (SMALL | MEDIUM | LARGE | XL) - EASY

GROUPS: Mapping[str, frozenset[str]] = {
    "Easy": EASY,
    "Hard": HARD,
    "Small": SMALL,
    "Medium": MEDIUM,
    "Large": LARGE,
    "XL": XL,
}
"""By the names the tables have for them. A size outside 2…6 × 2…6 is in none."""
