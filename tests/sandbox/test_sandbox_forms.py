"""What a row asks is understood, and what a model replies is written, in each provider's own form."""

from __future__ import annotations

import base64
import json

import pytest

from layton_batch.sandbox import ModelReply
from tests.support.sandbox_clients import GRADE, JPEG, MODELS, bench, driver, each_family, row, rows_of

CHAT = ("openai", "groq", "doubleword", "mistral", "together")
REPLIES = {
    "plain": ModelReply('{"score": 1}', "stop", 100, 20, 50, 10),
    "cut": ModelReply('{"sc', "length", 100, 0, 50, 50),
    "no": ModelReply("I cannot help.", "refusal", 100, 0, 5, 0),
    "blocked": ModelReply("", "refusal", 100, 0, 0, 0),
}


class ByText:
    """Replies as the question's text names it."""

    def __init__(self) -> None:
        self.asked = []

    def answer(self, question):
        self.asked.append(question)
        return REPLIES[question.text]


def rich(provider: str) -> dict[str, object]:
    """A row with a system prompt, two texts, an image, a schema, a reasoning level and an output limit."""
    url = f"data:image/jpeg;base64,{JPEG}"
    named = {"name": "grade", "strict": True, "schema": GRADE}
    if provider == "anthropic":
        source = {"type": "base64", "media_type": "image/jpeg", "data": JPEG}
        content = [
            {"type": "text", "text": "one"},
            {"type": "image", "source": source},
            {"type": "text", "text": "two"},
        ]
        return row(
            provider,
            "a",
            system="Grade strictly.",
            messages=[{"role": "user", "content": content}],
            thinking={"type": "enabled", "budget_tokens": 2048},
            output_config={"format": {"type": "json_schema", "schema": GRADE}},
        )
    if provider == "gemini":
        image = {"inlineData": {"mimeType": "image/jpeg", "data": JPEG}}
        return row(
            provider,
            "a",
            systemInstruction={"parts": [{"text": "Grade strictly."}]},
            contents=[{"role": "user", "parts": [{"text": "one"}, image, {"text": "two"}]}],
            generationConfig={
                "responseMimeType": "application/json",
                "responseJsonSchema": GRADE,
                "maxOutputTokens": 4096,
                "thinkingConfig": {"thinkingLevel": "LOW"},
            },
        )
    image = {"type": "image_url", "image_url": url if provider == "mistral" else {"url": url}}
    content = [{"type": "text", "text": "one"}, image, {"type": "text", "text": "two"}]
    messages = [{"role": "system", "content": "Grade strictly."}, {"role": "user", "content": content}]
    limit = {"max_tokens" if provider in ("mistral", "together") else "max_completion_tokens": 4096}
    response_format = {"type": "json_schema", "json_schema": named}
    return row(provider, "a", messages=messages, response_format=response_format, reasoning_effort="low", **limit)


@each_family
def test_a_question_is_read_whole_out_of_every_providers_row(provider, tmp_path):
    with bench() as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([rich(provider)])
        b.end()
        sdk.status(batch)
        (question,) = b.echo.asked
    assert question.system == "Grade strictly."
    assert question.text == "one\ntwo"
    assert question.images == (base64.b64decode(JPEG),)
    assert question.schema == GRADE
    assert question.reasoning == (2048 if provider == "anthropic" else "low")
    assert question.max_output_tokens == 4096
    assert (question.model, question.custom_id) == (MODELS[provider], "a")


def replies(provider, tmp_path, *texts, **extra):
    with bench(answerer=ByText()) as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, text, text, **extra) for text in texts])
        b.end()
        sdk.status(batch)
        output, error = sdk.results(batch)
    assert error == b""
    return {line.get("key", line.get("custom_id")): line for line in rows_of(output)}


@pytest.mark.parametrize("provider", CHAT)
def test_chat_usage_counts_cached_and_reasoning_tokens_inside_the_totals(provider, tmp_path):
    usage = replies(provider, tmp_path, "plain")["plain"]["response"]["body"]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (100, 50, 150)
    assert usage["prompt_tokens_details"]["cached_tokens"] == 20
    if provider == "together":
        assert usage["reasoning_tokens"] == 10
    elif provider == "mistral":
        assert "completion_tokens_details" not in usage
    else:
        assert usage["completion_tokens_details"]["reasoning_tokens"] == 10


@pytest.mark.parametrize("provider", CHAT)
def test_chat_truncation_and_refusal(provider, tmp_path):
    found = replies(provider, tmp_path, "cut", "no")
    cut, no = (found[name]["response"]["body"]["choices"][0] for name in ("cut", "no"))
    assert (cut["finish_reason"], no["finish_reason"]) == ("length", "stop")
    if provider in ("openai", "doubleword"):
        assert (no["message"]["content"], no["message"]["refusal"]) == (None, "I cannot help.")
    else:
        assert no["message"]["content"] == "I cannot help."


