"""Batches of every provider pass through their documented states, are answered once, and survive a restart."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from layton_batch.sandbox import Fault, load_faults
from tests.support.sandbox_clients import (
    GRADE,
    JPEG,
    MODELS,
    bench,
    client,
    each_family,
    row,
    whole_row,
)

KEYS = [f"k-{number}" for number in range(10)]


SHAPED = ("validating", "in_progress", "finalizing", "completed")
WORDS = {
    **dict.fromkeys(("openai", "groq", "doubleword"), SHAPED),
    "anthropic": ("in_progress", "in_progress", "in_progress", "ended"),
    "gemini": ("BATCH_STATE_PENDING", "BATCH_STATE_RUNNING", "BATCH_STATE_RUNNING", "BATCH_STATE_SUCCEEDED"),
    "mistral": ("QUEUED", "RUNNING", "RUNNING", "SUCCESS"),
    "together": ("VALIDATING", "IN_PROGRESS", "IN_PROGRESS", "COMPLETED"),
}
TEXT = 'quote " backslash \\ line\u2028sep \u0000 nul \U0001f9e9 \r\n end'


@each_family
def test_a_batch_passes_through_its_documented_states_and_a_restart_and_answers_every_row_once(
    provider: str, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    with bench(state=state) as b, client(provider, b, tmp_path) as sent:
        batch = sent.submit([*(row(provider, key, f"{TEXT} {key}") for key in KEYS), whole_row(provider, "whole")])
        states = [sent.status(batch)]
        b.clock.forward(3)
        states.append(sent.status(batch))
        assert b.echo.asked == []  # at the first look after the end, and only then
    with bench(state=state) as b, client(provider, b, tmp_path) as sent:
        for seconds in (9.5, 2):
            b.clock.forward(seconds)
            states.append(sent.status(batch))
        lines = sent.lines(batch)
        asked = {question.custom_id: question for question in b.echo.asked}
        assert {row.times_billed for row in b.sandbox.ledger().rows} == {1}
    assert tuple(states) == WORDS[provider]
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


def test_fault_files_are_toml_or_json(tmp_path: Path) -> None:
    expected = (Fault(on="row", action="error", provider="groq", match="7", status=503),)
    toml, listed = tmp_path / "faults.toml", tmp_path / "faults.json"
    toml.write_text('[[faults]]\non = "row"\naction = "error"\nprovider = "groq"\nmatch = "7"\nstatus = 503\n')
    listed.write_text(json.dumps([{"on": "row", "action": "error", "provider": "groq", "match": "7", "status": 503}]))
    assert load_faults(toml) == load_faults(listed) == expected
    with pytest.raises(ValueError, match=r"none\.toml"):
        load_faults(tmp_path / "none.toml")
