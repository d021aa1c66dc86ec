"""What the sandbox bills as cached input is what a provider's documents say, and only where the row asks for it."""

from __future__ import annotations

from typing import Any

import pytest

from layton_batch.sandbox import ModelReply
from tests.support.sandbox_clients import bench, driver, row, rows_of

TOKEN = "four"
"""Four bytes: a token, as the sandbox counts."""


class OfAThousand:
    """Replies to every question with the same tokens, none of them cached."""

    def answer(self, question: object) -> ModelReply:
        return ModelReply("yes", "stop", 10_000, 0, 50, 0)


def usages(provider: str, tmp_path: Any, system: dict[str, object], **extra: object) -> list[dict[str, int]]:
    """Fresh, read and written tokens of three rows with one system text, those that read most last."""
    with bench(answerer=OfAThousand()) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit(
            [row(provider, f"r{number}", f"question {number}", **system, **extra) for number in range(3)]
        )
        b.end()
        sdk.status(batch)
        output, error = sdk.results(batch)
    assert error == b""
    return sorted((read_usage(provider, line) for line in rows_of(output)), key=lambda usage: usage["read"])


def read_usage(provider: str, line: dict[str, Any]) -> dict[str, int]:
    if provider == "anthropic":
        usage = line["result"]["message"]["usage"]
        names = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
        return dict(zip(("fresh", "read", "written"), (usage[name] for name in names), strict=True))
    usage = line["response"]["body"]["usage"]
    cached = usage["prompt_tokens_details"]["cached_tokens"]
    return {"fresh": usage["prompt_tokens"] - cached, "read": cached, "written": 0}


def marked(tokens: int) -> dict[str, object]:
    return {"system": [{"type": "text", "text": TOKEN * tokens, "cache_control": {"type": "ephemeral"}}]}


@pytest.mark.parametrize(
    ("system", "model"),
    [
        ({"system": TOKEN * 5000}, "claude-opus-4-5"),
        ({"system": [{"type": "text", "text": TOKEN * 5000}]}, "claude-opus-4-5"),
        (marked(4095), "claude-opus-4-5"),
        (marked(1023), "wagtail-5"),
        (marked(511), "claude-opus-5"),
    ],
    ids=["text", "no mark", "short for Opus 4.5", "short", "short for Opus 5"],
)
def test_anthropic_caches_nothing_that_is_unmarked_or_short(
    tmp_path: Any, system: dict[str, object], model: str
) -> None:
    assert usages("anthropic", tmp_path, system, model=model) == [{"fresh": 10_000, "read": 0, "written": 0}] * 3


def test_anthropic_writes_a_marked_text_once_and_reads_it_for_the_other_rows(tmp_path: Any) -> None:
    first, *others = usages("anthropic", tmp_path, marked(4096), model="claude-opus-4-5")
    assert first == {"fresh": 10_000 - 4096, "read": 0, "written": 4096}
    assert others == [{"fresh": 10_000 - 4096, "read": 4096, "written": 0}] * 2


@pytest.mark.parametrize(("tokens", "read"), [(1023, 0), (1024, 1024), (1300, 1280)])
def test_openai_caches_a_long_begin_by_itself_in_steps(tmp_path: Any, tokens: int, read: int) -> None:
    messages = [{"role": "system", "content": TOKEN * tokens}, {"role": "user", "content": "which?"}]
    first, *others = usages("openai", tmp_path, {"messages": messages})
    assert first == {"fresh": 10_000, "read": 0, "written": 0}
    assert others == [{"fresh": 10_000 - read, "read": read, "written": 0}] * 2


def test_written_tokens_cost_a_quarter_more_than_input(tmp_path: Any) -> None:
    with bench(answerer=OfAThousand()) as b, driver("anthropic", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row("anthropic", "a", "?", model="claude-opus-4-5", **marked(4096))])
        b.end()
        sdk.status(batch)
        (bill,) = b.sandbox.ledger().rows
    fresh, written, output = (10_000 - 4096) * 2.5, 4096 * 1.25 * 2.5, 50 * 12.5  # USD per million, batched
    assert float(bill.usd or 0) == pytest.approx((fresh + written + output) / 1e6)
