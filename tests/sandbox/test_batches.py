"""Batches of every provider pass through their documented states, are answered once, survive a restart, and go wrong as
a file of faults says, while the bill stays true."""

from __future__ import annotations

import base64
import json
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest

from layton_batch.errors import TransientProviderError, UnknownStatusError
from layton_batch.sandbox import Fault, ModelReply, Question, load_faults
from tests.support.sandbox_clients import (
    GRADE,
    JPEG,
    MODELS,
    PROVIDERS,
    bench,
    client,
    each_family,
    key_of,
    row,
    whole_row,
)

KEYS = [f"k-{number}" for number in range(10)]


class Words(NamedTuple):
    """Status words of a provider, and rows that a batch keeps which ended early: of those answered, of the others."""

    seen: tuple[str, str, str, str]
    ends: tuple[str, str, str]
    cancelling: str
    keeps_answers: bool = True
    tells_lapsed: bool = True


SHAPED = Words(
    ("validating", "in_progress", "finalizing", "completed"), ("failed", "expired", "cancelled"), "cancelling"
)
WORDS = {
    **dict.fromkeys(("openai", "groq", "doubleword"), SHAPED),
    "anthropic": Words(("in_progress", "in_progress", "in_progress", "ended"), ("ended",) * 3, "canceling"),
    "gemini": Words(
        ("BATCH_STATE_PENDING", "BATCH_STATE_RUNNING", "BATCH_STATE_RUNNING", "BATCH_STATE_SUCCEEDED"),
        ("BATCH_STATE_FAILED", "BATCH_STATE_EXPIRED", "BATCH_STATE_CANCELLED"), "BATCH_STATE_RUNNING", False, False,
    ),
    "mistral": Words(("QUEUED", "RUNNING", "RUNNING", "SUCCESS"), ("FAILED", "TIMEOUT_EXCEEDED", "CANCELLED"),
                     "CANCELLATION_REQUESTED", tells_lapsed=False),
    "together": Words(("VALIDATING", "IN_PROGRESS", "IN_PROGRESS", "COMPLETED"), ("FAILED", "EXPIRED", "CANCELLED"),
                      "CANCELING", tells_lapsed=False),
}  # fmt: skip
TEXT = 'quote " backslash \\ line\u2028sep \u0000 nul \U0001f9e9 \r\n end'


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_batch_passes_through_its_documented_states_and_answers_every_row_once(provider: str, tmp_path: Path) -> None:
    with bench() as b, client(provider, b, tmp_path) as sent:
        batch = sent.submit([*(row(provider, key, f"{TEXT} {key}") for key in KEYS), whole_row(provider, "whole")])
        states = [sent.status(batch)]
        for seconds in (3, 6.5, 2):
            assert b.echo.asked == []  # at the first look after the end, and only then
            b.clock.forward(seconds)
            states.append(sent.status(batch))
        lines = sent.lines(batch)
        asked = {question.custom_id: question for question in b.echo.asked}
    assert tuple(states) == WORDS[provider].seen
    assert len(b.echo.asked) == len(asked) == len(KEYS) + 1
    assert sorted(lines) == sorted(asked)
    assert list(lines) != [*KEYS, "whole"], "results come in another order than the questions"
    for key in KEYS:
        assert (asked[key].provider, asked[key].model, asked[key].text) == (provider, MODELS[provider], f"{TEXT} {key}")
        assert json.loads(str(sent.decoded(lines[key]).text)) == {"echo": f"{TEXT} {key}"}
    whole = asked["whole"]
    assert (whole.system, whole.text.split(), whole.schema) == ("Grade strictly.", ["one", "two"], GRADE)
    assert whole.images == (base64.b64decode(JPEG),)
    assert (whole.reasoning, whole.max_output_tokens) == (2048 if provider == "anthropic" else "low", 4096)


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
        assert sent.status(running) == WORDS[provider].seen[0]
        b.end()
        assert (list(sent.lines(done)), list(sent.lines(running))) == (["first"], ["second"])
        assert [row.times_billed for row in b.sandbox.ledger().rows] == [1, 1]


