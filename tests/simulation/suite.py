"""How many histories the test suite plays, said in one place; ``scripts/bench faults`` plays 20,000 and more."""

from __future__ import annotations

from tests.simulation.claims import reference
from tests.simulation.histories import EDITED, NEIGHBOURS, RICHER, SWARM, WIDER
from tests.simulation.table import TABLE
from tests.simulation.world import ALONE, SEVEN

SEEDS = (*range(49), *range(RICHER, RICHER + 49), *range(WIDER, WIDER + 49))
EDITING = (*range(EDITED, EDITED + 26), EDITED + 43, EDITED + 155)
"""Seeds whose manifests are edited meanwhile; four hundred of them and more in ``scripts/nightly``."""
SHARING = range(NEIGHBOURS, NEIGHBOURS + 14)
"""Seeds of two runs of one workspace that want the same answers."""
SWARMING = range(SWARM, SWARM + 200)
"""Seeds that draw of every kind of fault."""
STRIDE = 8
"""Every eighth instant of a run in the suite, each at another provider than its neighbours; all of them at all
providers in ``scripts/bench faults``."""
MIGRATING = range(1, 9)
PHASES = ("sent", "executed")
SERVED = (*range(94, 101), *range(RICHER + 26, RICHER + 33))
"""Seeds that are played with the state in PostgreSQL, where there is one: worlds of one model, each twice."""
SERVED_WORLD, SERVED_STRIDE, STATEMENT_STRIDE, COMMIT_STRIDE = 9, 31, 131, 29
"""Of that world's run on PostgreSQL the suite kills every so manyth instant, every so manyth when those between two
statements of a transaction count too, and loses the server before or after every so manyth commit."""
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
        "misfortunes of the table": sum(one.applies(name) for one in TABLE for name in SEVEN),
        "seeds": len(SEEDS),
        "seeds with edits": len(EDITING),
        "seeds of two runs": len(SHARING),
        "seeds of swarms": len(SWARMING),
    }
