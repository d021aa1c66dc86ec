"""What requests are called: by run, job and number, within every provider's rule."""

from __future__ import annotations

import re

from layton_batch.batches.admission import custom_id_problem
from layton_batch.batches.names import custom_id, has_mark, mark_of


def test_a_custom_id_carries_the_runs_mark_and_is_taken_everywhere() -> None:
    name = custom_id("0a1b2c3d", "predict-m", 2)
    assert custom_id_problem(name) is None
    assert re.fullmatch(r"r0a1b2c3d-[0-9a-f]{8}-000002", name)
    assert name == custom_id("0a1b2c3d", "predict-m", 2)
    assert mark_of(name) == "0a1b2c3d"
    assert name not in (custom_id("0a1b2c3e", "predict-m", 2), custom_id("0a1b2c3d", "predict-n", 2))


def test_the_mark_shows_in_a_line_and_another_runs_does_not() -> None:
    line = b'{"custom_id":"%s","body":{}}' % custom_id("0a1b2c3d", "predict-m", 2).encode()
    assert has_mark("0a1b2c3d", line)
    assert not has_mark("0a1b2c3e", line)
