"""The one contract that every dialect holds, run over the sandbox and over a server that misbehaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from layton_batch.errors import AmbiguousCallError, ProviderReplyError, TransientProviderError
from layton_batch.providers import connect
from layton_batch.providers.protocol import Access, Provider
from layton_batch.sandbox import Fault, Sandbox, SandboxConfig
from layton_batch.states import BatchOutcome, RequestOutcome
from layton_batch.testing.providers import Answer, Loopback, ProviderContract

NAMES = ("openai", "anthropic", "gemini", "mistral", "together", "groq", "doubleword", "openrouter", "xai")
ROWS = (
    Fault(on="row", action="error", match="rows-1", status=500),
    Fault(on="row", action="truncated", match="rows-2"),
    *(Fault(provider=name, on="results", action="cut", times=1) for name in NAMES),
)
"""One row fails, another is truncated, and every provider's first download breaks off."""
LOST = tuple(Fault(provider=name, on="create", action="drop_after", times=1) for name in NAMES)
"""Every provider's first create is carried out, and its reply dropped."""


def running(*faults: Fault) -> Iterator[Sandbox]:
    with Sandbox(SandboxConfig(batch_seconds=0.05, faults=faults)) as sandbox:
        yield sandbox


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    yield from running()


@pytest.fixture(scope="module")
def bent() -> Iterator[Sandbox]:
    yield from running(*ROWS)


@pytest.fixture(scope="module")
def losing() -> Iterator[Sandbox]:
    yield from running(*LOST)


class Contract(ProviderContract):
    name = ""

    @pytest.fixture(autouse=True)
    def _address(self, sandbox: Sandbox) -> None:
        self.sandbox_url = sandbox.url

    def make(self, access: Access | None) -> Provider:
        return connect(self.name, access)

    def test_a_create_whose_reply_is_lost_is_found_and_not_repeated(self, losing: Sandbox, tmp_path: Path) -> None:
        provider = self.connect(losing.url)
        unsent = self.submission(tmp_path, "lost")
        sent = self.submission(tmp_path, "lost", input_ref=provider.upload(unsent))
        with pytest.raises(AmbiguousCallError):
            provider.create(sent)
        (found,) = provider.find(sent)
        responses = self.responses(provider, self.ended(provider, found.provider_id))
        assert sorted(row.custom_id for row in responses) == ["lost-0", "lost-1", "lost-2"]

    def test_failed_and_truncated_rows_and_a_broken_download_are_told(self, bent: Sandbox, tmp_path: Path) -> None:
        provider = self.connect(bent.url)
        snapshot = self.ended(provider, self.submitted(provider, tmp_path, "rows")[1])
        assert snapshot.outcome is BatchOutcome.COMPLETED
        if self.name != "openrouter":  # whose results come with the batch
            with pytest.raises(TransientProviderError):
                self.responses(provider, snapshot)
        found = {row.custom_id: (row.outcome, row.finish_reason) for row in self.responses(provider, snapshot)}
        assert found == {
            "rows-0": (RequestOutcome.SUCCEEDED, "stop"),
            "rows-1": (RequestOutcome.ERRORED, None),
            "rows-2": (RequestOutcome.SUCCEEDED, "length"),
        }


class TestOpenAI(Contract):
    name, base_path, model = "openai", "/openai/v1", "gpt-5.1-2025-11-13"


class TestAnthropic(Contract):
    name, base_path, model = "anthropic", "/anthropic", "claude-opus-4-5-20251101"
    unknown_status = b"""{"id": "b-1", "type": "message_batch", "processing_status": "pondering", "request_counts":
        {"processing": 1}, "created_at": "2026-11-21T10:00:00Z", "expires_at": "2026-11-22T10:00:00Z"}"""


class TestGemini(Contract):
    name, base_path, model = "gemini", "/gemini", "gemini-3-flash-preview"
    unknown_status = b'{"name": "batches/b-1", "metadata": {"state": "BATCH_STATE_PONDERING", "name": "batches/b-1"}}'


class TestMistral(Contract):
    name, base_path, model = "mistral", "/mistral", "mistral-large-2512"
    unknown_status = b'{"id": "b-1", "object": "batch", "status": "PONDERING"}'


class TestTogether(Contract):
    name, base_path, model = "together", "/together", "moonshotai/Kimi-K2-Thinking"


@pytest.mark.nightly  # it speaks the wire of OpenAI's batch files, as Doubleword does
class TestGroq(Contract):
    name, base_path, model = "groq", "/groq", "openai/gpt-oss-120b"


@pytest.mark.nightly
class TestDoubleword(Contract):
    name, base_path, model = "doubleword", "/doubleword/v1", "Qwen/Qwen3-VL-235B-A22B-Instruct-FP8"


class TestOpenRouter(Contract):
    name, base_path, model = "openrouter", "/openrouter/api/v1", "z-ai/glm-5.3"


class TestXai(Contract):
    name, base_path, model = "xai", "/xai/v1", "grok-4.3"

    def test_an_unknown_status_is_named(self) -> None:
        """There are no status words to be unknown: a reading without counts is what cannot be understood."""
        with Loopback(Answer(body=b'{"batch_id": "b-1", "name": "n"}')) as server, pytest.raises(ProviderReplyError):
            self.connect(server.url).snapshot("b-1")
