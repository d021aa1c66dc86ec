"""Wilson's interval for a share of items."""

from __future__ import annotations

import math

from layton_batch.stats.distributions import two_sided_quantile


def wilson_interval(share: float, items: int, level: float = 0.95) -> tuple[float, float]:
    """Return the interval of the share of all such items, from a sample of `items`; no items: [0, 1].

    It holds for marks between 0 and 1 as well: their spread is never more than that of right and wrong."""
    if items == 0:
        return 0.0, 1.0
    z2 = two_sided_quantile(level) ** 2
    middle = (share + z2 / (2 * items)) / (1 + z2 / items)
    half = math.sqrt(z2 * (share * (1 - share) / items + z2 / (4 * items * items))) / (1 + z2 / items)
    return max(middle - half, 0.0), min(middle + half, 1.0)
