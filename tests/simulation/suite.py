"""How many histories the test suite plays, said in one place; ``scripts/bench faults`` plays 20,000 and more."""

from __future__ import annotations

from tests.simulation.claims import reference
from tests.simulation.histories import RICHER
from tests.simulation.scenarios import SCENARIOS
from tests.simulation.world import ALONE, SEVEN

SEEDS = (*range(49), *range(RICHER, RICHER + 49))
STRIDE = 8
"""Every eighth instant of a run in the suite, each at another provider than its neighbours; all of them at all
providers in ``scripts/bench faults``."""
MIGRATING = range(1, 9)
PHASES = ("sent", "executed")
AT_LEAST = 340


def stops(world: int) -> range:
    """The points at which the suite kills this world's run, once each."""
    return range(1 + world * STRIDE, len(reference(world).points) + 1, ALONE * STRIDE)


def histories() -> dict[str, int]:
    """What the suite plays, by kind."""
    return {
        "killed at one instant": sum(len(stops(world)) for world in range(ALONE)),
        "killed twice around the paid call": len(PHASES) * len(SEVEN),
        "killed while the store is made": len(MIGRATING),
        "misfortunes of the table": sum(one.applies(name) for one in SCENARIOS for name in SEVEN),
        "seeds": len(SEEDS),
    }
