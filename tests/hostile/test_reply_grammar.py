"""Replies of every form: a dialect raises only errors of providers, and what it reads can be decided on and stored."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import cache
from hashlib import sha256
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import httpx
import httpx2
import pytest

from layton_batch.batches import machine
from layton_batch.batches.batch_results import DownloadResult, Lack, Shortfall
from layton_batch.errors import ProviderError
from layton_batch.providers import closing, connect
from layton_batch.providers.protocol import Access, Provider
from layton_batch.records import MatchingBatch, Response, Snapshot, Submission, Usage
from layton_batch.states import Lifecycle
from tests.hostile.reply_grammar import bent_reply
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


@dataclass(slots=True)
class Wire:
    """Stands in for the connections of both HTTP libraries: calls for what is bent get it, the others what is sound."""

    name: str
    bent: bytes = b""
    kind: str = "list"
    headers: Mapping[str, str] = field(
        default_factory=lambda: {"content-type": "application/json", "date": "Wed, 18 Nov 2026 12:00:00 GMT"}
    )

    @contextmanager
    def in_place(self) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for library in (httpx, httpx2):

                def handle(_transport: object, request: Any, library: Any = library) -> Any:
                    is_results = any(word in request.url.path for word in ("results", "content", "download"))
                    kind = "results" if is_results else self.kind
                    body = self.bent if kind == self.kind else sound(self.name, kind)
                    return library.Response(200, headers=self.headers, stream=library.ByteStream(body))

                patch.setattr(library.HTTPTransport, "handle_request", handle)
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
    tmp_path: Path, name: str, kind: str, drawn: tuple[int, int]
) -> None:
    (number, seed), read, path = drawn, 0, tmp_path / "b.jsonl"
    random = Random(crc32(f"{name} {kind} {seed}".encode()))
    path.write_bytes(b'{"custom_id": "c-1", "body": {}}\n')
    asked = Submission("b", "t", path, path.name, sha256(path.read_bytes()).hexdigest(), 1, "m", "f", AT.now, AT.now)
    wire = Wire(name, kind=kind)
    base = f"{ADDRESS}/v1" if name in ("openai", "doubleword", "openrouter", "xai") else ADDRESS
    with wire.in_place(), closing(connect(name, Access("a-key", base))) as provider:
        for _ in range(number):
            wire.bent = bent_reply(sound(name, kind), random)
            try:
                reading: Any = called(provider, kind, replace(asked, custom_ids={}))
                read += 1
            except ProviderError as error:
                reading = error
            for value in reading if isinstance(reading, list) else ():
                claim_storable(value)
            claim_decided(kind, reading)
    assert read > number // 10, "almost no reply was read: the sound ones are not"
