"""Batches of every provider pass through their documented states, are answered once, and survive a restart."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from layton_batch.providers import connect
from layton_batch.sandbox import ModelReply, Question
from tests.support.sandbox_clients import (
    GRADE,
    JPEG,
    MODELS,
    PROVIDERS,
    bench,
    client,
    each_family,
    row,
    whole_row,
)

KEYS = [f"k-{number}" for number in range(7)]
SHAPED = ("openai", "groq", "doubleword")
SEEN = {
    **dict.fromkeys(SHAPED, ("validating", "in_progress", "finalizing", "completed")),
    "anthropic": ("in_progress", "in_progress", "in_progress", "ended"),
    "gemini": ("BATCH_STATE_PENDING", "BATCH_STATE_RUNNING", "BATCH_STATE_RUNNING", "BATCH_STATE_SUCCEEDED"),
    "mistral": ("QUEUED", "RUNNING", "RUNNING", "SUCCESS"),
    "together": ("VALIDATING", "IN_PROGRESS", "IN_PROGRESS", "COMPLETED"),
}
CANCELLED = {
    **dict.fromkeys(SHAPED, ("cancelling", "cancelled")),
    "anthropic": ("canceling", "ended"),
    "gemini": ("BATCH_STATE_RUNNING", "BATCH_STATE_CANCELLED"),
    "mistral": ("CANCELLATION_REQUESTED", "CANCELLED"),
    "together": ("CANCELING", "CANCELLED"),
}
TEXT = 'quote " backslash \\ line\u2028sep \u0000 nul \U0001f9e9 \r\n end'


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_batch_passes_through_its_documented_states_and_answers_every_row_once(provider: str, tmp_path: Path) -> None:
    with bench() as b, client(provider, b, tmp_path) as sent:
        batch = sent.submit([row(provider, key, f"{TEXT} {key}") for key in KEYS])
        states = [sent.status(batch)]
        for seconds in (3, 6.5, 2):
            assert b.echo.asked == []  # at the first look after the end, and only then
            b.clock.forward(seconds)
            states.append(sent.status(batch))
        lines = sent.lines(batch)
        assert tuple(states) == SEEN[provider]
        assert {(one.provider, one.model) for one in b.echo.asked} == {(provider, MODELS[provider])}
        assert sorted(one.text for one in b.echo.asked) == [f"{TEXT} {key}" for key in KEYS]
    assert sorted(lines) == KEYS
    assert list(lines) != KEYS, "results come in another order than the questions"
    for key, line in lines.items():
        assert json.loads(str(sent.provider.decode(json.dumps(line).encode()).text)) == {"echo": f"{TEXT} {key}"}


@each_family
def test_a_cancelled_batch_bills_only_the_rows_it_ran(provider: str, tmp_path: Path) -> None:
    with bench() as b, client(provider, b, tmp_path) as sent:
        batch = sent.submit([row(provider, key) for key in KEYS])
        b.clock.forward(6)
        sent.provider.cancel(batch)
        states = [sent.status(batch)]
        b.clock.forward(3)
        states.append(sent.status(batch))
        lines = sent.lines(batch)
        found = [sent.provider.decode(json.dumps(line).encode()).outcome for line in lines.values()]
        kept = 0 if provider == "gemini" else 3
        assert (tuple(states), b.sandbox.ledger().rows_billed) == (CANCELLED[provider], kept)
    lapsed = 4 if provider in (*SHAPED, "anthropic") else 0
    assert (found.count("succeeded"), found.count("cancelled")) == (kept, lapsed)


@each_family
def test_a_sandbox_started_again_on_its_folder_goes_on_where_it_was(provider: str, tmp_path: Path) -> None:
    state = tmp_path / "state"
    with bench(state=state) as b, client(provider, b, tmp_path) as sent:
        done = sent.submit([row(provider, "first", "one")])
        b.end()
        sent.status(done)
        running = sent.submit([row(provider, "second", "two")], "other")
        now, before = b.clock.now, b.sandbox.ledger()
    with bench(state=state) as b, client(provider, b, tmp_path) as sent:
        b.clock.forward(now - b.clock.now)
        assert b.sandbox.ledger() == before
        assert sent.status(running) == SEEN[provider][0]
        b.end()
        assert (list(sent.lines(done)), list(sent.lines(running))) == (["first"], ["second"])
        assert [row.times_billed for row in b.sandbox.ledger().rows] == [1, 1]


# ---- what a row asks, and what a model replies -----------------------------------------------------------------------


@each_family
def test_a_question_is_read_whole_out_of_every_providers_row(provider: str, tmp_path: Path) -> None:
    with bench() as b, client(provider, b, tmp_path) as sent:
        batch = sent.submit([whole_row(provider, "a")])
        b.end()
        sent.status(batch)
        (question,) = b.echo.asked
    assert (question.system, question.text) == (
        "Grade strictly.",
        "one\n\ntwo" if "\n\n" in question.text else "one\ntwo",
    )
    assert question.images == (base64.b64decode(JPEG),)
    assert question.schema == GRADE
    assert question.reasoning == (2048 if provider == "anthropic" else "low")
    assert question.max_output_tokens == 4096
    assert (question.model, question.custom_id) == (MODELS[provider], "a")


REPLIES = {
    "plain": ModelReply('{"score": 1}', "stop", 100, 20, 50, 10),
    "cut": ModelReply('{"sc', "length", 100, 0, 50, 50),
    "no": ModelReply("I cannot help.", "refusal", 100, 0, 5, 0),
    "half": ModelReply("half \ud83d pair", "stop", 1, 0, 1, 0),
}


class ByText:
    """Replies as the question's text names it."""

    def answer(self, question: Question) -> ModelReply:
        return REPLIES[question.text]


@each_family
def test_a_reply_has_the_form_that_the_dialect_reads(provider: str, tmp_path: Path) -> None:
    """Thoughts stay out of the text; cached and reasoning tokens are counted where the documents have them."""
    thinking = {
        "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
        "gemini": {"generationConfig": {"thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": True}}},
        "mistral": {"reasoning_effort": "high"},
    }.get(provider, {})  # fmt: skip
    with bench(answerer=ByText()) as b, client(provider, b, tmp_path) as sent:
        batch = sent.submit([row(provider, name, name, **thinking) for name in REPLIES])
        b.end()
        lines = sent.lines(batch)
    found = {name: connect(provider, None).decode(json.dumps(line).encode()) for name, line in lines.items()}
    refuses = provider in ("openai", "doubleword", "anthropic", "gemini")
    for name, told in REPLIES.items():
        reply = found[name]
        usage = (reply.usage.input_tokens, reply.usage.cached_input_tokens, reply.usage.output_tokens)
        assert usage == (told.input_tokens, told.cached_input_tokens, told.output_tokens), name
        assert reply.usage.reasoning_tokens == told.reasoning_tokens, name
        if name != "no":
            assert (reply.text, reply.finish_reason) == (told.text.replace("\ud83d", "\ufffd"), told.finish), name
    assert found["no"].finish_reason == ("refusal" if refuses else "stop")
