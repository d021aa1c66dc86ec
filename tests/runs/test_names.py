"""Names at providers: by run, job, number and content, within every provider's rule."""

from __future__ import annotations

import re
from hashlib import sha256

from layton_batch.runs.requests import UNNAMED, custom_id, custom_id_prefix, tag

WHY, HOW = sha256(b"why").digest(), sha256(b"how").digest()


def test_a_custom_id_carries_the_runs_mark_and_what_is_asked_and_is_taken_everywhere() -> None:
    prefix = custom_id_prefix("0a1b2c3d", "predict-m")
    name = custom_id(prefix, 2, WHY)
    assert re.fullmatch("[A-Za-z0-9_-]{1,64}", name)
    assert re.fullmatch(rf"r0a1b2c3d-[0-9a-f]{{8}}-000002-{WHY.hex()[:12]}", name)
    assert len(name) == len(UNNAMED)
    assert name == custom_id(prefix, 2, WHY)
    others = (custom_id(prefix, 2, HOW), custom_id(prefix, 3, WHY), custom_id_prefix("0a1b2c3d", "predict-n"))
    assert not any(name.startswith(other) for other in others)


def test_a_tag_carries_the_attempt_and_digits_of_the_file() -> None:
    tags = {tag("lb-1-2", "predict-m", "s0001", attempt, sha) for attempt in (1, 2) for sha in ("a" * 64, "b" * 64)}
    assert len(tags) == 4
    assert all(re.fullmatch("[a-z0-9-]{1,64}", name) for name in tags)
