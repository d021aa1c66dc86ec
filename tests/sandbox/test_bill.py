"""The sandbox's bill: published prices, what providers say of caches, and each row that was carried out."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from layton_batch.sandbox import ModelReply, Question
from layton_batch.sandbox.answerers.questions import SandboxUsage
from layton_batch.sandbox.engine.store import charge
from tests.support.sandbox_clients import MODELS, bench, client, row

MILLION = SandboxUsage(1_000_000, 0, 1_000_000, 0)


def test_tokens_of_a_cache_cost_their_own_rate_and_a_name_that_only_starts_alike_has_no_price() -> None:
    cached = SandboxUsage(1_000_000, 400_000, 0, 0)
    assert charge("openai", "gpt-5.1", cached) == Decimal("0.4")
    assert charge("together", "moonshotai/Kimi-K2.5", cached) == Decimal("0.5")
    written = SandboxUsage(1_000_000, cache_write_tokens=1_000_000)
    assert charge("anthropic", "claude-opus-4-5", written) == Decimal("3.125")
    for model in ("gpt-5.1-mini", "gpt-5.1-2025-11-13-high", "gpt-5.10", "claude-opus-4-5"):
        assert charge("openai", model, MILLION) is None


def test_the_ledger_is_exact_and_counts_what_it_cannot_price(tmp_path: Path) -> None:
    with bench() as b:
        with client("anthropic", b, tmp_path) as sent:
            batches = [(sent, sent.submit([row("anthropic", "a"), row("anthropic", "b")]))]
            b.end()
            sent.status(batches[0][1])
        with client("openai", b, tmp_path) as sent:
            for number, rows in enumerate(
                ([row("openai", "a"), row("openai", "b")], [row("openai", "a"), row("openai", "c")],
                 [row("openai", "z", model="acme-1")])
            ):  # fmt: skip
                batch = sent.submit(rows, str(number))
                b.end()
                sent.status(batch)
        page, brief = b.page("ledger?rows=1"), b.page("ledger")
    ledger = b.sandbox.ledger()
    openai = Decimal(4) * (80 * Decimal("0.625") + 20 * Decimal("0.0625") + 50 * 5) / 10**6
    anthropic = Decimal(2) * (80 * Decimal("2.5") + 20 * Decimal("0.25") + 50 * Decimal("12.5")) / 10**6
    assert Decimal(page["total_usd"]) == ledger.total_usd == openai + anthropic
    assert (page["rows_billed"], page["unpriced_rows"], "rows" in brief) == (7, 1, False)
    times = {(r["model"], r["custom_id"]): r["times_billed"] for r in page["rows"] if r["provider"] == "openai"}
    assert (times[MODELS["openai"], "a"], times[MODELS["openai"], "c"]) == (2, 1)


# ---- caches of prompts -----------------------------------------------------------------------------------------------

TOKEN = "four"
"""Four bytes: a token, as the sandbox counts."""


class OfAThousand:
    """Replies to every question with the same tokens, none of them cached."""

    def answer(self, question: Question) -> ModelReply:
        return ModelReply("yes", "stop", 10_000, 0, 50, 0)


def usages(provider: str, folder: Path, model: str | None = None, **extra: Any) -> list[tuple[int, int]]:
    """Read and written tokens of three rows with one beginning, those that read most last."""
    with bench(answerer=OfAThousand()) as b, client(provider, b, folder) as sent:
        batch = sent.submit([row(provider, f"r{n}", f"question {n}", model=model, **extra) for n in range(3)])
        b.end()
        found = [sent.decoded(line).usage for line in sent.lines(batch).values()]
    assert {usage.input_tokens for usage in found} == {10_000}
    return sorted((usage.cached_input_tokens, usage.cache_write_tokens) for usage in found)


def marked(tokens: int) -> list[dict[str, object]]:
    return [{"type": "text", "text": TOKEN * tokens, "cache_control": {"type": "ephemeral"}}]


def test_anthropic_keeps_a_long_text_that_is_marked_once_and_reads_it_for_the_other_rows(tmp_path: Path) -> None:
    opus = "claude-opus-4-5"
    assert usages("anthropic", tmp_path, opus, system=marked(4096)) == [(0, 4096), (4096, 0), (4096, 0)]
    for system, model in (
        (TOKEN * 5000, opus), (marked(4095), opus), (marked(1023), "wagtail-5"),
    ):  # fmt: skip
        assert usages("anthropic", tmp_path, model, system=system) == [(0, 0)] * 3


@pytest.mark.parametrize(("tokens", "read"), [(1023, 0), (1300, 1280)])
def test_openai_caches_a_long_begin_by_itself_in_steps(tokens: int, read: int, tmp_path: Path) -> None:
    messages = [{"role": "system", "content": TOKEN * tokens}, {"role": "user", "content": "which?"}]
    assert usages("openai", tmp_path, messages=messages) == sorted([(0, 0), (read, 0), (read, 0)])
