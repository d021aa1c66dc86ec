"""Every provider's real SDK takes a batch through its whole life on the sandbox."""

from __future__ import annotations

import json
import urllib.request

import pytest

from tests.support.sandbox_clients import MODELS, PROVIDERS, bench, driver, each_family, row, rows_of

KEYS = [f"k-{number}" for number in range(7)]
SEEN = {
    "openai": ["validating", "in_progress", "finalizing", "completed"],
    "groq": ["validating", "in_progress", "finalizing", "completed"],
    "doubleword": ["validating", "in_progress", "finalizing", "completed"],
    "anthropic": ["in_progress", "in_progress", "in_progress", "ended"],
    "gemini": ["JOB_STATE_PENDING", "JOB_STATE_RUNNING", "JOB_STATE_RUNNING", "JOB_STATE_SUCCEEDED"],
    "mistral": ["QUEUED", "RUNNING", "RUNNING", "SUCCESS"],
    "together": ["VALIDATING", "IN_PROGRESS", "IN_PROGRESS", "COMPLETED"],
}
CANCELLED = {
    "openai": ["cancelling", "cancelled"],
    "groq": ["cancelling", "cancelled"],
    "doubleword": ["cancelling", "cancelled"],
    "anthropic": ["canceling", "ended"],
    "gemini": ["JOB_STATE_RUNNING", "JOB_STATE_CANCELLED"],
    "mistral": ["CANCELLATION_REQUESTED", "CANCELLED"],
    "together": ["CANCELING", "CANCELLED"],
}


def key_of(line: dict[str, object]) -> object:
    return line["key"] if "key" in line else line["custom_id"]


@pytest.mark.parametrize("provider", PROVIDERS)
def test_a_batch_passes_through_its_documented_states_and_answers_every_row_once(provider, tmp_path):
    with bench() as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, key, f"question {key}") for key in KEYS])
        states = [sdk.status(batch)]
        for seconds in (3, 6.5, 2):
            b.clock.forward(seconds)
            states.append(sdk.status(batch))
        output, error = sdk.results(batch)
    assert states == SEEN[provider]
    assert error == b""
    found = [key_of(line) for line in rows_of(output)]
    assert sorted(found) == KEYS
    assert found != KEYS, "results come in another order than the questions"
    assert all(f"question {key_of(line)}" in json.dumps(line) for line in rows_of(output))


@each_family
def test_rows_are_answered_at_the_first_look_after_the_end_and_only_then(provider, tmp_path):
    with bench() as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, key) for key in KEYS])
        b.clock.forward(1)
        sdk.status(batch)
        assert b.echo.asked == []
        b.end()
        sdk.status(batch)
        sdk.status(batch)
        assert len(b.echo.asked) == len(KEYS)
        assert {question.provider for question in b.echo.asked} == {provider}
        assert {question.model for question in b.echo.asked} == {MODELS[provider]}


@each_family
def test_a_cancelled_batch_bills_only_the_rows_it_ran(provider, tmp_path):
    with bench() as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, key) for key in KEYS])
        b.clock.forward(6)
        sdk.cancel(batch)
        states = [sdk.status(batch)]
        b.clock.forward(3)
        states.append(sdk.status(batch))
        output, error = sdk.results(batch)
        billed = b.sandbox.ledger().rows_billed
    kept = 0 if provider == "gemini" else 3
    assert states == CANCELLED[provider]
    assert billed == kept
    if provider == "anthropic":
        kinds = sorted(line["result"]["type"] for line in rows_of(output))
        assert kinds == ["canceled"] * 4 + ["succeeded"] * 3
        return
    assert len(rows_of(output)) == kept
    lapsed = rows_of(error)
    if provider in ("openai", "groq", "doubleword"):
        assert {line["error"]["code"] for line in lapsed} == {"batch_cancelled"}
        assert all(line["response"] is None for line in lapsed)
    assert len(lapsed) == (4 if provider in ("openai", "groq", "doubleword") else 0)


@each_family
def test_listings_show_every_batch_newest_first_over_all_pages(provider, tmp_path):
    with bench() as b, driver(provider, b.sandbox, tmp_path) as sdk:
        made = []
        for number in range(5):
            made.append(sdk.submit([row(provider, f"n{number}", f"batch {number}")], name=f"shard-{number}.jsonl"))
            b.clock.forward(0.1)
        assert sdk.listed() == made[::-1]


@each_family
def test_a_sandbox_started_again_on_its_folder_goes_on_where_it_was(provider, tmp_path):
    state = tmp_path / "state"
    with bench(state=state) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        done = sdk.submit([row(provider, "first", "one")])
        b.end()
        sdk.status(done)
        before = b.sandbox.ledger()
        running = sdk.submit([row(provider, "second", "two")], name="other.jsonl")
        now = b.clock.now
    with bench(state=state) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        b.clock.forward(now - b.clock.now)
        assert b.sandbox.ledger() == before
        assert sdk.status(running) == SEEN[provider][0]
        b.end()
        assert sdk.status(running) == SEEN[provider][-1]
        assert len(rows_of(sdk.results(done)[0])) == 1
        assert len(rows_of(sdk.results(running)[0])) == 1
        assert [row.times_billed for row in b.sandbox.ledger().rows] == [1, 1]


