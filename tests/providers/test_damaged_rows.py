"""Replies that were paid for and are not of the documented form: answered, charged, and never bought again by
themselves. At every dialect."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest

from layton_batch.providers import connect
from layton_batch.providers.damaged_rows import named_in, unreadable
from layton_batch.records import JsonValue, Usage
from layton_batch.states import PASSING, ErrorClass, FinishReason, RequestOutcome

Json = dict[str, JsonValue]
Wrap = Callable[[JsonValue], Json]
USAGE: Json = {"prompt_tokens": 10, "completion_tokens": 5}
TOKENS: Json = {"promptTokenCount": 10, "candidatesTokenCount": 5}
MESSAGE: Json = {"role": "assistant", "content": "4"}


def files(body: JsonValue) -> Json:
    return {"id": "r-1", "custom_id": "c-1", "response": {"status_code": 200, "body": body}, "error": None}


def xai(body: JsonValue) -> Json:
    return {"batch_request_id": "c-1", "batch_result": {"response": {"chat_get_completion": body}}}


CHAT: Mapping[str, Wrap] = {
    **dict.fromkeys(("openai", "mistral", "together", "groq", "doubleword", "openrouter"), files),
    "xai": xai,
}
"""Dialects whose replies are chat completions, and how a row wraps one."""


def choice(message: JsonValue) -> Json:
    return {"index": 0, "message": message, "finish_reason": "stop"}


CHAT_BODIES: Mapping[str, Json] = {
    "no choices": {"usage": USAGE},
    "choices: []": {"choices": [], "usage": USAGE},
    "choices null": {"choices": None, "usage": USAGE},
    "a choice of a wrong type": {"choices": ["4"], "usage": USAGE},
    "message missing": {"choices": [{"index": 0, "finish_reason": "stop"}], "usage": USAGE},
    "message null": {"choices": [choice(None)], "usage": USAGE},
    "content a number": {"choices": [choice({**MESSAGE, "content": 7})], "usage": USAGE},
    "content an object": {"choices": [choice({**MESSAGE, "content": {"text": "4"}})], "usage": USAGE},
}
ANTHROPIC_MESSAGES: Mapping[str, Json] = {
    "no content": {"stop_reason": "end_turn"},
    "content null": {"stop_reason": "end_turn", "content": None},
    "content a text": {"stop_reason": "end_turn", "content": "4"},
    "content an object": {"content": {"type": "text", "text": "4"}},
}
GEMINI_REPLIES: Mapping[str, Json] = {
    "no candidates": {},
    "candidates: []": {"candidates": []},
    "candidates null": {"candidates": None},
    "a candidate of a wrong type": {"candidates": [7]},
    "an empty candidate": {"candidates": [{}]},
    "content a text": {"candidates": [{"content": "4"}]},
    "parts an object": {"candidates": [{"content": {"parts": {"text": "4"}}}]},
}
MALFORMED: Mapping[str, tuple[str, Json]] = {
    **{f"{name} {what}": (name, wrap(body)) for name, wrap in CHAT.items() for what, body in CHAT_BODIES.items()},
    **{
        f"anthropic {what}": (
            "anthropic",
            {
                "custom_id": "c-1",
                "result": {
                    "type": "succeeded",
                    "message": {**message, "usage": {"input_tokens": 10, "output_tokens": 5}},
                },
            },
        )
        for what, message in ANTHROPIC_MESSAGES.items()
    },
    **{
        f"{name} {what}": (name, {"key": "c-1", "status": "", "response": {**reply, "usageMetadata": TOKENS}})
        for name in ("gemini", "vertex")
        for what, reply in GEMINI_REPLIES.items()
    },
}
"""A paid reply without anything to read, by what is wrong with it; each says it took 10 tokens and made 5."""


@pytest.mark.parametrize(("provider", "row"), MALFORMED.values(), ids=MALFORMED)
def test_a_malformed_reply_is_an_answer_without_text_and_charged(provider: str, row: Json) -> None:
    found = connect(provider, None).decode(json.dumps(row).encode())
    assert (found.custom_id, found.outcome, found.text) == ("c-1", RequestOutcome.SUCCEEDED, None)
    assert (found.finish_reason, found.raw_finish_reason) == (FinishReason.OTHER, "malformed")
    assert found.error_class is ErrorClass.NONE
    assert found.usage == Usage(10, 0, 5)


USAGES = {"missing": None, "a text": "ten", "a list": [10, 5], "full of garbage": {"prompt_tokens": [], "x": -1}}


@pytest.mark.parametrize("usage", USAGES.values(), ids=USAGES)
@pytest.mark.parametrize("provider", [*CHAT, "anthropic", "gemini", "vertex"])
def test_a_reply_without_readable_usage_keeps_its_text_and_says_so(provider: str, usage: JsonValue) -> None:
    if provider == "anthropic":
        message: Json = {"content": [{"type": "text", "text": "4"}], "stop_reason": "end_turn", "usage": usage}
        row: Json = {"custom_id": "c-1", "result": {"type": "succeeded", "message": message}}
    elif provider in CHAT:
        row = CHAT[provider]({"choices": [choice(MESSAGE)], "usage": usage})
    else:
        candidate: Json = {"content": {"parts": [{"text": "4"}]}, "finishReason": "STOP"}
        row = {"key": "c-1", "response": {"candidates": [candidate], "usageMetadata": usage}}
    found = connect(provider, None).decode(json.dumps(row).encode())
    assert (found.outcome, found.text, found.usage) == (RequestOutcome.SUCCEEDED, "4", Usage(known=False))


NOTHING_TOLD: Mapping[str, Json] = {
    **{name: {"custom_id": "c-1", "response": None} for name in CHAT if CHAT[name] is files},
    "anthropic": {"custom_id": "c-1", "result": {"type": "half"}},
    "gemini": {"key": "c-1"},
    "vertex": {"key": "c-1", "status": ""},
    "xai": {"batch_request_id": "c-1", "batch_result": {}},
}


@pytest.mark.parametrize("provider", NOTHING_TOLD)
def test_a_row_that_tells_nothing_is_unreadable_and_not_bought_again(provider: str) -> None:
    found = connect(provider, None).decode(json.dumps(NOTHING_TOLD[provider]).encode())
    assert (found.custom_id, found.outcome) == ("c-1", RequestOutcome.ERRORED)
    assert found.error_class is ErrorClass.UNREADABLE
    assert found.error_message
    assert found.error_class not in PASSING


@pytest.mark.parametrize("provider", ["gemini", "vertex", "xai"])
def test_an_answer_beats_an_error_beside_it(provider: str) -> None:
    row = xai({"choices": [choice(MESSAGE)]}) | {"error": "odd"}
    if provider != "xai":
        row = {"key": "c-1", "status": "odd", "response": {"candidates": [{"content": {"parts": [{"text": "4"}]}}]}}
    assert connect(provider, None).decode(json.dumps(row).encode()).text == "4"


@pytest.mark.parametrize(
    ("line", "names"),
    [
        (b'{"id": "b-1", "custom_id": "r1-000002", "response": {"sta', ["r1-000002"]),
        (b'{"key" :\t"r1-000002", "response": {"candi', ["r1-000002"]),
        (b'h_request_id": "x"}, "batch_request_id":"r1-000002"}', ["r1-000002"]),
        (b'{"custom_id": "a", "resp{"custom_id": "b", "response": {}}{"custom_id": "a"', ["a", "b"]),
        (b'{"id": "b-1", "custom_id": "r1-0000', []),
        (b'ent": "say \\"custom_id\\": \\"r1-000009\\" and stop"}]}}', []),
        (b'{"custom_id": "a b", "key": ""', []),
        (b"\xff\x00<html>", []),
    ],
)
def test_the_requests_a_damaged_line_names_are_read_outside_of_texts(line: bytes, names: list[str]) -> None:
    assert named_in(line) == names


def test_what_is_said_of_an_unreadable_row_is_short_and_printable() -> None:
    found = unreadable("c-1", "\x1b[2J" + "x" * 2000)
    assert "\x1b" not in str(found.error_message)
    assert len(str(found.error_message)) <= 501
