"""Rows and batches that real providers sent, or whose values were published: each is read as somebody has confirmed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pytest

from layton_batch.providers import connect
from layton_batch.providers.error_classes import failure_class
from tests.support.paths import SHARED_DATA

from .conftest import Serve, reply
from .documents import facts, picked

WIRE = SHARED_DATA / "wire"
NO_CREDIT = "A12"
"""An account without credit: told as the account's trouble here, which waits for a person like a limit does."""


def recorded(name: str) -> list[Any]:
    lines = (WIRE / name).read_text(encoding="utf-8").splitlines() if WIRE.is_dir() else ()
    return [pytest.param(entry, id=entry["id"]) for entry in map(json.loads, lines)]


@pytest.mark.shared_data
@pytest.mark.parametrize("entry", recorded("lines.jsonl"))
def test_a_recorded_row_is_read(entry: Mapping[str, Any]) -> None:
    expected = {key: value for key, value in entry["expected"].items() if key != "note"}
    if "stated_usd" in expected:
        expected["stated_usd"] = Decimal(expected["stated_usd"])
    if entry["id"] == NO_CREDIT:
        expected["error_class"] = "account"
    assert picked(connect(entry["provider"], None).decode(entry["line"].encode()), expected) == expected


def flying(**more: object) -> dict[str, object]:
    return {"state": "in_flight", "outcome": None, "results_ref": None, "errors_ref": None, **more}


def ended(outcome: str, results: str | None = None, errors: str | None = None, **more: object) -> dict[str, object]:
    return {"state": "ended", "outcome": outcome, "results_ref": results, "errors_ref": errors, **more}


def counted(total: int | None, succeeded: int | None, failed: int | None) -> dict[str, object]:
    return {"total": total, "succeeded": succeeded, "failed": failed}


READINGS: Mapping[str, Mapping[str, object]] = {
    "B1": ended("failed", error_class="rate_limited"),
    **dict.fromkeys(("B2", "B3", "B4", "B5", "B11", "B13", "B14"), ended("failed", error_class="invalid_request")),
    # the file was there: not the request's fault, and mended by a person or by itself
    **dict.fromkeys(("B6", "B12"), ended("failed", failure="account")),
    "B7": ended("completed", None, "file-e", **counted(3, 0, 3)),
    "B8": flying(state="cancelling", **counted(5, 1, 0)),
    "B9": ended("cancelled", None, "file-e", **counted(5, 0, 0)),
    "B10": ended("expired", "file-o", "file-e", **counted(5, 3, 0)),
    "B15": flying(state="cancelling"),
    "B16": ended("completed", "o", "e", **counted(None, None, None)),
    "B17": ended("cancelled"),
    "B18": ended("completed", "o", "e", **counted(4, 2, 2)),
    "B19": ended("cancelled", "o", **counted(8, 8, 0)),
    "B20": flying(state="cancelling"),
    "B21": ended("expired", "o", **counted(4, 1, 0)),
    "B22": ended("cancelled"),
    "B23": ended("completed", "files/batch-o6k1fq34vm2ou69wy5w72wqw56qjigbln6yy", **counted(4, 4, 0)),
    "B24": ended("failed", error_class="invalid_request"),
    "B25": ended("cancelled", "batch_1", **counted(5, 0, 0)),
    "B26": ended("completed", "batch_1", **counted(5, 5, 0)),
    "B27": flying(**counted(0, 0, 0)),
    "B28": flying(state="cancelling", **counted(5, 0, 0)),
    "B29": ended("cancelled", "msgbatch_1", **counted(5, 2, 3)),
}
"""What the words that stand beside each recorded batch mean to the program."""


@pytest.mark.shared_data
@pytest.mark.parametrize("entry", recorded("batch_objects.jsonl"))
def test_a_recorded_batch_is_read(serve: Serve, entry: Mapping[str, Any]) -> None:
    body = entry["object"]["body"]
    provider, _ = serve(entry["provider"], reply(body))
    found = provider.snapshot(next(body[key] for key in ("id", "batch_id", "name") if key in body))
    expected = READINGS[entry["id"]]
    assert {**facts(found), "failure": failure_class(found)}.items() >= expected.items()
