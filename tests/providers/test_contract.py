"""The one contract that every dialect holds, run over the sandbox and over a server that misbehaves."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from layton_batch.errors import AmbiguousCallError, TransientProviderError
from layton_batch.providers import provider_class
from layton_batch.providers.protocol import Access, Provider
from layton_batch.sandbox import Fault, Sandbox, SandboxConfig
from layton_batch.states import BatchOutcome, RequestOutcome
from layton_batch.testing.providers import ProviderContract

NAMES = ("openai", "anthropic", "gemini", "mistral", "together", "groq", "doubleword", "openrouter")
CUT = tuple(Fault(provider=name, on="results", action="cut", times=1) for name in NAMES)
LOST = tuple(Fault(provider=name, on="create", action="drop_after", times=1) for name in NAMES)
ROWS = (
    Fault(on="row", action="error", match="rows-1", status=500),
    Fault(on="row", action="truncated", match="rows-2"),
)


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(SandboxConfig(batch_seconds=0.05)) as running:
        yield running


@pytest.fixture(scope="module")
def losing() -> Iterator[Sandbox]:
    """Carries out every provider's first create and drops the reply."""
    with Sandbox(SandboxConfig(batch_seconds=0.05, faults=LOST)) as running:
        yield running


@pytest.fixture(scope="module")
def failing() -> Iterator[Sandbox]:
    """Fails one row, truncates another; breaks off every provider's first download."""
    with Sandbox(SandboxConfig(batch_seconds=0.05, faults=ROWS + CUT)) as running:
        yield running


class Contract(ProviderContract):
    name = ""

    @pytest.fixture(autouse=True)
    def _address(self, sandbox: Sandbox) -> None:
        self.sandbox_url = sandbox.url

    def make(self, access: Access | None) -> Provider:
        return provider_class(self.name)(access)

    def test_a_create_whose_reply_is_lost_is_found_and_not_repeated(self, losing: Sandbox, tmp_path: Path) -> None:
        provider = self.connect(losing.url)
        unsent = self.submission(tmp_path, "lost")
        sent = self.submission(tmp_path, "lost", input_ref=provider.upload(unsent))
        with pytest.raises(AmbiguousCallError):
            provider.create(sent)
        (found,) = provider.find(sent)
        responses = self.responses(provider, self.ended(provider, found.provider_id))
        assert sorted(row.custom_id for row in responses) == ["lost-0", "lost-1", "lost-2"]

    def test_failed_and_truncated_rows_and_a_broken_download_are_told(self, failing: Sandbox, tmp_path: Path) -> None:
        provider = self.connect(failing.url)
        _, provider_id = self.submitted(provider, tmp_path, "rows")
        responses = self.responses_in_the_end(provider, provider_id)
        assert responses == {
            "rows-0": (RequestOutcome.SUCCEEDED, "stop"),
            "rows-1": (RequestOutcome.ERRORED, None),
            "rows-2": (RequestOutcome.SUCCEEDED, "length"),
        }

    def responses_in_the_end(
        self, provider: Provider, provider_id: str
    ) -> dict[str, tuple[RequestOutcome, str | None]]:
        snapshot = self.ended(provider, provider_id)
        assert snapshot.outcome is BatchOutcome.COMPLETED
        with pytest.raises(TransientProviderError):  # the first download breaks off
            self.responses(provider, snapshot)
        responses = self.responses(provider, snapshot)
        assert len(responses) == 3
        return {row.custom_id: (row.outcome, row.finish_reason and row.finish_reason.value) for row in responses}


class TestOpenAI(Contract):
    name = "openai"
    base_path = "/openai/v1"
    model = "gpt-5.1-2025-11-13"


class TestAnthropic(Contract):
    name = "anthropic"
    base_path = "/anthropic"
    model = "claude-opus-4-5-20251101"
    unknown_status = b"""{"id": "b-1", "type": "message_batch", "processing_status": "pondering", "request_counts":
        {"processing": 1, "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0},
        "created_at": "2026-11-21T10:00:00Z", "expires_at": "2026-11-22T10:00:00Z"}"""


class TestGemini(Contract):
    name = "gemini"
    base_path = "/gemini"
    model = "gemini-3-flash-preview"
    unknown_status = b'{"name": "batches/b-1", "metadata": {"state": "BATCH_STATE_PONDERING", "name": "batches/b-1"}}'


class TestMistral(Contract):
    name = "mistral"
    base_path = "/mistral"
    model = "mistral-large-2512"
    unknown_status = b"""{"id": "b-1", "object": "batch", "input_files": ["f"], "endpoint": "/v1/chat/completions",
        "model": "m", "status": "PONDERING", "errors": [], "created_at": 1, "total_requests": 1,
        "completed_requests": 0, "succeeded_requests": 0, "failed_requests": 0}"""


class TestTogether(Contract):
    name = "together"
    base_path = "/together"
    model = "moonshotai/Kimi-K2-Thinking"


@pytest.mark.nightly  # it speaks the wire of OpenAI's batch files; what differs is in test_groq.py
class TestGroq(Contract):
    name = "groq"
    base_path = "/groq"
    model = "openai/gpt-oss-120b"


@pytest.mark.nightly  # the same; test_doubleword.py
class TestDoubleword(Contract):
    name = "doubleword"
    base_path = "/doubleword/v1"
    model = "Qwen/Qwen3-VL-235B-A22B-Instruct-FP8"


class TestOpenRouter(Contract):
    name = "openrouter"
    base_path = "/openrouter/api/v1"
    model = "z-ai/glm-5.3"

    def responses_in_the_end(
        self, provider: Provider, provider_id: str
    ) -> dict[str, tuple[RequestOutcome, str | None]]:
        """Its results come with the batch, so that no download of their own can break off."""
        responses = self.responses(provider, self.ended(provider, provider_id))
        return {row.custom_id: (row.outcome, row.finish_reason and row.finish_reason.value) for row in responses}
