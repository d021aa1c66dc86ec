"""Requests, replies, batches and lists of each provider as its documents have them, as they were seen, and as they may
come all the same: one line of ``cases/*.jsonl`` each, and what the dialect writes or reads."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from functools import reduce
from typing import Any

import orjson
import pytest

from layton_batch import errors
from layton_batch.providers import connect, knows_models, problems
from layton_batch.providers.wire_errors import failure_class, named_in
from layton_batch.providers.wire_json import request_line
from layton_batch.records import JsonValue, Response, Snapshot, Submission

from .conftest import IMAGE, KEY, Play, make_request
from .documents import CASES, Case, cases

READINGS = json.loads((CASES / "recorded_batches.json").read_bytes())
"""What the words that stand with each recorded batch mean to the program."""
NO_CREDIT = "A12"
"""An account without credit: told as the account's trouble here, which waits for a person like a limit does."""


def facts(record: Response | Snapshot) -> dict[str, Any]:
    """Return the fields of a reading by the names that the files of cases have for them."""
    found = {**asdict(record), "provider_status": getattr(record, "provider_status", None)}
    if isinstance(record, Response):
        found |= found["usage"] | {"usage_known": record.usage.is_known}
        found |= {"code": record.error_code, "message": record.error_message}
    else:
        found |= {"status": record.provider_status, "failure": failure_class(record)}
    usd = found["stated_usd"]
    return found | {"stated_usd": usd if usd is None else str(usd.normalize())}


def picked(record: Response | Snapshot, expected: Case) -> Case:
    found = facts(record)
    return {name: found[name] for name in expected}


# ---- requests --------------------------------------------------------------------------------------------------------


@cases("requests.jsonl", having="line")
def test_a_line_is_the_documented_one(case: Case) -> None:
    parts = ("What is shown?", *([IMAGE] if case["picture"] else []))
    request = make_request(case["provider"], *parts, **case["spec"])
    assert request_line(connect(case["provider"], None), request) == orjson.dumps(case["line"])


@cases("requests.jsonl", having="written")
def test_a_setting_stands_where_the_api_has_it(case: Case) -> None:
    line = json.loads(request_line(connect(case["provider"], None), make_request(case["provider"], **case["spec"])))
    body = next(line[key] for key in ("body", "params", "request") if key in line)
    for path, value in case["written"].items():
        assert reduce(lambda holder, key: (holder or {}).get(key), path.split("."), body) == value, path


@cases("requests.jsonl", having="problems")
def test_what_the_api_cannot_do_is_said_before_anything_is_sent(case: Case) -> None:
    spec = make_request(case["provider"], **{"window": None, **case["spec"]}).model
    found = problems(connect(case["provider"], None), spec)
    assert len(found) == len(case["problems"])
    assert all(word in problem for word, problem in zip(case["problems"], found, strict=True))


CACHED = [{"type": "text", "text": "four" * 1024, "cache_control": {"type": "ephemeral"}}]


@pytest.mark.parametrize(("model", "system", "expected"), [
    ("claude-opus-4-8", "four" * 1024, CACHED), ("claude-opus-4-8", "four" * 1023 + "fou", None),
    ("claude-opus-4-5-20251101", "four" * 4095, None), ("unknown-1", "four" * 1024, None),
])  # fmt: skip
def test_a_system_text_is_marked_where_the_cache_of_the_model_keeps_it(
    model: str, system: str, expected: JsonValue
) -> None:
    request = make_request("anthropic", model=model, system=system)
    body = connect("anthropic", None).encode(request)["params"]
    assert body["system"] == (expected or system)  # type: ignore[index, call-overload]


def test_a_request_with_an_image_is_refused_before_its_whole_batch_would_fail() -> None:
    with pytest.raises(errors.ManifestError):
        request_line(connect("openrouter", None), make_request("openrouter", "?", IMAGE))


# ---- creates ---------------------------------------------------------------------------------------------------------


@cases("creates.jsonl")
def test_a_create_is_one_post_of_the_documented_form(play: Play, submission: Submission, case: Case) -> None:
    provider, server = play(case["provider"], {"": case["reply"]})
    assert provider.create(submission) == case["made"]
    (call,) = server.calls
    assert (call.method, call.path) == ("POST", case["path"])
    assert KEY in (call.headers.get("authorization") or call.headers["x-goog-api-key"])
    assert {name: value for name, value in json.loads(call.body).items() if value is not None} == case["body"]


# ---- replies and batches ---------------------------------------------------------------------------------------------


