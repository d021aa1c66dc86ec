"""Replies at which a dialect stumbles: the call fails and is repeated, or the row is unreadable; the run goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from layton_batch.batches.batch_results import read_replies
from layton_batch.errors import (
    AmbiguousCallError,
    FileError,
    ProviderReplyError,
    StoppedError,
    TransientProviderError,
)
from layton_batch.providers.protocol import ResultPart
from layton_batch.providers.without_keys import without_keys
from layton_batch.records import Response, Snapshot, Submission
from layton_batch.states import ErrorClass, Lifecycle
from tests.batches.test_batch_results import decode, kept, line

KEY = "sk-a-secret-key-of-ours"
ENDED = Snapshot("b-1", "ended", Lifecycle.ENDED, results_ref="file-1")
STUMBLES = (
    OverflowError("int too large to convert to float"),
    RecursionError("maximum recursion depth exceeded"),
    MemoryError(),
    KeyError(f"{KEY} is no key of this object"),
    OSError(75, "Value too large for defined data type"),
)


class Stumbling:
    """A dialect whose every call raises ``error``."""

    name = "stumbling"

    def __init__(self, error: Exception) -> None:
        self._error = error

    def _call(self, *_arguments: object) -> Any:
        raise self._error

    upload = create = find = snapshot = cancel = about = _call

    def results(self, _snapshot: Snapshot) -> Iterator[ResultPart]:
        yield ResultPart("output", self._chunks(), self._call)

    def _chunks(self) -> Iterator[bytes]:
        yield b"{}\n"
        raise self._error


def calls_of(error: Exception, submission: Submission) -> dict[str, Callable[[], object]]:
    """Every call to a dialect that raises the error, as the stages make it."""
    provider: Any = without_keys(Stumbling(error), KEY)  # type: ignore[arg-type]
    return {
        "create": lambda: provider.create(submission),
        "upload": lambda: provider.upload(submission),
        "find": lambda: provider.find(submission),
        "snapshot": lambda: provider.snapshot("b-1"),
        "cancel": lambda: provider.cancel("b-1"),
        "about": lambda: provider.about("a-model"),
        "results": lambda: [list(part.chunks) for part in provider.results(ENDED)],
        "resume": lambda: next(iter(provider.results(ENDED))).resume(3),
    }


@pytest.mark.parametrize("error", STUMBLES, ids=lambda error: type(error).__name__)
def test_whatever_a_dialect_raises_is_an_error_of_its_provider(error: Exception, submission: Submission) -> None:
    for name, call in calls_of(error, submission).items():
        expected = AmbiguousCallError if name == "create" else ProviderReplyError
        with pytest.raises(expected, match=f"stumbling: the reply could not be read: {type(error).__name__}") as raised:
            call()
        assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    "error",
    [StoppedError("stop"), FileError("gone"), TransientProviderError("busy"), FileNotFoundError(2, "gone", "b.jsonl")],
    ids=lambda error: type(error).__name__,
)
def test_errors_that_are_not_of_a_reply_stay_as_they_are(error: Exception, submission: Submission) -> None:
    for call in calls_of(error, submission).values():
        with pytest.raises(type(error)):
            call()


def test_a_line_that_a_dialect_cannot_read_costs_its_row(tmp_path: Path) -> None:
    def stumbling(content: bytes) -> Response:
        if b"c2" in content:
            raise OverflowError("int too large")
        return decode(content)

    replies = read_replies(kept(tmp_path, line("c1", "a"), line("c2", "b"), line("c3", "c")), stumbling)
    assert [name for name, reply in replies.by_id.items() if reply.is_answer] == ["c1", "c3"]
    damaged = replies.by_id["c2"].response
    assert damaged.error_class is ErrorClass.UNREADABLE
    assert "output.jsonl" in str(damaged.error_message)
    assert "OverflowError" in str(damaged.error_message)
