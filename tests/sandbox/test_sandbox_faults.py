"""Injected faults do to a client what the fault file says, as often as it says, and the bill stays true."""

from __future__ import annotations

import json

import pytest

from layton_batch.sandbox import Fault, load_faults
from tests.support.sandbox_clients import PROVIDERS, bench, driver, row, rows_of

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


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_create_whose_reply_is_lost_has_still_made_the_batch(provider, tmp_path):
    fault = Fault(on="create", action="drop_after", provider=provider, times=1)
    with bench(fault) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        with pytest.raises(Exception, match=r"(?i)connection|disconnected"):
            sdk.submit([row(provider, "a")])
        assert len(sdk.listed()) == 1
        assert b.sandbox.request_counts()[provider]["create"] == 1


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_create_dropped_before_it_ran_has_made_nothing(provider, tmp_path):
    fault = Fault(on="create", action="drop", provider=provider, times=1)
    with bench(fault) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        with pytest.raises(Exception, match=r"(?i)connection|disconnected"):
            sdk.submit([row(provider, "a")])
        assert sdk.listed() == []
        assert sdk.submit([row(provider, "a")], name="again.jsonl") in sdk.listed()


@pytest.mark.parametrize("provider", PROVIDERS)
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


@pytest.mark.parametrize("provider", PROVIDERS)
def test_truncated_results_end_inside_a_line(provider, tmp_path):
    output, _, billed = run(provider, tmp_path, Fault(on="results", action="truncate", share=0.55, times=1))
    lines = output.split(b"\n")
    assert 1 < len(lines) < 10
    with pytest.raises(json.JSONDecodeError):
        json.loads(lines[-1])
    assert billed == 10


@pytest.mark.parametrize("provider", PROVIDERS)
def test_short_results_end_at_the_end_of_a_line_and_nothing_shows_it(provider, tmp_path):
    output, _, billed = run(provider, tmp_path, Fault(on="results", action="short", share=0.55, times=1))
    assert output.endswith(b"\n")
    assert len(rows_of(output)) == 5
    assert set(ids(output)) < set(KEYS)
    assert billed == 10


@pytest.mark.parametrize("provider", PROVIDERS)
def test_cut_results_break_the_transfer(provider, tmp_path):
    fault = Fault(on="results", action="cut", times=1)
    with bench(fault) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, key, "x" * 5000) for key in KEYS])
        b.end()
        with pytest.raises(Exception, match=r"(?i)incomplete|closed|connection"):
            sdk.results(batch)
        assert ids(sdk.results(batch)[0]) == KEYS


@pytest.mark.parametrize("provider", PROVIDERS)
def test_row_errors_are_rows_in_the_providers_form_and_are_not_billed(provider, tmp_path):
    output, error, billed = run(provider, tmp_path, Fault(on="row", action="error", status=500, match="k-3"))
    assert billed == 9
    if provider == "anthropic":
        bad = next(line for line in rows_of(output) if line["custom_id"] == "k-3")
        assert bad["result"]["error"]["error"]["type"] == "api_error"
    elif provider == "gemini":
        assert next(line for line in rows_of(output) if line["key"] == "k-3")["error"]["code"] == 500
    else:
        assert ids(error) == ["k-3"]
        assert "k-3" not in ids(output)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_missing_rows_are_in_no_file_and_on_no_bill(provider, tmp_path):
    output, error, billed = run(provider, tmp_path, Fault(on="row", action="missing", match="k-[12]"))
    assert (len(ids(output)), error, billed) == (8, b"", 8)


@pytest.mark.parametrize("provider", PROVIDERS)
def test_duplicate_rows_differ_and_are_billed_once(provider, tmp_path):
    output, _, billed = run(provider, tmp_path, Fault(on="row", action="duplicate", match="k-4"))
    assert ids(output) == sorted([*KEYS, "k-4"])
    twins = [json.dumps(line) for line in rows_of(output) if line.get("key", line.get("custom_id")) == "k-4"]
    assert sum("(once more)" in twin for twin in twins) == 1
    assert billed == 10


@pytest.mark.parametrize("provider", PROVIDERS)
def test_unknown_ids_come_on_top_of_the_row(provider, tmp_path):
    output, _, billed = run(provider, tmp_path, Fault(on="row", action="unknown_id", times=1))
    strangers = set(ids(output)) - set(KEYS)
    assert set(KEYS) < set(ids(output))
    assert len(strangers) == 1
    assert billed == 10


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_malformed_line_costs_one_line_and_is_billed(provider, tmp_path):
    output, _, billed = run(provider, tmp_path, Fault(on="row", action="malformed_line", times=1))
    broken = 0
    for line in output.splitlines():
        try:
            json.loads(line)
        except json.JSONDecodeError:
            broken += 1
    assert (broken, len(output.splitlines()), billed) == (1, 10, 10)


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


@pytest.mark.parametrize("provider", PROVIDERS)
@pytest.mark.parametrize(("place", "action"), [(0, "fail"), (1, "expire"), (2, "cancel")])
def test_a_batch_can_be_made_to_end_badly_and_keeps_what_its_provider_keeps(provider, place, action, tmp_path):
    fault = Fault(on="batch", action=action, share=0.4)
    with bench(fault) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, key) for key in KEYS])
        b.end()
        assert sdk.status(batch) == FATES[provider][place]
        output, error = sdk.results(batch)
        billed = b.sandbox.ledger().rows_billed
    kept = 0 if action == "fail" or provider == "gemini" else 4
    assert billed == kept
    if provider == "anthropic":
        word = {"fail": "errored", "expire": "expired", "cancel": "canceled"}[action]
        kinds = [line["result"]["type"] for line in rows_of(output)]
        assert (kinds.count("succeeded"), kinds.count(word)) == (kept, 10 - kept)
        return
    assert len(rows_of(output)) == kept
    lapsed = 6 if provider in ("openai", "groq", "doubleword") and action != "fail" else 0
    assert len(rows_of(error)) == lapsed


@pytest.mark.parametrize("provider", [name for name in PROVIDERS if name != "gemini"])
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


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_stuck_batch_runs_until_it_is_cancelled(provider, tmp_path):
    with bench(Fault(on="batch", action="stuck")) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, "a")])
        b.clock.forward(10_000)
        running = sdk.status(batch)
        sdk.cancel(batch)
        b.clock.forward(3)
        assert sdk.status(batch) not in (running, FATES[provider][0]) or provider == "anthropic"


@pytest.mark.parametrize("provider", PROVIDERS)
def test_batch_faults_can_be_aimed_at_custom_ids(provider, tmp_path):
    with bench(Fault(on="batch", action="fail", match="aimed-1")) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        hit, spared = (sdk.submit([row(provider, key)], name=f"{key}.jsonl") for key in ("aimed-1", "other-1"))
        b.end()
        sdk.status(hit)
        sdk.status(spared)
        assert [line.custom_id for line in b.sandbox.ledger().rows] == ["other-1"]


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
        ('[{"on": "row"}]', "action"),
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
