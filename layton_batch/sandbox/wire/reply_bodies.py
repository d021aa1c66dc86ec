"""The two reply forms of OpenAI: chat completions, which five more providers write, and responses."""

from __future__ import annotations

import time
from collections.abc import Mapping

from layton_batch.sandbox.answerers.questions import ModelReply, Question
from layton_batch.sandbox.engine.store import new_id


def completion(
    question: Question, reply: ModelReply, message: Mapping[str, object], usage: Mapping[str, object]
) -> dict[str, object]:
    """A finished chat completion; a refusal is an ordinary stop."""
    return {
        "id": new_id("chatcmpl-"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": question.model,
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", **message},
                "logprobs": None,
                "finish_reason": "length" if reply.finish == "length" else "stop",
            }
        ],
        "usage": usage,
    }


def chat_usage(reply: ModelReply) -> dict[str, object]:
    """Cached tokens are within the prompt's, reasoning within the completion's."""
    return {
        "prompt_tokens": reply.input_tokens,
        "completion_tokens": reply.output_tokens,
        "total_tokens": reply.input_tokens + reply.output_tokens,
        "prompt_tokens_details": {"cached_tokens": reply.cached_input_tokens},
        "completion_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
    }


def said(reply: ModelReply) -> dict[str, object]:
    """A message where refusals have a field of their own."""
    refused = reply.finish == "refusal"
    return {"content": None if refused else reply.text, "refusal": reply.text if refused else None}


def thinking_text(reply: ModelReply) -> str:
    """Stands in for a chain of thought where the provider's form shows one."""
    return f"(reasoning of {reply.reasoning_tokens} tokens)"


def response(question: Question, reply: ModelReply) -> dict[str, object]:
    """A finished response: one that was cut is `incomplete`, a refusal is a part of its own type."""
    cut = reply.finish == "length"
    status = "incomplete" if cut else "completed"
    part: dict[str, object] = {"type": "output_text", "text": reply.text, "annotations": []}
    if reply.finish == "refusal":
        part = {"type": "refusal", "refusal": reply.text}
    output: list[object] = [{"id": new_id("rs_"), "type": "reasoning", "summary": []}] if reply.reasoning_tokens else []
    if reply.text or not cut:
        message = {"id": new_id("msg_"), "type": "message", "role": "assistant", "status": status, "content": [part]}
        output.append(message)
    return {
        "id": new_id("resp_"),
        "object": "response",
        "created_at": int(time.time()),
        "status": status,
        "error": None,
        "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
        "model": question.model,
        "output": output,
        "service_tier": "default",
        "usage": {
            "input_tokens": reply.input_tokens,
            "input_tokens_details": {"cached_tokens": reply.cached_input_tokens},
            "output_tokens": reply.output_tokens,
            "output_tokens_details": {"reasoning_tokens": reply.reasoning_tokens},
            "total_tokens": reply.input_tokens + reply.output_tokens,
        },
    }
