"""Whether time is up: our clock is believed when it says so twice, and did not take it back in between.

What time decides here cannot be undone: a paid batch is stopped, results are given up, a person is asked. A clock may
be days ahead for some seconds, and the program may be started anew for each look, so the first reading is kept in the
store.
"""

from __future__ import annotations

from layton_batch.records import Batch
from layton_batch.run.context import Run

BELIEVED_SECONDS = 900.0
"""How far apart the two readings are at least: longer than a clock takes to be put right by the network's."""


def is_late(run: Run, batch: Batch, moment: float) -> bool:
    """Whether ``moment`` has passed, by two readings. The batch must be in this process's hands."""
    now, since = run.clock.now(), batch.late_since
    is_taken_back = since is not None and since > now
    if now <= moment:
        if is_taken_back:
            run.store.note(batch, now, late_since=None)
        return False
    if since is None or is_taken_back or since <= moment:
        run.store.note(batch, now, late_since=now)
        return False
    return now - since >= BELIEVED_SECONDS
