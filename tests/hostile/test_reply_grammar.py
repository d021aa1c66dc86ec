"""Replies of every form: a dialect raises only errors of providers, and what it reads can be decided on and stored."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from decimal import Decimal
from functools import cache
from random import Random
from typing import Any
from zlib import crc32

import pytest

from layton_batch.batches import machine
from layton_batch.batches.batch_results import DownloadResult, Lack, Shortfall
from layton_batch.errors import ProviderError
from layton_batch.providers import closing, connect
from layton_batch.providers.protocol import Access, Provider
from layton_batch.records import MatchingBatch, Response, Snapshot, Submission, Usage
from layton_batch.states import Lifecycle
from layton_batch.testing.providers import Answer, HandlerCall
from tests.providers.conftest import answer_calls
from tests.providers.documents import Json, read_cases
from tests.support.batch_states import AT, COST, ended, flying, submitting
from tests.support.tiers import FAMILIES, tiered

BATCHES = ("openai", "groq", "doubleword", "anthropic", "gemini", "mistral", "together", "openrouter", "xai")
ROWS = {"gemini": "operations", "xai": "batches"}
"""Where a list has its batches, if not in ``data``."""
KINDS = ("list", "batch", "results")
MOST_STORED = 2**63 - 1
ADDRESS = "http://127.0.0.1:9"


@cache
def sound(name: str, kind: str) -> bytes:
    """The provider's reply to a call of this kind, with the first batch or row of test_forms which says enough."""
    if kind == "list":
        batch = json.loads(sound(name, "batch"))
        page = {ROWS.get(name, "data"): [batch], "has_more": False, "total": 1}
        return json.dumps([batch] if name == "together" else page).encode()
    file, key = ("batches.jsonl", "reply") if kind == "batch" else ("replies.jsonl", "line")
    wire = "openai" if name in ("groq", "doubleword") else name
    reply = next(case[key] for case in read_cases(file) if case["provider"] == wire and says_enough(case))
    if kind == "results" and name in ("openrouter", "xai"):
        reply = {"id": "b", "status": "completed", "results": [reply]}
    return json.dumps(reply).encode()


def says_enough(case: Json) -> bool:
    """Return whether a batch has ended, or a row is an answer with its tokens."""
    expected = case.get("expected", {})
    return expected.get("state") == "ended" or bool(expected.get("input_tokens"))


HEADERS = {"content-type": "application/json", "date": "Wed, 18 Nov 2026 12:00:00 GMT"}


@contextmanager
def replying(name: str, kind: str, bent: Sequence[bytes]) -> Iterator[None]:
    """Have both HTTP libraries get the last of ``bent`` in reply to calls of this kind, and what is sound to others."""

    def answer(call: HandlerCall) -> Answer:
        is_results = any(word in call.path for word in ("results", "content", "download"))
        its_kind = "results" if is_results else kind
        return Answer(200, bent[-1] if its_kind == kind else sound(name, its_kind), HEADERS)

    with pytest.MonkeyPatch.context() as patch:
        answer_calls(patch, answer)
        yield


def called(provider: Provider, kind: str, submission: Submission) -> list[Any]:
    """Make the call of this kind, with everything that is read of its reply."""
    if kind == "list":
        return list(provider.find(submission))
    if kind == "batch":
        return [provider.snapshot("b-1")]
    reading = Snapshot("b-1", "ended", Lifecycle.ENDED, results_ref="files/o")
    lines = [line for part in provider.results(reading) for line in b"".join(part.chunks).split(b"\n")]
    return [provider.decode(line) for line in lines if line]


# ---- replies that almost follow a provider's documents

DEEP = "@deep@"
"""Stands for an array that is nested 5,000 deep, which no writer of JSON writes."""
LONG_NUMBER = "@digits@"
"""Stands for a number of 5,000 digits."""

VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 1, 2**31, 2**53 + 1, 2**63, 2**64, 10**400, -(10**400), 1e308, -0.5, float("nan"),
    float("inf"), float("-inf"), LONG_NUMBER, DEEP, "", " ", "\0", "\ud800", "a\udc00b", "x" * 70_000, "9" * 400,
    "9" * 5000, "-1", "1e400", "NaN", "²", "0001-01-01T00:00:00Z", "9999-12-31T23:59:59-23:59",
    "2026-02-30T00:00:00Z", [], {}, [[]], [None], [{}], {"": None}, {"error": {"code": 10**400}},
    {"code": "x", "message": {"message": []}}, ["2"] * 50,
)  # fmt: skip


