"""Injected faults do to a client what the fault file says, as often as it says, and the bill stays true."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from layton_batch.sandbox import Fault, load_faults
from tests.support.sandbox_clients import PROVIDERS, bench, driver, each_family, row, rows_of
from tests.support.tiers import tiered

KEYS = [f"k-{number}" for number in range(10)]


def run(provider, tmp_path, *faults):
    """Submit ten rows, go past the end, and return (output, error, rows billed)."""
    with bench(*faults) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, key) for key in KEYS])
        b.end()
        output, error = sdk.results(batch)
        return output, error, b.sandbox.ledger().rows_billed


def ids(data):
    return sorted(line.get("key", line.get("custom_id")) for line in rows_of(data))


@each_family
def test_a_create_dropped_before_it_ran_made_nothing_and_one_whose_reply_is_lost_made_the_batch(provider, tmp_path):
    faults = (
        Fault(on="create", action="drop", provider=provider, times=1),
        Fault(on="create", action="drop_after", provider=provider, after=1, times=1),
    )
    with bench(*faults) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        for number in range(2):
            with pytest.raises(Exception, match=r"(?i)connection|disconnected"):
                sdk.submit([row(provider, "a")], name=f"{number}.jsonl")
            assert len(sdk.listed()) == number
        assert b.sandbox.request_counts()[provider]["create"] == 2
        assert sdk.submit([row(provider, "a")], name="again.jsonl") in sdk.listed()


@each_family
def test_status_faults_reach_the_sdk_as_the_providers_own_errors(provider, tmp_path):
    fault = Fault(on="poll", action="status", status=500, name="upstream is down", times=1)
    with bench(fault) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, "a")])
        with pytest.raises(Exception, match="upstream is down"):
            sdk.status(batch)
        assert sdk.status(batch)


def test_retry_after_goes_into_the_header(tmp_path):
    import openai

    fault = Fault(on="create", action="status", status=429, retry_after=7)
    with bench(fault) as b, driver("openai", b.sandbox, tmp_path) as sdk:
        with pytest.raises(openai.RateLimitError) as refused:
            sdk.submit([row("openai", "a")])
        assert refused.value.response.headers["retry-after"] == "7"


def test_the_stainless_sdks_default_retries_create_more_than_once(tmp_path):
    fault = Fault(on="create", action="drop_after", times=1)
    with bench(fault) as b, driver("openai", b.sandbox, tmp_path) as sdk:
        sdk.client.max_retries = 2
        sdk.submit([row("openai", "a")])
        assert len(sdk.listed()) == 2, "the lost reply was repeated, and that is a second batch"


def test_after_and_times_choose_the_occasions_and_match_the_calls(tmp_path):
    fault = Fault(on="poll", action="status", status=404, after=1, times=2, match="batch_")
    with bench(fault) as b, driver("openai", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row("openai", "a")])
        seen = []
        for _ in range(5):
            try:
                sdk.status(batch)
                seen.append(200)
            except Exception as error:
                seen.append(error.status_code)
        assert seen == [200, 404, 404, 200, 200]


def test_a_fault_of_one_provider_leaves_the_others_alone(tmp_path):
    fault = Fault(on="poll", action="status", provider="groq")
    with bench(fault) as b, driver("openai", b.sandbox, tmp_path) as sdk:
        assert sdk.status(sdk.submit([row("openai", "a")])) == "validating"


def test_a_reply_that_is_not_json_and_one_that_is_late(tmp_path):
    import httpx

    faults = (Fault(on="list", action="not_json", times=1), Fault(on="poll", action="delay", seconds=0.05))
    with bench(*faults) as b, driver("openai", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row("openai", "a")])
        reply = httpx.get(f"{b.sandbox.url}/openai/v1/batches", headers={"Authorization": "Bearer k"})
        assert (reply.status_code, reply.text[:6]) == (200, "<html>")
        assert sdk.status(batch) == "validating"


@each_family
def test_results_end_inside_a_line_or_at_the_end_of_one_or_break_off_and_come_whole_the_next_time(provider, tmp_path):
    faults = (
        Fault(on="results", action="truncate", share=0.55, times=1),
        Fault(on="results", action="short", share=0.55, after=1, times=1),
        Fault(on="results", action="cut", after=2, times=1),
    )
    with bench(*faults) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, key, "x" * 5000) for key in KEYS])
        b.end()
        truncated, _ = sdk.results(batch)
        short, _ = sdk.results(batch)
        with pytest.raises(Exception, match=r"(?i)incomplete|closed|connection"):
            sdk.results(batch)
        whole, _ = sdk.results(batch)
        assert b.sandbox.ledger().rows_billed == 10
    lines = truncated.split(b"\n")
    assert 1 < len(lines) < 10
    with pytest.raises(json.JSONDecodeError):
        json.loads(lines[-1])
    assert short.endswith(b"\n")  # nothing shows that rows are missing
    assert len(rows_of(short)) == 5
    assert set(ids(short)) < set(KEYS)
    assert ids(whole) == KEYS


@each_family
def test_a_fault_of_a_row_costs_that_row_and_the_bill_stays_true(provider, tmp_path):
    faults = (
        Fault(on="row", action="error", status=500, match="k-0"),
        Fault(on="row", action="missing", match="k-[12]"),
        Fault(on="row", action="duplicate", match="k-3"),
        Fault(on="row", action="unknown_id", match="k-4"),
        Fault(on="row", action="malformed_line", match="k-5"),
    )
    output, error, billed = run(provider, tmp_path, *faults)
    assert billed == 7  # all but the one that failed and the two that are missing
    whole = [line for line in output.splitlines() if is_json(line)]
    assert len(whole) == len(output.splitlines()) - 1
    names = ids(b"\n".join(whole))
    if provider in ("anthropic", "gemini"):
        bad = next(line for line in map(json.loads, whole) if line.get("key", line.get("custom_id")) == "k-0")
        names.remove("k-0")
        assert error == b""
        told = bad["result"]["error"]["error"]["type"] if provider == "anthropic" else bad["error"]["code"]
        assert told in ("api_error", 500)
    else:
        assert ids(error) == ["k-0"]
    (stranger,) = set(names) - set(KEYS)
    names.remove(stranger)
    assert names == ["k-3", "k-3", "k-4", "k-6", "k-7", "k-8", "k-9"]
    twins = [line for line in whole if b'"k-3"' in line]
    assert sum(b"(once more)" in twin for twin in twins) == 1


def is_json(line):
    try:
        json.loads(line)
    except json.JSONDecodeError:
        return False
    return True


@pytest.mark.parametrize(
    ("action", "word"), [("malformed_text", "{"), ("truncated", "length"), ("refused", "I cannot help with this.")]
)
def test_bent_replies_are_still_billed(action, word, tmp_path):
    output, _, billed = run("openai", tmp_path, Fault(on="row", action=action))
    assert billed == 10
    for line in rows_of(output):
        choice = line["response"]["body"]["choices"][0]
        assert word in json.dumps(choice)
        if action == "malformed_text":
            with pytest.raises(json.JSONDecodeError):
                json.loads(choice["message"]["content"])


FATES = {
    "openai": ("failed", "expired", "cancelled"),
    "groq": ("failed", "expired", "cancelled"),
    "doubleword": ("failed", "expired", "cancelled"),
    "anthropic": ("ended", "ended", "ended"),
    "gemini": ("JOB_STATE_FAILED", "JOB_STATE_EXPIRED", "JOB_STATE_CANCELLED"),
    "mistral": ("FAILED", "TIMEOUT_EXCEEDED", "CANCELLED"),
    "together": ("FAILED", "EXPIRED", "CANCELLED"),
}


@each_family
def test_a_batch_can_be_made_to_end_badly_and_keeps_what_its_provider_keeps(provider, tmp_path):
    actions = ("fail", "expire", "cancel")
    faults = (Fault(on="batch", action=action, share=0.4, match=f"{action}-0") for action in actions)
    with bench(*faults) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batches = {
            action: sdk.submit([row(provider, f"{action}-{number}") for number in range(10)], name=f"{action}.jsonl")
            for action in (*actions, "spared")
        }
        b.end()
        ends = {action: (sdk.status(batch), *sdk.results(batch)) for action, batch in batches.items()}
        billed = Counter(line.custom_id.partition("-")[0] for line in b.sandbox.ledger().rows)
    assert billed["spared"] == 10
    for action, fate in zip(actions, FATES[provider], strict=True):
        status, output, error = ends[action]
        kept = 0 if action == "fail" or provider == "gemini" else 4
        assert (status, billed[action]) == (fate, kept)
        if provider == "anthropic":
            word = {"fail": "errored", "expire": "expired", "cancel": "canceled"}[action]
            kinds = [line["result"]["type"] for line in rows_of(output)]
            assert (kinds.count("succeeded"), kinds.count(word)) == (kept, 10 - kept)
            continue
        lapsed = 6 if provider in ("openai", "groq", "doubleword") and action != "fail" else 0
        assert (len(rows_of(output)), len(rows_of(error))) == (kept, lapsed)


@pytest.mark.parametrize(
    "provider", tiered((name for name in PROVIDERS if name != "gemini"), ci=("openai", "anthropic", "mistral"))
)
def test_an_unknown_status_is_shown_as_it_is_and_can_pass(provider, tmp_path):
    fault = Fault(on="batch", action="unknown_status", name="meditating", seconds=3)
    with bench(fault) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, "a")])
        b.clock.forward(3)
        assert sdk.status(batch) == "meditating"
        b.end()
        assert ids(sdk.results(batch)[0]) == ["a"]


def test_an_unknown_gemini_state_makes_the_sdk_warn(tmp_path):
    fault = Fault(on="batch", action="unknown_status", name="BATCH_STATE_MEDITATING")
    with bench(fault) as b, driver("gemini", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row("gemini", "a")])
        b.end()
        with pytest.warns(UserWarning, match="MEDITATING"):
            assert "MEDITATING" in sdk.status(batch)


@each_family
def test_a_stuck_batch_runs_until_it_is_cancelled(provider, tmp_path):
    with bench(Fault(on="batch", action="stuck")) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, "a")])
        b.clock.forward(10_000)
        running = sdk.status(batch)
        sdk.cancel(batch)
        b.clock.forward(3)
        assert sdk.status(batch) not in (running, FATES[provider][0]) or provider == "anthropic"


def test_a_broken_answerer_costs_its_rows_and_not_the_server(tmp_path):
    class Broken:
        def answer(self, question):
            raise KeyError(question.custom_id)

    with bench(answerer=Broken()) as b, driver("openai", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row("openai", "a")])
        b.end()
        (line,) = rows_of(sdk.results(batch)[1])
        assert line["response"]["status_code"] == 500
        assert line["response"]["body"]["error"]["code"] == "sandbox_answerer"


def test_fault_files_are_toml_or_json_and_their_mistakes_are_named(tmp_path):
    expected = (Fault(on="row", action="error", provider="groq", match="7", status=503),)
    toml = tmp_path / "faults.toml"
    toml.write_text('[[faults]]\non = "row"\naction = "error"\nprovider = "groq"\nmatch = "7"\nstatus = 503\n')
    assert load_faults(toml) == expected
    listed = tmp_path / "faults.json"
    listed.write_text(json.dumps([{"on": "row", "action": "error", "provider": "groq", "match": "7", "status": 503}]))
    assert load_faults(listed) == expected


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ('[{"on": "row", "action": "drop"}]', "drop"),
        ('[{"on": "lunch", "action": "drop"}]', "lunch"),
        ('[{"on": "row", "action": "error", "sometimes": 1}]', "sometimes"),
        ('[{"on": "row", "action": "error", "match": "("}]', "regular expression"),
        ('[{"on": "row", "action": "error", "provider": "acme"}]', "acme"),
        ('[{"on": "batch", "action": "unknown_status"}]', "name"),
        ('[{"on": "batch", "action": "expire", "share": 2}]', "share"),
        ('[{"on": "row"}]', "faults[0].action: is missing"),
        ('[{"on": "row", "action": "error"}, {"on": "rwo", "action": "error"}]', "faults[1]: on = 'rwo' is not one of"),
        (
            '[{"on": "row", "action": "error", "tiems": 2}]',
            "faults[0]: unknown key 'tiems'; known keys are action, after,",
        ),
        ('[{"on": "row", "action": "error", "times": "two"}]', "faults[0].times: Input should be a valid integer"),
        ('{"fault": []}', "unknown key 'fault'; known keys are faults"),
        ('{"name": "a", "models": []}', "a file of faults has tables [[faults]]: unknown key 'name'"),
        ("{}", "has no tables [[faults]]"),
        ("{", "faults.json"),
        ("3", "faults.json"),
    ],
)
def test_a_bad_fault_file_is_a_value_error_that_says_why(text, word, tmp_path):
    path = tmp_path / "faults.json"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"faults\.json") as refused:
        load_faults(path)
    assert word in str(refused.value)
    assert "validation error" not in str(refused.value)


def test_a_fault_file_that_is_not_there_is_said_to_be_unreadable(tmp_path):
    with pytest.raises(ValueError, match=r"none\.toml: cannot be read \(No such file or directory\)"):
        load_faults(tmp_path / "none.toml")