def test_the_tags_that_find_an_orphan_again_are_echoed(tmp_path):
    with bench() as b:
        with driver("openai", b.sandbox, tmp_path) as sdk:
            sdk.submit([row("openai", "a")], name="run7-0.jsonl", tag="run7")
            listed = next(iter(sdk.client.batches.list()))
            files = list(sdk.client.files.list(purpose="batch"))
            assert listed.metadata == {"tag": "run7"}
            assert [(f.id, f.filename) for f in files] == [(listed.input_file_id, "run7-0.jsonl")]
        with driver("gemini", b.sandbox, tmp_path) as sdk:
            sdk.submit([row("gemini", "a")], tag="run7")
            assert next(iter(sdk.client.batches.list())).display_name == "run7"
        with driver("mistral", b.sandbox, tmp_path) as sdk:
            sdk.submit([row("mistral", "a")], name="run7-0.jsonl", tag="run7")
            job = sdk.client.batch.jobs.list().data[0]
            found = sdk.client.files.list(search="run7-0", purpose="batch").data
            assert job.metadata == {"tag": "run7"}
            assert job.input_files == [found[0].id]
        with driver("together", b.sandbox, tmp_path) as sdk:
            file_id = sdk.upload([row("together", "a")])
            sdk.create(file_id)
            assert sdk.client.batches.list()[0].input_file_id == file_id
        with driver("groq", b.sandbox, tmp_path) as sdk:
            sdk.submit([row("groq", "a")], tag="run7")
            assert sdk.client.batches.list().data[0].metadata == {"tag": "run7"}


def test_anthropic_counts_stay_in_processing_until_the_end(tmp_path):
    with bench() as b, driver("anthropic", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row("anthropic", key) for key in KEYS])
        b.clock.forward(8)
        running = sdk.get(batch)
        b.end()
        ended = sdk.get(batch)
    assert (running.request_counts.processing, running.request_counts.succeeded) == (7, 0)
    assert running.results_url is None
    assert (ended.request_counts.processing, ended.request_counts.succeeded) == (0, 7)
    assert ended.results_url.startswith(b.sandbox.url + "/anthropic/")


def test_anthropic_results_are_typed_rows_and_absent_before_the_end(tmp_path):
    import anthropic

    with bench() as b, driver("anthropic", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row("anthropic", "a", "hello")])
        with pytest.raises(anthropic.AnthropicError):
            sdk.client.messages.batches.results(batch)
        b.end()
        (only,) = list(sdk.client.messages.batches.results(batch))
        assert only.result.type == "succeeded"
        assert sdk.client.messages.batches.delete(batch).id == batch
        with pytest.raises(anthropic.NotFoundError):
            sdk.get(batch)


def test_gemini_counts_are_strings_and_inline_requests_come_back_inline(tmp_path):
    with bench() as b, driver("gemini", b.sandbox, tmp_path) as sdk:
        inline = sdk.client.batches.create(
            model=MODELS["gemini"],
            src=[{"contents": [{"role": "user", "parts": [{"text": "hi"}]}], "metadata": {"key": "k1"}}],
        )
        b.end()
        job = sdk.get(inline.name)
        assert job.dest.inlined_responses[0].metadata == {"key": "k1"}
        raw = json.loads(fetch(f"{b.sandbox.url}/gemini/v1beta/{inline.name}", {"x-goog-api-key": "k"}))
    assert raw["metadata"]["batchStats"] == {"requestCount": "1", "successfulRequestCount": "1"}
    assert raw["response"] == raw["metadata"]["output"]


def test_gemini_files_can_be_named_and_output_files_only_downloaded(tmp_path):
    from google.genai import errors

    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(row("gemini", "a")) + "\n", encoding="utf-8")
    config = {"name": "files/run7-shard0", "mime_type": "application/jsonl"}
    with bench() as b, driver("gemini", b.sandbox, tmp_path) as sdk:
        uploaded = sdk.client.files.upload(file=path, config=config)
        with pytest.raises(errors.ClientError, match="already exists"):
            sdk.client.files.upload(file=path, config=config)
        assert sdk.client.files.get(name="files/run7-shard0").size_bytes == uploaded.size_bytes
        job = sdk.client.batches.create(model=MODELS["gemini"], src=uploaded.name)
        b.end()
        output = sdk.get(job.name).dest.file_name
        with pytest.raises(errors.ClientError) as refused:
            sdk.client.files.get(name=output)
        assert refused.value.code == 400
        target = tmp_path / "out.jsonl"
        sdk.client.files.download(file=output, destination=str(target))
        assert rows_of(target.read_bytes())[0]["key"] == "a"
        sdk.client.files.delete(name=uploaded.name)
        with pytest.raises(errors.ClientError) as twice:
            sdk.client.files.delete(name=uploaded.name)
        assert twice.value.code == 403