def bent_reply(whole: bytes, random: Random) -> bytes:
    """Return a sound reply with one to three changes of its values, and now and then of its bytes."""
    document = json.loads(whole)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        document = _bent(document, random)
    text = json.dumps(document).replace(f'"{DEEP}"', "[" * 5000 + "]" * 5000)
    raw = text.replace(f'"{LONG_NUMBER}"', "7" * 5000).encode()
    return _damaged(raw, random) if random.random() < 0.1 else raw


def _bent(document: Any, random: Random) -> Any:
    places = list(_places(document))
    if not places or random.random() < 0.02:
        return deepcopy(random.choice(VALUES))
    holder, key = random.choice(places)
    change = random.randrange(6)
    if change == 0:
        del holder[key]
    elif change == 1 and isinstance(holder, list):
        holder.insert(key, holder[random.randrange(len(holder))])
    elif change == 2 and isinstance(holder, dict):
        holder[str(random.choice(VALUES))[:80]] = holder.pop(key)
    elif change == 3:
        other, place = random.choice(places)  # the value of another place
        holder[key] = json.loads(json.dumps(other[place]))
    else:
        holder[key] = deepcopy(random.choice(VALUES))
    return document


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    entries = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, entry in list(entries):
        yield value, key
        yield from _places(entry)


def _damaged(raw: bytes, random: Random) -> bytes:
    place = random.randrange(len(raw) + 1)
    cases = (
        raw[:place],
        raw[:place] + bytes([random.randrange(256)]) + raw[place + 1 :],
        b"\xef\xbb\xbf" + raw,
        raw + raw,
        b"<html>" + raw,
    )
    return random.choice(cases)


# ---- what is read can be decided on and stored


def claim_storable(value: object) -> None:
    """Claim that each text is UTF-8, each whole number has 64 bits, and each other number is finite."""
    if isinstance(value, str):
        value.encode()
    elif isinstance(value, int):
        assert abs(value) <= MOST_STORED
    elif isinstance(value, float):
        assert math.isfinite(value)
    elif isinstance(value, Decimal):
        assert value.is_finite()
        assert 0 <= value < 10**9
    elif isinstance(value, Snapshot | Response | Usage | MatchingBatch):
        for name in value.__dataclass_fields__:
            claim_storable(getattr(value, name))


def claim_decided(kind: str, reading: Any) -> None:
    """Claim that the machine decides from the reading, be it an error."""
    if kind == "list":
        machine.after_look(submitting(), reading, AT, bound=COST)
    elif kind == "batch":
        for before in (flying(), replace(flying(), state=Lifecycle.CANCELLING)):
            machine.after_snapshot(before, reading if isinstance(reading, ProviderError) else reading[0], AT)
    elif isinstance(reading, ProviderError):
        short = Shortfall(Lack.ROWS, "no request is named")
        machine.after_download(ended(), DownloadResult(short, reading), AT)


FEW, MANY = (40, 1), (10_000, 2)
"""Replies, and the seed that they are bent by."""


@pytest.mark.parametrize(
    ("name", "kind", "drawn"),
    tiered(BATCHES, KINDS, (FEW, MANY), ci=[(name, kind, FEW) for name in (*FAMILIES, "xai") for kind in KINDS]),
)
def test_a_reply_of_any_form_is_read_or_is_an_error_of_its_provider(
    submission: Submission, name: str, kind: str, drawn: tuple[int, int]
) -> None:
    (number, seed), read, bent = drawn, 0, list[bytes]()
    random = Random(crc32(f"{name} {kind} {seed}".encode()))
    base = f"{ADDRESS}/v1" if name in ("openai", "doubleword", "openrouter", "xai") else ADDRESS
    with replying(name, kind, bent), closing(connect(name, Access("a-key", base))) as provider:
        for _ in range(number):
            bent[:] = [bent_reply(sound(name, kind), random)]
            asked = replace(submission, intended_at=AT.now, asked_at=AT.now, custom_ids={})
            try:
                reading: Any = called(provider, kind, asked)
                read += 1
            except ProviderError as error:
                reading = error
            for value in reading if isinstance(reading, list) else ():
                claim_storable(value)
            claim_decided(kind, reading)
    assert read > number // 10, "almost no reply was read: the sound ones are not"
