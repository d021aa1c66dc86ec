"""What requests are called: by run, job and number, within every provider's rule."""

from __future__ import annotations

import re

from layton_batch.batches.admission import custom_id_problem
from layton_batch.batches.names import custom_id


def test_a_custom_id_carries_the_runs_mark_and_is_taken_everywhere() -> None:
    name = custom_id("0a1b2c3d", "predict-m", 2)
    assert custom_id_problem(name) is None
    assert re.fullmatch(r"r0a1b2c3d-[0-9a-f]{8}-000002", name)
    assert name == custom_id("0a1b2c3d", "predict-m", 2)
    assert name not in (custom_id("0a1b2c3e", "predict-m", 2), custom_id("0a1b2c3d", "predict-n", 2))
