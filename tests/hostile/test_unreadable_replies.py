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
from layton_batch.providers import connect
from layton_batch.providers.protocol import Provider, ResultPart
from layton_batch.records import Response, Snapshot, Submission
from layton_batch.states import ErrorClass, Lifecycle
from tests.batches.test_batch_results import decode, kept, line
from tests.support.lab import lab, quiz_text

KEY = "sandbox-key-openai"
ENDED = Snapshot("b-1", "ended", Lifecycle.ENDED, results_ref="file-1")
STUMBLES = (
    OverflowError("int too large to convert to float"),
    RecursionError("maximum recursion depth exceeded"),
    MemoryError(),
    KeyError(f"{KEY} is no key of this object"),
    OSError(75, "Value too large for defined data type"),
)


@pytest.fixture(scope="module")
def openai(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """The connection of a run to OpenAI."""
    with lab(tmp_path_factory.mktemp("run")) as there, there.open(quiz_text()) as run:
        yield run.providers.get("openai")


def stumble(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    """Let every call of OpenAI's dialect raise ``error``."""

    def raises(*_arguments: object) -> Any:
        raise error

    def chunks() -> Iterator[bytes]:
        yield b"{}\n"
        raise error

    dialect = type(connect("openai", None))
    for name in ("upload", "create", "find", "snapshot", "cancel", "about"):
        monkeypatch.setattr(dialect, name, raises)
    monkeypatch.setattr(dialect, "results", lambda *_: iter([ResultPart("output", chunks(), raises)]))


def calls_of(provider: Any, submission: Submission) -> dict[str, Callable[[], object]]:
    """Every call to a dialect, as the stages make it."""
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
def test_whatever_a_dialect_raises_is_an_error_of_its_provider(
    openai: Provider, submission: Submission, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    stumble(monkeypatch, error)
    for name, call in calls_of(openai, submission).items():
        expected = AmbiguousCallError if name == "create" else ProviderReplyError
        with pytest.raises(expected, match=f"^openai: .*{type(error).__name__}") as raised:
            call()
        assert KEY not in str(raised.value)


@pytest.mark.parametrize(
    "error",
    [StoppedError("stop"), FileError("gone"), TransientProviderError("busy"), FileNotFoundError(2, "gone", "b.jsonl")],
    ids=lambda error: type(error).__name__,
)
def test_errors_that_are_not_of_a_reply_stay_as_they_are(
    openai: Provider, submission: Submission, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    stumble(monkeypatch, error)
    for call in calls_of(openai, submission).values():
        with pytest.raises(type(error)):
            call()


def test_a_line_that_a_dialect_cannot_read_costs_its_row(tmp_path: Path) -> None:
    def decode_or_stumble(content: bytes) -> Response:
        if b"c2" in content:
            raise OverflowError("int too large")
        return decode(content)

    replies = read_replies(kept(tmp_path, line("c1", "a"), line("c2", "b"), line("c3", "c")), decode_or_stumble)
    assert [name for name, reply in replies.by_id.items() if reply.is_answer] == ["c1", "c3"]
    damaged = replies.by_id["c2"].response
    assert damaged.error_class is ErrorClass.UNREADABLE
    assert "output.jsonl" in str(damaged.error_message)
    assert "OverflowError" in str(damaged.error_message)
