"""What a reply is said to have cost in tokens: deterministic estimates, the same for every answerer.

They are no tokenizer's counts. They only have to be plausible, to depend on nothing but the question and the reply, and
to exercise every kind of token a bill can hold: input, cached input, output, reasoning.
"""

from __future__ import annotations

import math

from layton_batch.sandbox.questions import Question, Reply

BYTES_PER_TOKEN = 4
IMAGE_TOKENS = 765
"""What OpenAI's documents count for a 1024 x 1024 picture in high detail; taken for every image of every provider."""

CACHING_PROVIDERS = frozenset({"openai", "anthropic", "gemini"})
"""Those whose batch documents describe cached input and whose cached prices are published."""
CACHED_SHARE = 0.25
"""Of a judge's input: its instructions are the same in every row, so providers that cache bill them as cached."""

_EFFORT_MULTIPLE = {"none": 0.0, "minimal": 0.5, "low": 1.0, "medium": 2.5, "default": 2.5, "high": 5.0}
_MOST_EFFORT = 8.0
_BUDGET_MULTIPLE = 4.0


def text_tokens(text: str) -> int:
    return math.ceil(len(text.encode("utf-8", "replace")) / BYTES_PER_TOKEN)


def reasoning_tokens(reasoning: str | int | None, visible: int) -> int:
    """A multiple of the visible reply by effort; never more than the budget where one is given."""
    if reasoning is None:
        return 0
    if isinstance(reasoning, int):
        wanted = math.ceil(visible * _BUDGET_MULTIPLE)
        return wanted if reasoning < 0 else min(reasoning, wanted)
    return math.ceil(visible * _EFFORT_MULTIPLE.get(reasoning.lower(), _MOST_EFFORT))


def counted(question: Question, text: str, finish: str = "stop", *, of_judge: bool = False) -> Reply:
    """The text as a reply with its tokens. Reasoning is cut to what the output limit leaves beside the text."""
    read = text_tokens(question.system) + text_tokens(question.text) + IMAGE_TOKENS * len(question.images)
    visible = text_tokens(text)
    thought = reasoning_tokens(question.reasoning, visible)
    if question.max_output_tokens is not None:
        thought = max(0, min(thought, question.max_output_tokens - visible))
    caches = of_judge and question.provider in CACHING_PROVIDERS
    return Reply(
        text=text,
        finish=finish,
        input_tokens=read,
        cached_input_tokens=int(read * CACHED_SHARE) if caches else 0,
        output_tokens=visible + thought,
        reasoning_tokens=thought,
    )
