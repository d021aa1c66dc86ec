"""The sandbox refuses what the providers' documents say they refuse, in the form they refuse it in."""

from __future__ import annotations

import copy
import json

import pytest

from layton_batch.sandbox import SandboxLimits
from tests.support.sandbox_clients import GRADE, JPEG, MODELS, bench, driver, each_family, row, rows_of
from tests.support.tiers import tiered

SHAPED = ("openai", "groq", "doubleword")
each_shaped = pytest.mark.parametrize("provider", tiered(SHAPED, ci=("openai",)))


def without(line, name):
    return {key: value for key, value in line.items() if key != name}


def failed(provider, rows, tmp_path, limits=None):
    """The first error of a batch that fails in validation."""
    with bench(limits=limits) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        problem = problem_of(b, sdk, rows)
        assert b.sandbox.ledger().rows_billed == 0
    return problem


def problem_of(b, sdk, rows):
    batch = sdk.submit(rows)
    b.clock.forward(3)
    got = sdk.get(batch)
    assert (got.status, got.output_file_id, got.error_file_id) == ("failed", None, None)
    data = got.errors["data"] if isinstance(got.errors, dict) else getattr(got.errors, "data", got.errors)
    (only,) = data
    return only if isinstance(only, dict) else only.model_dump()


BAD_FILES = [
    ("invalid_json_line", 2, lambda good: [good, b'{"custom_id": "x", ']),
    ("invalid_json_line", 2, lambda good: [good, b"[1, 2]"]),
    ("invalid_json_line", 1, lambda good: [b'\xff\xfe{"a": 1}']),
    ("duplicate_custom_id", 2, lambda good: [good, good]),
    ("missing_required_parameter", 1, lambda good: [without(good, "custom_id")]),
    ("missing_required_parameter", 1, lambda good: [without(good, "method")]),
    ("missing_required_parameter", 1, lambda good: [{**good, "body": {"messages": []}}]),
    ("invalid_url", 1, lambda good: [{**good, "url": "/v1/responses"}]),
    ("streaming_unsupported", 1, lambda good: [{**good, "body": {**good["body"], "stream": True}}]),
    ("empty_file", None, lambda good: []),
]


@each_shaped
def test_a_bad_file_fails_the_whole_batch_with_code_and_line(provider, tmp_path):
    with bench() as b, driver(provider, b.sandbox, tmp_path) as sdk:
        for code, line, rows in BAD_FILES:
            problem = problem_of(b, sdk, rows(row(provider, "a")))
            assert (problem["code"], problem["line"]) == (code, line)
        assert b.sandbox.ledger().rows_billed == 0


def test_one_batch_has_one_model_except_at_groq(tmp_path):
    def two(provider):
        return [row(provider, "a"), row(provider, "b", model="another-model")]

    assert failed("openai", two("openai"), tmp_path)["code"] == "mismatched_model"
    with bench() as b, driver("groq", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit(two("groq"))
        b.end()
        assert sdk.get(batch).request_counts.completed == 2


@pytest.mark.parametrize("limits", [SandboxLimits(rows=1), SandboxLimits(file_bytes=100)])
@each_shaped
def test_too_many_rows_or_bytes_fail_the_batch(provider, limits, tmp_path):
    assert failed(provider, [row(provider, "a"), row(provider, "b")], tmp_path, limits)["code"] == "invalid_request"


def test_doubleword_refuses_a_whole_file_for_one_row_that_is_too_large(tmp_path):
    rows = [row("doubleword", "a"), row("doubleword", "b", user="x" * 1_000)]
    problem = failed("doubleword", rows, tmp_path, SandboxLimits(line_bytes=1_000))
    assert (problem["code"], problem["line"]) == ("invalid_request", 2)


def test_doubleword_custom_ids_have_at_most_64_characters(tmp_path):
    assert "64" in failed("doubleword", [row("doubleword", "k" * 65)], tmp_path)["message"]


def open_schema():
    return without(GRADE, "additionalProperties")


def deep(change):
    schema = {**GRADE, "properties": {"inner": copy.deepcopy(GRADE)}, "required": ["inner"]}
    change(schema["properties"]["inner"])
    return schema


def strict(schema, name="grade"):
    form = {"name": name, "strict": True, "schema": schema}
    return {"response_format": {"type": "json_schema", "json_schema": form}}


BAD_BODIES = [
    ({"max_output_tokens": 5}, "max_output_tokens"),
    (strict(open_schema()), "additionalProperties"),
    (strict({**GRADE, "required": []}), "required"),
    (strict(deep(lambda inner: inner.pop("additionalProperties"))), "additionalProperties"),
    (strict(deep(lambda inner: inner.update(required=[]))), "required"),
    (strict(GRADE, name="not a name"), "name"),
    ({"temperature": 3}, "temperature"),
    ({"reasoning_effort": "enormous"}, "reasoning_effort"),
    ({"max_completion_tokens": 0}, "max_completion_tokens"),
    ({"messages": [{"role": "judge", "content": "x"}]}, "role"),
    ({"messages": []}, "messages"),
]


@each_shaped
def test_a_bad_body_is_one_row_of_the_error_file(provider, tmp_path):
    bad = {f"bad-{number:02}": extra for number, (extra, _) in enumerate(BAD_BODIES)}
    with bench() as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, "good"), *(row(provider, name, **extra) for name, extra in bad.items())])
        b.end()
        got = sdk.get(batch)
        output, error = sdk.results(batch)
        assert b.sandbox.ledger().rows_billed == 1
    counts = (got.request_counts.completed, got.request_counts.failed)
    assert (got.status, *counts) == ("completed", 1, len(BAD_BODIES))
    assert [line["custom_id"] for line in rows_of(output)] == ["good"]
    lines = sorted(rows_of(error), key=lambda line: line["custom_id"])
    assert [(line["custom_id"], line["error"], line["response"]["status_code"]) for line in lines] == [
        (name, None, 400) for name in bad
    ]
    for line, (_, word) in zip(lines, BAD_BODIES, strict=True):
        assert word in json.dumps(line["response"]["body"]["error"])


