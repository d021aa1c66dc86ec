"""What a request can cost at most, before it is sent.

Input is bounded by bytes: every tokenizer in use (byte-level BPE, SentencePiece with byte fallback) makes at most one
token of a byte of UTF-8, and does reach that on digits and rare scripts. Ordinary English is about a quarter of it. The
looseness is paid knowingly: the output limit is what dominates the bound, and a bound that is wrong for a page of
numbers is none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from layton_batch.costs.charge import PER_MILLION
from layton_batch.costs.images import image_tokens
from layton_batch.costs.prices import Price, PriceBook, Step
from layton_batch.records import JsonValue, ModelSpec, Prompt, Request

REQUEST_OVERHEAD = 256
"""Tokens a provider's chat template puts around a request, or its own short system text."""
PART_OVERHEAD = 16
"""Tokens around one message part."""
SCHEMA_OVERHEAD = 1024
"""Tokens of the instructions that go with a response schema; the schema itself counts twice its JSON text."""

OUTPUT_BY_EFFORT: Mapping[str | None, int] = {
    "none": 16_384,
    "minimal": 16_384,
    "low": 32_768,
    "medium": 65_536,
    "high": 131_072,
    None: 65_536,
}
"""Output tokens assumed where a model has no limit of its own, reasoning included. 131,072 is above the largest output
of the models in use; the lower ones are allowances, so such a request's bound holds only up to them."""
VISIBLE_OUTPUT = 16_384
"""Output tokens assumed beside a reasoning budget where a model has no limit of its own."""

_LIMIT_KEYS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_NESTED_KEYS = ("generationConfig", "generation_config")
_CHOICES_KEYS = ("n", "candidateCount", "candidate_count")


@dataclass(frozen=True, slots=True)
class TokenBound:
    """Most tokens one request can be billed for; ``output`` includes reasoning."""

    input: int
    output: int


def estimate_tokens(prompt: Prompt, spec: ModelSpec) -> TokenBound:
    """Upper bounds from the prompt's bytes, its images' sizes and the spec's limits."""
    return TokenBound(_input_bound(prompt, spec), output_bound(spec))


def estimate_request(request: Request, book: PriceBook) -> Decimal | None:
    """Most USD the request can cost in a batch; None: the model's price is unknown."""
    price = book.price(request.model.provider, request.model.model)
    if price is None:
        return None
    return bound_cost(estimate_tokens(request.prompt, request.model), price)


def bound_cost(bound: TokenBound, price: Price) -> Decimal:
    """Most USD for at most these tokens in a batch: the dearest rates within reach, whatever part of the input is
    cached.

    An inferred batch price is not trusted here: the standard rates bound it.
    """
    reachable: list[Price | Step] = [price, *(step for step in price.steps if bound.input > step.above)]
    rates = [entry.batch for entry in reachable]
    if price.inferred:
        rates += [entry.standard for entry in reachable]
    dearest = max(bound.input * rate.dearest_input + bound.output * rate.output for rate in rates)
    return dearest.scaleb(PER_MILLION)


def parts_size(prompt: Prompt, spec: ModelSpec) -> tuple[int, int]:
    """Bytes of the prompt's text, and at most how many tokens its images are."""
    text, images = _bytes(prompt.system), 0
    for part in prompt.parts:
        if isinstance(part, str):
            text += _bytes(part)
        else:
            images += image_tokens(part, spec.provider, spec.model)
    return text, images


def _input_bound(prompt: Prompt, spec: ModelSpec) -> int:
    total = REQUEST_OVERHEAD + PART_OVERHEAD * len(prompt.parts) + sum(parts_size(prompt, spec))
    if prompt.response_schema is not None:
        total += SCHEMA_OVERHEAD + 2 * _json_bytes(prompt.response_schema.schema)
    return total


def _bytes(text: str) -> int:
    # "surrogatepass": text with a lone surrogate is refused elsewhere; counting it must not raise
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _json_bytes(value: JsonValue) -> int:
    """At least the length of the value as indented JSON text, without building it."""
    if isinstance(value, str):
        return 6 * len(value) + 4
    if isinstance(value, Mapping):
        return 8 + sum(6 * len(key) + 16 + _json_bytes(member) for key, member in value.items())
    if isinstance(value, list | tuple):
        return 8 + sum(8 + _json_bytes(member) for member in value)
    return len(str(value)) + 2


def output_bound(spec: ModelSpec) -> int:
    """Most output tokens of one request, reasoning included, over all the choices asked for."""
    limits = [limit for limit in (spec.max_output_tokens, *_integers(spec.params, _LIMIT_KEYS)) if limit]
    budget = max(spec.reasoning.budget_tokens or 0, 0)
    if limits:
        limit = max(limits)
        # A limit that leaves no room beside the budget is sent as the sum by APIs whose limit counts reasoning too.
        most = limit + budget if budget >= limit else limit
    elif budget:
        most = budget + VISIBLE_OUTPUT
    else:
        most = OUTPUT_BY_EFFORT.get(spec.reasoning.effort, OUTPUT_BY_EFFORT["high"])
    return most * max([1, *_integers(spec.params, _CHOICES_KEYS)])


def _integers(params: Mapping[str, JsonValue], keys: tuple[str, ...]) -> list[int]:
    places = [params, *(inner for key in _NESTED_KEYS if isinstance(inner := params.get(key), Mapping))]
    found = (place.get(key) for place in places for key in keys)
    return [value for value in found if isinstance(value, int) and not isinstance(value, bool) and value > 0]
