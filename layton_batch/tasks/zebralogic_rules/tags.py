"""How a reply to a logic grid can fail: the closed set of agi-evals 0.1.0, and ``truncated``."""

from __future__ import annotations

from enum import StrEnum


class Tag(StrEnum):
    """The one kind of failure of a prediction; ``NONE`` is a pass."""

    NONE = "none"
    WRONG_ANSWER = "wrong_answer"
    NO_ANSWER = "no_answer"
    MALFORMED_OUTPUT = "malformed_output"  # there is an answer, but not one the protocol can compare
    REFUSED = "refused"
    TRUNCATED = "truncated"  # the output limit cut the reply off; not in agi-evals, which counts it as no_answer
    ADAPTER_ERROR = "adapter_error"  # no reply came
    HARNESS_ERROR = "harness_error"  # the grader failed, or the original's would have


INFRASTRUCTURE = frozenset({Tag.ADAPTER_ERROR, Tag.HARNESS_ERROR})
"""Failures that are not the model's; agi-evals keeps them out of the score."""

_ADAPTER_WORDS = ("timeout", "connection", "http", "api", "rate", "auth", "openai")


def infrastructure_tag(error: str) -> Tag:
    """Whose fault an exception was, as agi-evals tells it: by words in the name of its class.

    ``error`` is that name, or ``Name: message``. The rule has quirks that are kept: ``CapitalizationError`` has "api"
    in it and counts as the adapter's, ``BrokenPipeError`` as the harness's.
    """
    name = error.partition(":")[0].strip().lower()
    return Tag.ADAPTER_ERROR if any(word in name for word in _ADAPTER_WORDS) else Tag.HARNESS_ERROR