IMAGES = ("https://example.org/a.jpg", "data:image/jpeg;base64,%%%", "data:image/jpeg;base64,bm9pbWFnZQ==")


def image_row(provider, key, url):
    part = {"type": "image_url", "image_url": {"url": url}}
    return row(provider, key, messages=[{"role": "user", "content": [part]}])


@each_shaped
def test_an_image_that_is_none_fails_its_row(provider, tmp_path):
    with bench() as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([image_row(provider, f"bad-{number}", url) for number, url in enumerate(IMAGES)])
        b.end()
        got = sdk.get(batch)
    assert (got.output_file_id, bool(got.error_file_id)) == (None, True) or provider == "doubleword"
    assert got.request_counts.failed == len(IMAGES)


def test_when_all_rows_fail_there_is_no_output_file(tmp_path):
    with bench() as b, driver("openai", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row("openai", "bad", nonsense=1)])
        b.end()
        got = sdk.get(batch)
        assert (got.status, got.output_file_id) == ("completed", None)
        assert len(rows_of(sdk.results(batch)[1])) == 1
        assert b.sandbox.ledger().total_usd == 0


@pytest.mark.parametrize(
    "change",
    [
        {"completion_window": "1h"},
        {"endpoint": "/v1/nothing"},
        {"input_file_id": "file-nothing"},
        {"metadata": {"k": "v" * 513}},
        {"metadata": {str(number): "v" for number in range(17)}},
    ],
)
def test_openai_create_refuses_bad_parameters_at_once(change, tmp_path):
    import openai

    with bench() as b, driver("openai", b.sandbox, tmp_path) as sdk:
        file = sdk.client.files.create(file=("a.jsonl", b"{}"), purpose="batch")
        wanted = {"input_file_id": file.id, "endpoint": "/v1/chat/completions", "completion_window": "24h", **change}
        with pytest.raises(openai.BadRequestError):
            sdk.client.batches.create(**wanted)
        assert sdk.listed() == []


ANTHROPIC_BAD_REQUESTS = [
    [row("anthropic", "with.dot")],
    [row("anthropic", "k" * 65)],
    [row("anthropic", "")],
    [row("anthropic", "a"), row("anthropic", "a")],
    [{"custom_id": "a"}],
    [],
]


def test_anthropic_refuses_bad_custom_ids_and_requests_at_create(tmp_path):
    import anthropic

    with bench() as b, driver("anthropic", b.sandbox, tmp_path) as sdk:
        for requests in ANTHROPIC_BAD_REQUESTS:
            with pytest.raises(anthropic.BadRequestError):
                sdk.submit(requests)
        assert sdk.listed() == []


