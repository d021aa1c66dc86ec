"""The two reply forms of OpenAI: chat completions, which six more providers write, and responses."""

from __future__ import annotations

import time
from collections.abc import Mapping

from layton_batch.sandbox.answerers.questions import ModelReply, Question, SandboxUsage
from layton_batch.sandbox.engine.store import new_id


def completion(question: Question, reply: ModelReply, message: Mapping[str, object]) -> dict[str, object]:
    """A finished chat completion; a refusal is an ordinary stop. Cached tokens are within the prompt's, reasoning is
    within the completion's."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", **message},
        "logprobs": None,
        "finish_reason": "length" if reply.finish == "length" else "stop",
    }
    return {
        "id": new_id("chatcmpl-"),
        "object": "chat.completion",
        "created": int(time.time()),
        "model": question.model,
        "choices": [choice],
        "usage": usage_view(reply.usage, "prompt_tokens", "completion_tokens"),
    }


def usage_view(usage: SandboxUsage, read: str = "input_tokens", written: str = "output_tokens") -> dict[str, object]:
    """Tokens under OpenAI's words for those that are read and those that are written."""
    return {
        read: usage.input_tokens,
        written: usage.output_tokens,
        "total_tokens": usage.input_tokens + usage.output_tokens,
        f"{read}_details": {"cached_tokens": usage.cached_input_tokens},
        f"{written}_details": {"reasoning_tokens": usage.reasoning_tokens},
    }


def message_with_refusal(reply: ModelReply) -> dict[str, object]:
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
        "usage": usage_view(reply.usage),
    }