@cases("replies.jsonl", recorded="lines.jsonl")
def test_a_row_is_read(case: Case) -> None:
    line, expected = case["line"], {name: value for name, value in case["expected"].items() if name != "note"}
    if case.get("id") == NO_CREDIT:
        expected["error_class"] = "account"
    raw = line if isinstance(line, str) else json.dumps(line)
    assert picked(connect(case["provider"], None).decode(raw.encode()), expected) == expected


@cases("batches.jsonl", recorded="batch_objects.jsonl")
def test_a_batch_is_read(play: Play, case: Case) -> None:
    said = case["reply"] if "reply" in case else case["object"]["body"]
    recorded_id = "" if "reply" in case else next(said[key] for key in ("id", "batch_id", "name") if key in said)
    provider, _ = play(case["provider"], {"": said})
    if "error" in case:
        with pytest.raises(errors.ProviderError) as caught:
            provider.snapshot("b-1")
        assert type(caught.value).__name__ == case["error"]
    else:
        expected = READINGS[case["id"]] if "id" in case else case["expected"]
        assert picked(provider.snapshot(recorded_id or "b-1"), expected) == expected


@pytest.mark.parametrize(("counts", "said", "seconds", "expected"), [
    ((2, 0, 2), None, 300, {"status": "cancelling", "outcome": None}),
    # 20 seconds after a cancel, five rows counted as cancelled were there with answers
    ((0, 0, 4), None, 20, {"status": "cancelling", "outcome": None}),
    ((0, 0, 4), None, 300, {"state": "ended", "outcome": "cancelled"}),
    ((0, 4, 0), None, 300, {"state": "ended", "outcome": "completed"}),
    ((0, 0, 4), "Model x is not supported", 20, {"outcome": "failed", "error_class": "invalid_request"}),
    ((0, 0, 4), "no capacity", 300, {"outcome": "failed", "error_class": "provider_fault", "message": "no capacity"}),
])  # fmt: skip
def test_a_cancel_at_xai_is_believed_when_its_counts_have_settled(
    play: Play, counts: tuple[int, ...], said: str | None, seconds: float, expected: Case
) -> None:
    asked = (datetime.now(UTC) - timedelta(seconds=seconds)).isoformat()  # the server tells the time of this machine
    state = dict(zip(("num_pending", "num_success", "num_cancelled"), counts, strict=True), num_requests=4)
    batch = {"batch_id": "b", "name": "tag-b1/4", "state": state, "cancel_time": asked, "cancel_by_xai_message": said}
    assert picked(play("xai", {"": batch})[0].snapshot("b"), expected) == expected


@pytest.mark.parametrize(("line", "names"), [
    (b'{"id": "b-1", "custom_id": "r1-000002", "response": {"sta', ["r1-000002"]),
    (b'{"key" :\t"r1-000002", "response": {"candi', ["r1-000002"]),
    (b'h_request_id": "x"}, "batch_request_id":"r1-000002"}', ["r1-000002"]),
    (b'{"custom_id": "a", "resp{"custom_id": "b", "response": {}}{"custom_id": "a"', ["a", "b"]),
    (b'{"id": "b-1", "custom_id": "r1-0000', []),
    (b'ent": "say \\"custom_id\\": \\"r1-000009\\" and stop"}]}}', []),
    (b'{"custom_id": "a b", "key": ""', []),
])  # fmt: skip
def test_the_requests_a_damaged_line_names_are_read_outside_of_texts(line: bytes, names: list[str]) -> None:
    assert named_in(line) == names


@cases("models.jsonl")
def test_what_a_provider_says_of_a_model_is_read(play: Play, case: Case) -> None:
    """A model of OpenRouter runs as batches if its catalogue has a price for them."""
    knows = knows_models(play(case["provider"], {"": case["reply"]})[0])
    notice = knows and knows.about(case["model"])
    assert (notice and asdict(notice) | {"ends": notice.ends and notice.ends.isoformat()}) == case["notice"]


# ---- lists -----------------------------------------------------------------------------------------------------------


@cases("lists.jsonl")
def test_a_batch_is_looked_for_in_a_list_and_what_is_none_is_not_an_empty_one(
    play: Play, submission: Submission, case: Case
) -> None:
    """A create whose reply was lost must not be repeated because of a list that is an error, or ends too early."""
    provider, server = play(case["provider"], case["replies"])
    looked_for = replace(submission, input_ref=case.get("input_ref", "file-in"))
    if "error" in case:
        with pytest.raises(errors.ProviderReplyError):
            provider.find(looked_for)
        assert len(server.calls) <= 2  # a page that brings nothing new is the last that is asked for
    else:
        found = provider.find(looked_for)
        assert [[one.provider_id, one.certain, one.may_tell] for one in found] == case["matches"]
        assert len(server.calls) == case.get("calls", len(server.calls))
    assert not any("created_after=" in call.path for call in server.calls)  # no clock of ours says how far to read