@pytest.mark.parametrize("limits", [SandboxLimits(rows=1), SandboxLimits(file_bytes=100)])
def test_anthropic_refuses_too_much_with_413(limits, tmp_path):
    import anthropic

    with bench(limits=limits) as b, driver("anthropic", b.sandbox, tmp_path) as sdk:
        with pytest.raises(anthropic.APIStatusError) as refused:
            sdk.submit([row("anthropic", "a"), row("anthropic", "b")])
        assert refused.value.status_code == 413
        assert refused.value.body["error"]["type"] == "request_too_large"


def anthropic_bad():
    good = row("anthropic", "bad")["params"]
    named = {"type": "json_schema", "name": "grade", "schema": GRADE}
    image = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": JPEG}}
    return [
        without(good, "max_tokens"),
        {**good, "max_tokens": 0},
        {**good, "stream": True},
        {**good, "speed": "fast"},
        {**good, "output_format": {"type": "json_schema", "schema": GRADE}},
        {**good, "output_config": {"format": named}},
        {**good, "thinking": {"type": "enabled", "budget_tokens": 1023}},
        {**good, "thinking": {"type": "enabled", "budget_tokens": 4096}},
        {**good, "temperature": 1},
        {**good, "top_p": 1},
        {**good, "top_k": 5},
        {**good, "model": "claude-opus-4-8", "thinking": {"type": "enabled", "budget_tokens": 1024}},
        {**good, "model": "claude-opus-5-5", "thinking": {"type": "disabled"}},
        {**good, "model": "claude-fable-5", "thinking": {"type": "disabled"}},
        {**good, "messages": []},
        {**good, "messages": [{"role": "system", "content": "x"}]},
        {**good, "messages": [{"role": "user", "content": [image]}]},
    ]


def test_anthropic_params_are_judged_row_by_row_after_submission(tmp_path):
    bad = [{"custom_id": f"bad-{number}", "params": params} for number, params in enumerate(anthropic_bad())]
    with bench() as b, driver("anthropic", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row("anthropic", "good"), *bad])
        b.end()
        found = {item.custom_id: item.result for item in sdk.client.messages.batches.results(batch)}
        assert sdk.get(batch).request_counts.errored == len(bad)
        assert b.sandbox.ledger().rows_billed == 1
    assert found.pop("good").type == "succeeded"
    assert set(found) == {line["custom_id"] for line in bad}
    assert {(result.type, result.error.error.type) for result in found.values()} == {
        ("errored", "invalid_request_error")
    }


def gemini_bad():
    def request(**change):
        return {"key": "bad", "request": {**row("gemini", "bad")["request"], **change}}

    thinking = {"thinkingLevel": "LOW", "thinkingBudget": 5}
    return [
        {"request": row("gemini", "bad")["request"]},
        b'{"key": "bad", ',
        request(system_instruction={"parts": [{"text": "x"}]}),
        request(thinkingConfig={"thinkingLevel": "LOW"}),
        request(generationConfig={"max_output_tokens": 5}),
        request(generationConfig={"responseJsonSchema": GRADE}),
        request(generationConfig={"responseMimeType": "application/json", "responseSchema": GRADE}),
        request(generationConfig={"thinkingConfig": thinking}),
        request(generationConfig={"thinkingConfig": {"thinkingLevel": "low"}}),
        request(contents=[{"role": "system", "parts": [{"text": "x"}]}]),
        request(contents=[{"parts": [{"inlineData": {"mimeType": "image/jpeg", "data": "bm9pbWFnZQ=="}}]}]),
    ]


def test_one_malformed_gemini_row_refuses_the_create(tmp_path):
    from google.genai import errors

    with bench() as b, driver("gemini", b.sandbox, tmp_path) as sdk:
        for number, line in enumerate(gemini_bad()):
            with pytest.raises(errors.ClientError, match="Line 2") as refused:
                sdk.submit([row("gemini", "good"), line], name=f"{number}.jsonl")
            assert (refused.value.code, refused.value.status) == (400, "INVALID_ARGUMENT")
        assert sdk.listed() == []


def test_gemini_knows_no_file_that_was_not_uploaded(tmp_path):
    from google.genai import errors

    with (
        bench() as b,
        driver("gemini", b.sandbox, tmp_path) as sdk,
        pytest.raises(errors.ClientError, match="not found"),
    ):
        sdk.client.batches.create(model=MODELS["gemini"], src="files/nothing")


MISTRAL_BAD = [
    {"body": {"messages": [{"role": "judge", "content": "x"}]}},
    row("mistral", "a", temperature=1.6),
    row("mistral", "a", max_completion_tokens=5),
    b'{"custom_id": "a", ',
    {"custom_id": "a"},
]


