"""The bound of a request's tokens, as plans put it together."""

from __future__ import annotations

from layton_batch.costs.estimate import PromptSize, TokenBound
from layton_batch.records import ModelSpec, Prompt


def estimate_tokens(prompt: Prompt, spec: ModelSpec) -> TokenBound:
    """Bound the tokens of a request by the prompt's bytes, its images' sizes and the spec's limits."""
    return TokenBound.of(PromptSize.of(prompt).tokens(spec), spec)