REPLIES = {
    "plain": ModelReply('{"score": 1}', "stop", 100, 20, 50, 10),
    "cut": ModelReply('{"sc', "length", 100, 0, 50, 50),
    "no": ModelReply("I cannot help.", "refusal", 100, 0, 5, 0),
    "half": ModelReply("half \ud83d pair", "stop", 1, 0, 1, 0),
}
THINKING = {
    "anthropic": {"thinking": {"type": "enabled", "budget_tokens": 1024}},
    "gemini": {"generationConfig": {"thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": True}}},
    "mistral": {"reasoning_effort": "high"},
}


class ByText:
    """Replies as the question's text names it."""

    def answer(self, question: Question) -> ModelReply:
        return REPLIES[question.text]


@each_family
def test_a_reply_has_the_form_that_the_dialect_reads(provider: str, tmp_path: Path) -> None:
    """Thoughts stay out of the text; cached and reasoning tokens are counted where the documents have them."""
    refuses = provider in ("openai", "doubleword", "anthropic", "gemini")
    with bench(answerer=ByText()) as b, client(provider, b, tmp_path) as sent:
        batch = sent.submit([row(provider, name, name, **THINKING.get(provider, {})) for name in REPLIES])
        b.end()
        lines = sent.lines(batch)
    for name, told in REPLIES.items():
        reply = sent.decoded(lines[name])
        usage, tokens = reply.usage, (told.input_tokens, told.cached_input_tokens, told.output_tokens)
        assert (usage.input_tokens, usage.cached_input_tokens, usage.output_tokens) == tokens, name
        assert usage.reasoning_tokens == told.reasoning_tokens, name
        if name == "no":
            assert reply.finish_reason == ("refusal" if refuses else "stop")
        else:
            assert (reply.text, reply.finish_reason) == (told.text.replace("\ud83d", "\ufffd"), told.finish), name


# ---- faults ----------------------------------------------------------------------------------------------------------


def ids(data: bytes) -> list[str]:
    return sorted(key_of(json.loads(line)) for line in data.splitlines())


def is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except json.JSONDecodeError:
        return False
    return True


@each_family
def test_downloads_end_early_or_break_off_and_a_fault_of_a_row_costs_that_row(provider: str, tmp_path: Path) -> None:
    faults = (
        Fault(on="results", action="truncate", share=0.55, times=1),
        Fault(on="results", action="short", share=0.55, after=1, times=1),
        Fault(on="results", action="cut", after=2, times=1),
        Fault(on="row", action="error", status=500, match="x-0"),
        Fault(on="row", action="missing", match="x-[12]"),
        Fault(on="row", action="duplicate", match="x-3"),
        Fault(on="row", action="unknown_id", match="x-4"),
        Fault(on="row", action="malformed_line", match="x-5"),
    )
    with bench(*faults) as b, client(provider, b, tmp_path) as sent:
        batch = sent.submit([row(provider, key, "x" * 5000) for key in KEYS])
        b.end()
        (truncated, _), (short, _) = sent.files(batch), sent.files(batch)
        with pytest.raises(TransientProviderError):
            sent.files(batch)
        whole, _ = sent.files(batch)
        assert b.sandbox.ledger().rows_billed == 10
        bad = sent.submit([row(provider, key.replace("k", "x")) for key in KEYS], "bad")
        b.end()
        lines = b"".join(sent.files(bad)).splitlines()
        assert b.sandbox.ledger().rows_billed == 17  # all but the one that failed and the two that are missing
    assert 1 < len(truncated.split(b"\n")) < 10
    assert not is_json(truncated.split(b"\n")[-1])
    assert short.endswith(b"\n")  # nothing shows that rows are missing
    assert (len(ids(short)), set(ids(short)) < set(KEYS), ids(whole)) == (5, True, KEYS)
    sound = [line for line in lines if is_json(line)]
    assert len(sound) == len(lines) - 1
    names = [name for name in ids(b"\n".join(sound)) if name.startswith("x-")]
    assert (names, len(sound)) == ([f"x-{number}" for number in (0, 3, 3, 4, 6, 7, 8, 9)], 9)
    failed = next(line for line in sound if key_of(json.loads(line)) == "x-0")
    assert sent.decoded(json.loads(failed)).error_class == "provider_fault"
    assert sum(b"(once more)" in line for line in sound if b'"x-3"' in line) == 1