def test_mistral_validates_rows_at_upload(tmp_path):
    from mistralai.client import errors

    with bench() as b, driver("mistral", b.sandbox, tmp_path) as sdk:
        for line in MISTRAL_BAD:
            with pytest.raises(errors.SDKError) as refused:
                sdk.upload([row("mistral", "good"), line])
            assert refused.value.status_code == 422
            assert "line 2" in refused.value.body
        assert sdk.client.files.list().data == []


def test_mistral_takes_rows_without_and_with_the_same_custom_id(tmp_path):
    good = row("mistral", "a")
    with bench() as b, driver("mistral", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([good, good, without(good, "custom_id")])
        b.end()
        assert sorted(str(line["custom_id"]) for line in rows_of(sdk.results(batch)[0])) == ["None", "a", "a"]


def test_a_failed_mistral_row_has_a_json_string_for_a_body(tmp_path):
    with bench() as b, driver("mistral", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row("mistral", "good"), row("mistral", "bad", model="another-model")])
        b.end()
        job = sdk.get(batch)
        (line,) = rows_of(sdk.results(batch)[1])
    assert (job.status, job.succeeded_requests, job.failed_requests, job.completed_requests) == ("SUCCESS", 1, 1, 2)
    assert line["response"]["status_code"] == 400
    assert "another-model" in json.loads(line["response"]["body"])["message"]


@pytest.mark.parametrize("hours", [0, 169])
def test_mistral_windows_are_one_hour_to_seven_days(hours, tmp_path):
    from mistralai.client import errors

    with bench() as b, driver("mistral", b.sandbox, tmp_path) as sdk:
        file_id = sdk.upload([row("mistral", "a")])
        with pytest.raises(errors.SDKError) as refused:
            sdk.client.batch.jobs.create(
                endpoint="/v1/chat/completions", input_files=[file_id], model="m", timeout_hours=hours
            )
        assert refused.value.status_code == 422


def together_failed(tmp_path, rows=None, file_id=None, limits=None):
    with bench(limits=limits) as b, driver("together", b.sandbox, tmp_path) as sdk:
        batch = sdk.create(file_id) if file_id else sdk.submit(rows)
        assert sdk.status(batch) == "VALIDATING"
        b.end()
        got = sdk.get(batch)
    assert (got.status, got.output_file_id, got.error_file_id) == ("FAILED", "", "")
    return got.error


def test_together_accepts_a_bad_file_id_and_fails_the_job(tmp_path):
    assert "does not exist" in together_failed(tmp_path, file_id="file-nothing")
    assert "does not exist" in together_failed(tmp_path, file_id="../" * 100 + "\x00")


@pytest.mark.parametrize(
    ("rows", "limits", "word"),
    [
        ([b"{"], None, "JSON"),
        ([{"custom_id": "a", "body": {"messages": []}}], None, "model"),
        ([{"body": {"model": "m"}}], None, "custom_id"),
        ([row("together", "a")], SandboxLimits(line_bytes=50), "bytes"),
        ([row("together", "a"), row("together", "b")], SandboxLimits(rows=1), "more than 1"),
        ([row("together", "a")], SandboxLimits(file_bytes=50), "limit is 50"),
    ],
)
def test_a_bad_together_file_fails_the_job_with_a_reason(rows, limits, word, tmp_path):
    assert word in together_failed(tmp_path, rows=rows, limits=limits)


def test_a_failed_together_row_has_its_own_shape_and_absent_ids_are_empty(tmp_path):
    with bench() as b, driver("together", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row("together", "bad", nonsense=1)])
        running = sdk.get(batch)
        b.end()
        got = sdk.get(batch)
        (line,) = rows_of(sdk.results(batch)[1])
    assert (running.output_file_id, running.error_file_id) == ("", "")
    assert (got.status, got.output_file_id) == ("COMPLETED", "")
    assert (line["custom_id"], line["error"]["code"]) == ("bad", "batch_client_error")
    assert "response" not in line


@pytest.mark.parametrize("provider", ["mistral", "together"])
def test_open_schemas_pass_where_strict_rules_are_not_documented(provider, tmp_path):
    with bench() as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, "a", **strict(open_schema()))])
        b.end()
        assert len(rows_of(sdk.results(batch)[0])) == 1


@each_family
def test_a_batch_that_has_ended_cannot_be_cancelled(provider, tmp_path):
    with bench() as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, "a")])
        b.end()
        with pytest.raises(Exception, match=r"(?i)ended|cancel"):
            sdk.cancel(batch)
        assert len(rows_of(sdk.results(batch)[0])) == 1
