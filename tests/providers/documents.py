"""Documents of the providers: the lines of ``cases``, and batches in short for tests of calls."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.paths import SHARED_DATA

Json = dict[str, Any]
Case = Mapping[str, Any]
CASES, RECORDED = Path(__file__).parent / "cases", SHARED_DATA / "wire"
NOW = 1_800_000_000.0
"""When the submission of the tests was intended: 2027-01-15T08:00:00Z."""


def read_cases(name: str) -> Sequence[Json]:
    """Return the lines of a file of cases."""
    return [orjson.loads(line) for line in (CASES / name).read_bytes().splitlines()]


def cases(name: str, *, having: str = "provider", recorded: str = "") -> pytest.MarkDecorator:
    """Play the lines of a file that have a key, and the lines of a file of recordings if its folder is there."""
    own = enumerate(read_cases(name), 1)
    played = [pytest.param(case, id=f"{case['provider']} {line}") for line, case in own if having in case]
    seen = (RECORDED / recorded).read_bytes().splitlines() if recorded and RECORDED.is_dir() else ()
    real = [pytest.param(case, id=case["id"], marks=pytest.mark.shared_data) for case in map(orjson.loads, seen)]
    return pytest.mark.parametrize("case", [*played, *real])


def anthropic_batch(status: str = "in_progress", made: str = "2027-01-15T08:00:10Z", **changes: Any) -> Json:
    """Return a message batch of one request."""
    counts: Json = dict.fromkeys(("processing", "succeeded", "errored", "canceled", "expired"), 0)
    counts["succeeded" if status == "ended" else "processing"] = 1
    return {
        "id": "msgbatch_1", "type": "message_batch", "processing_status": status, "request_counts": counts,
        "created_at": made, "expires_at": "2027-01-16T08:00:00Z", "results_url": None, **changes,
    }  # fmt: skip


def gemini_batch(state: str = "BATCH_STATE_RUNNING") -> Json:
    """Return an operation of Gemini's batch API."""
    metadata = {"displayName": "tag-b1", "state": state, "createTime": "2027-01-15T08:00:01.5Z"}
    return {"name": "batches/b-1", "metadata": metadata}


def mistral_job(status: str = "RUNNING") -> Json:
    """Return a job of Mistral."""
    return {"id": "job-1", "input_files": ["file-in"], "metadata": {"layton_batch": "tag-b1"}, "status": status}