@each_family
def test_a_batch_can_be_made_to_end_badly_or_never_and_keeps_what_its_provider_keeps(
    provider: str, tmp_path: Path
) -> None:
    actions, words = ("fail", "expire", "cancel"), WORDS[provider]
    faults = (
        *(Fault(on="batch", action=action, share=0.4, match=f"{action}-0") for action in actions),
        Fault(on="batch", action="unknown_status", name="MEDITATING", seconds=3, match="odd-0"),
        Fault(on="batch", action="stuck", match="held-0"),
    )
    with bench(*faults) as b, client(provider, b, tmp_path) as sent:
        batches = {
            name: sent.submit([row(provider, f"{name}-{number}") for number in range(10)], name)
            for name in (*actions, "spared", "odd", "held", "stopped")
        }
        b.clock.forward(3)
        with pytest.raises(UnknownStatusError, match="MEDITATING"):
            sent.status(batches["odd"])
        b.clock.forward(3)
        sent.provider.cancel(batches["stopped"])
        assert sent.status(batches["stopped"]) == words.cancelling
        b.end()
        ends = {name: (sent.look(batch), sent.lines(batch)) for name, batch in batches.items() if name != "held"}
        b.clock.forward(10_000)
        assert sent.look(batches["held"]).outcome is None
        sent.provider.cancel(batches["held"])
        b.clock.forward(3)
        assert sent.look(batches["held"]).outcome == "cancelled"
        billed = Counter(line.custom_id.partition("-")[0] for line in b.sandbox.ledger().rows)
    assert (billed["spared"], billed["odd"], len(ends["odd"][1])) == (10, 10, 10)
    for name, status in (*zip(actions, words.ends, strict=True), ("stopped", words.ends[2])):
        look, lines = ends[name]
        kept = 0 if name == "fail" or not words.keeps_answers else 5 if name == "stopped" else 4
        assert (look.provider_status, billed[name]) == (status, kept)
        told = words.tells_lapsed and (name != "fail" or provider == "anthropic")
        outcomes = Counter(sent.decoded(line).outcome for line in lines.values())
        assert (outcomes["succeeded"], outcomes.total()) == (kept, 10 if told else kept)


def test_fault_files_are_toml_or_json(tmp_path: Path) -> None:
    expected = (Fault(on="row", action="error", provider="groq", match="7", status=503),)
    toml, listed = tmp_path / "faults.toml", tmp_path / "faults.json"
    toml.write_text('[[faults]]\non = "row"\naction = "error"\nprovider = "groq"\nmatch = "7"\nstatus = 503\n')
    listed.write_text(json.dumps([{"on": "row", "action": "error", "provider": "groq", "match": "7", "status": 503}]))
    assert load_faults(toml) == load_faults(listed) == expected
    with pytest.raises(ValueError, match=r"none\.toml"):
        load_faults(tmp_path / "none.toml")


@pytest.mark.parametrize(("text", "word"), [
    ('[{"on": "row", "action": "drop"}]', "drop"),
    ('[{"on": "row", "action": "error", "sometimes": 1}]', "sometimes"),
    ('[{"on": "row", "action": "error", "match": "("}]', "regular expression"),
    ('[{"on": "row", "action": "error", "provider": "acme"}]', "acme"),
    ('[{"on": "row"}]', "faults[0].action"),
    ('[{"on": "row", "action": "error"}, {"on": "rwo", "action": "error"}]', "faults[1]"),
    ('[{"on": "batch", "action": "expire", "share": 2}]', "faults[0].share"),
    ('{"fault": []}', "'fault'"), ("{", "faults.json"), ("3", "faults.json"),
])  # fmt: skip
def test_a_bad_fault_file_is_a_value_error_that_says_where(text: str, word: str, tmp_path: Path) -> None:
    path = tmp_path / "faults.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"faults\.json") as refused:
        load_faults(path)
    assert word in str(refused.value)
