"""Injected faults do to a client what the fault file says, as often as it says, and the bill stays true."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest

from layton_batch.errors import TransientProviderError, UnknownStatusError
from layton_batch.sandbox import Fault, load_faults
from tests.support.sandbox_clients import bench, client, each_family, key_of, row

KEYS = [f"k-{number}" for number in range(10)]
SHAPED = ("openai", "groq", "doubleword")


def ids(data: bytes) -> list[str]:
    return sorted(key_of(json.loads(line)) for line in data.splitlines())


# ---- HTTP calls ------------------------------------------------------------------------------------------------------


@each_family
def test_results_end_inside_a_line_or_at_the_end_of_one_or_break_off_and_come_whole_the_next_time(
    provider: str, tmp_path: Path
) -> None:
    faults = (
        Fault(on="results", action="truncate", share=0.55, times=1),
        Fault(on="results", action="short", share=0.55, after=1, times=1),
        Fault(on="results", action="cut", after=2, times=1),
    )
    with bench(*faults) as b, client(provider, b, tmp_path) as sent:
        batch = sent.submit([row(provider, key, "x" * 5000) for key in KEYS])
        b.end()
        (truncated, _), (short, _) = sent.files(batch), sent.files(batch)
        with pytest.raises(TransientProviderError):
            sent.files(batch)
        whole, _ = sent.files(batch)
        assert b.sandbox.ledger().rows_billed == 10
    assert 1 < len(truncated.split(b"\n")) < 10
    with pytest.raises(json.JSONDecodeError):
        json.loads(truncated.split(b"\n")[-1])
    assert short.endswith(b"\n")  # nothing shows that rows are missing
    assert (len(ids(short)), set(ids(short)) < set(KEYS)) == (5, True)
    assert ids(whole) == KEYS


# ---- rows ------------------------------------------------------------------------------------------------------------


def is_json(line: bytes) -> bool:
    try:
        json.loads(line)
    except json.JSONDecodeError:
        return False
    return True


@each_family
def test_a_fault_of_a_row_costs_that_row_and_the_bill_stays_true(provider: str, tmp_path: Path) -> None:
    faults = (
        Fault(on="row", action="error", status=500, match="k-0"),
        Fault(on="row", action="missing", match="k-[12]"),
        Fault(on="row", action="duplicate", match="k-3"),
        Fault(on="row", action="unknown_id", match="k-4"),
        Fault(on="row", action="malformed_line", match="k-5"),
    )
    with bench(*faults) as b, client(provider, b, tmp_path) as sent:
        batch = sent.submit([row(provider, key) for key in KEYS])
        b.end()
        all_lines = b"".join(sent.files(batch)).splitlines()
        assert b.sandbox.ledger().rows_billed == 7  # all but the one that failed and the two that are missing
    whole = [line for line in all_lines if is_json(line)]
    assert len(whole) == len(all_lines) - 1
    names = ids(b"\n".join(whole))
    (stranger,) = set(names) - set(KEYS)
    names.remove(stranger)
    assert names == ["k-0", "k-3", "k-3", "k-4", "k-6", "k-7", "k-8", "k-9"]
    bad = next(line for line in whole if key_of(json.loads(line)) == "k-0")
    assert sent.provider.decode(bad).error_class == "provider_fault"
    assert sum(b"(once more)" in line for line in whole if b'"k-3"' in line) == 1


# ---- batches ---------------------------------------------------------------------------------------------------------

FATES = {
    **dict.fromkeys(SHAPED, ("failed", "expired", "cancelled")),
    "anthropic": ("ended", "ended", "ended"),
    "gemini": ("BATCH_STATE_FAILED", "BATCH_STATE_EXPIRED", "BATCH_STATE_CANCELLED"),
    "mistral": ("FAILED", "TIMEOUT_EXCEEDED", "CANCELLED"),
    "together": ("FAILED", "EXPIRED", "CANCELLED"),
}


@each_family
def test_a_batch_can_be_made_to_end_badly_and_keeps_what_its_provider_keeps(provider: str, tmp_path: Path) -> None:
    actions = ("fail", "expire", "cancel")
    faults = (Fault(on="batch", action=action, share=0.4, match=f"{action}-0") for action in actions)
    with bench(*faults) as b, client(provider, b, tmp_path) as sent:
        batches = {
            action: sent.submit([row(provider, f"{action}-{number}") for number in range(10)], action)
            for action in (*actions, "spared")
        }
        b.end()
        ends = {action: (sent.status(batch), sent.lines(batch)) for action, batch in batches.items()}
        billed = Counter(line.custom_id.partition("-")[0] for line in b.sandbox.ledger().rows)
    assert billed["spared"] == 10
    for action, fate in zip(actions, FATES[provider], strict=True):
        status, lines = ends[action]
        kept = 0 if action == "fail" or provider == "gemini" else 4
        assert (status, billed[action]) == (fate, kept)
        lapsed = 10 - kept if provider == "anthropic" else 6 if provider in SHAPED and action != "fail" else 0
        outcomes = Counter(sent.provider.decode(json.dumps(line).encode()).outcome for line in lines.values())
        assert (outcomes["succeeded"], sum(outcomes.values())) == (kept, kept + lapsed)


@each_family
def test_an_unknown_status_is_shown_as_it_is_and_can_pass_and_a_stuck_batch_runs_until_it_is_cancelled(
    provider: str, tmp_path: Path
) -> None:
    faults = (
        Fault(on="batch", action="unknown_status", name="MEDITATING", seconds=3, match="odd"),
        Fault(on="batch", action="stuck", match="held"),
    )
    with bench(*faults) as b, client(provider, b, tmp_path) as sent:
        odd, held = (sent.submit([row(provider, name)], name) for name in ("odd", "held"))
        b.clock.forward(3)
        with pytest.raises(UnknownStatusError, match="MEDITATING"):
            sent.status(odd)
        b.end()
        assert list(sent.lines(odd)) == ["odd"]
        b.clock.forward(10_000)
        assert sent.look(held).outcome is None
        sent.provider.cancel(held)
        b.clock.forward(3)
        assert sent.look(held).outcome == "cancelled"


# ---- the file --------------------------------------------------------------------------------------------------------


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