def test_chains_of_thought_appear_where_each_chat_form_has_them(tmp_path):
    def message(provider, **extra):
        return replies(provider, tmp_path, "plain", **extra)["plain"]["response"]["body"]["choices"][0]["message"]

    chunks = message("mistral", reasoning_effort="high")["content"]
    assert [chunk["type"] for chunk in chunks] == ["thinking", "text"]
    assert message("mistral")["content"] == '{"score": 1}'
    assert "10 tokens" in message("together")["reasoning"]
    assert "10 tokens" in message("groq", reasoning_format="parsed")["reasoning"]
    assert "reasoning" not in message("groq")
    assert "reasoning" not in message("openai")


def test_anthropic_usage_excludes_the_cache_and_stops_have_their_own_words(tmp_path):
    thinking = {"thinking": {"type": "enabled", "budget_tokens": 1024}}
    found = replies("anthropic", tmp_path, "plain", "cut", "no", **thinking)
    plain, cut, no = (found[name]["result"]["message"] for name in ("plain", "cut", "no"))
    assert (plain["usage"]["input_tokens"], plain["usage"]["cache_read_input_tokens"]) == (80, 20)
    assert plain["usage"]["output_tokens_details"] == {"thinking_tokens": 10}
    assert [block["type"] for block in plain["content"]] == ["thinking", "text"]
    assert [m["stop_reason"] for m in (plain, cut, no)] == ["end_turn", "max_tokens", "refusal"]


def test_gemini_usage_counts_thoughts_apart_and_blocks_have_two_forms(tmp_path):
    config = {"generationConfig": {"thinkingConfig": {"thinkingLevel": "HIGH", "includeThoughts": True}}}
    found = {key: line["response"] for key, line in replies("gemini", tmp_path, *REPLIES, **config).items()}
    usage = found["plain"]["usageMetadata"]
    assert (usage["promptTokenCount"], usage["cachedContentTokenCount"]) == (100, 20)
    assert (usage["candidatesTokenCount"], usage["thoughtsTokenCount"], usage["totalTokenCount"]) == (40, 10, 150)
    assert [part.get("thought") for part in found["plain"]["candidates"][0]["content"]["parts"]] == [True, None]
    finishes = [found[name]["candidates"][0]["finishReason"] for name in ("plain", "cut", "no")]
    assert finishes == ["STOP", "MAX_TOKENS", "SAFETY"]
    assert "candidates" not in found["blocked"]
    assert found["blocked"]["promptFeedback"]["blockReason"]


def test_responses_truncation_and_refusal(tmp_path):
    def line(text):
        body = {"model": MODELS["openai"], "input": [{"role": "user", "content": text}]}
        return {"custom_id": text, "method": "POST", "url": "/v1/responses", "body": body}

    with bench(answerer=ByText()) as b, driver("openai", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([line("cut"), line("no")], endpoint="/v1/responses")
        b.end()
        found = {item["custom_id"]: item["response"]["body"] for item in rows_of(sdk.results(batch)[0])}
    assert (found["cut"]["status"], found["cut"]["incomplete_details"]) == (
        "incomplete",
        {"reason": "max_output_tokens"},
    )
    assert found["no"]["output"][-1]["content"] == [{"type": "refusal", "refusal": "I cannot help."}]


@pytest.mark.parametrize(
    ("provider", "extra", "expected"),
    [
        ("openai", {"reasoning_effort": "none"}, "none"),
        ("openai", {}, None),
        ("together", {"reasoning": {"enabled": False}}, "none"),
        ("together", {"chat_template_kwargs": {"thinking": True}}, "default"),
        ("mistral", {"prompt_mode": "reasoning"}, "default"),
        ("anthropic", {"thinking": {"type": "disabled"}}, "none"),
        ("anthropic", {"thinking": {"type": "adaptive"}, "output_config": {"effort": "high"}}, "high"),
        ("gemini", {"generationConfig": {"thinkingConfig": {"thinkingBudget": -1}}}, -1),
    ],
)
def test_reasoning_settings_are_read_in_all_their_forms(provider, extra, expected, tmp_path):
    with bench() as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, "a", **extra)])
        b.end()
        sdk.status(batch)
        assert [question.reasoning for question in b.echo.asked] == [expected]


@each_family
def test_text_of_any_kind_survives_the_wire(provider, tmp_path):
    text = 'quote " backslash \\ line\u2028sep \u0000 nul \U0001f9e9 \r\n end'
    with bench() as b, driver(provider, b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row(provider, "a", text)])
        b.end()
        (line,) = rows_of_lf(sdk.results(batch)[0])
        assert b.echo.asked[0].text == text
        assert json.dumps(json.dumps(text))[1:-1] in json.dumps(line)


def test_a_lone_surrogate_in_a_reply_goes_out_as_an_escape(tmp_path):
    class Broken:
        def answer(self, question):
            return ModelReply("half \ud83d pair", "stop", 1, 0, 1, 0)

    with bench(answerer=Broken()) as b, driver("openai", b.sandbox, tmp_path) as sdk:
        batch = sdk.submit([row("openai", "a")])
        b.end()
        assert b"half \\ud83d pair" in sdk.results(batch)[0]


def rows_of_lf(data):
    return [json.loads(line) for line in data.split(b"\n") if line]