def test_a_large_gemini_upload_arrives_in_chunks(tmp_path):
    rows = [row("gemini", f"k{number}", "x" * 1_000_000) for number in range(18)]
    with bench() as b, driver("gemini", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit(rows)
        assert b.sandbox.request_counts()["gemini"]["upload"] == 4
        b.end()
        assert len(rows_of(sdk.results(batch)[0])) == 18


def test_doubleword_results_can_be_read_while_the_batch_runs(tmp_path):
    with bench() as b, driver("doubleword", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row("doubleword", key) for key in KEYS])
        assert sdk.get(batch).output_file_id is None
        b.clock.forward(6)
        early = sdk.get(batch)
        assert early.status == "in_progress"
        assert early.output_file_id
        url = f"{b.sandbox.url}/doubleword/v1/files/{early.output_file_id}/content"
        head, partial = fetch_all(url)
        assert (head["X-Incomplete"], head["X-Last-Line"], len(rows_of(partial))) == ("true", "3", 3)
        assert b.sandbox.ledger().rows_billed == 3
        b.end()
        head, rest = fetch_all(url + "?offset=3&limit=2")
        assert (head["X-Incomplete"], head["X-Last-Line"], len(rows_of(rest))) == ("false", "5", 2)
        head, whole = fetch_all(url)
        assert (head["X-Last-Line"], whole[: len(partial)]) == ("7", partial)
        assert b.sandbox.ledger().rows_billed == 7


def test_together_uploads_are_idempotent_by_content(tmp_path):
    with bench() as b, driver("together", b.sandbox, tmp_path) as sdk:
        first = sdk.upload([row("together", "a")], "one.jsonl")
        again = sdk.upload([row("together", "a")], "two.jsonl")
        other = sdk.upload([row("together", "b")], "three.jsonl")
        assert first == again != other
        assert b.sandbox.request_counts()["together"]["put"] == 2


def test_together_takes_the_older_multipart_upload_too(tmp_path):
    import httpx

    data = {"purpose": "batch-api", "file_name": "x.jsonl", "file_type": "jsonl"}
    with bench() as b:
        reply = httpx.post(
            f"{b.sandbox.url}/together/v1/files/upload",
            headers={"Authorization": "Bearer k"},
            data=data,
            files={"file": ("x.jsonl", json.dumps(row("together", "a")).encode())},
        )
        assert reply.status_code == 200
        assert reply.json()["filename"] == "x.jsonl"


def test_mistral_takes_inline_requests_several_files_and_gives_results_inline(tmp_path):
    with bench() as b, driver("mistral", b.sandbox, tmp_path) as sdk:
        files = [sdk.upload([row("mistral", key)]) for key in ("a", "b")]
        jobs = sdk.client.batch.jobs
        both = jobs.create(endpoint="/v1/chat/completions", input_files=files, model=MODELS["mistral"])
        inline = jobs.create(endpoint="/v1/chat/completions", requests=[row("mistral", "c")], model=MODELS["mistral"])
        b.end()
        assert sorted(line["custom_id"] for line in jobs.get(job_id=both.id, inline=True).outputs) == ["a", "b"]
        assert [line["custom_id"] for line in jobs.get(job_id=inline.id, inline=True).outputs] == ["c"]
        signed = sdk.client.files.get_signed_url(file_id=jobs.get(job_id=inline.id).output_file).url
        assert rows_of(fetch(signed, {}))[0]["custom_id"] == "c"


def test_openai_responses_batches_run_beside_chat_ones(tmp_path):
    body = {"model": MODELS["openai"], "instructions": "Be brief.", "input": [{"role": "user", "content": "hi"}]}
    line = {"custom_id": "a", "method": "POST", "url": "/v1/responses", "body": body}
    with bench() as b, driver("openai", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([line], endpoint="/v1/responses")
        b.end()
        (found,) = rows_of(sdk.results(batch)[0])
        assert found["response"]["body"]["output"][-1]["content"][0]["text"] == '{"echo": "hi"}'
        assert sdk.get(batch).usage.output_tokens_details.reasoning_tokens == 10


def fetch_all(url: str):
    request = urllib.request.Request(url, headers={"Authorization": "Bearer k"})
    with urllib.request.urlopen(request, timeout=10) as reply:
        return reply.headers, reply.read()


def fetch(url: str, headers: dict[str, str]) -> bytes:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=10) as reply:
        return reply.read()
