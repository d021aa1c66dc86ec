"""Costs of a request before it is sent: the upper bound, and what it will probably cost.

Input is bounded by bytes: every tokenizer in use (byte-level BPE, SentencePiece with byte fallback) makes at most one
token of a byte of UTF-8, and does reach that on digits and rare scripts. Ordinary English is about a quarter of it. The
looseness is paid knowingly: the output limit is what dominates the bound, and a bound that is wrong for a page of
numbers is none.

An image's size is read from its header alone (JPEG, PNG, GIF). One whose size cannot be read counts as the largest that
the provider bills.

The probable cost is a guess for people: tokens come from earlier runs of the same model and task if there are any, else
from ``priors.toml``.
"""

from __future__ import annotations

import binascii
import tomllib
from base64 import b64decode
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from importlib.resources import files
from math import ceil

from layton_batch import model_table
from layton_batch.costs.rates import PER_MILLION, Price, RateStep, charge
from layton_batch.records import Image, JsonValue, ModelSpec, Prompt, Usage
from layton_batch.states import Role

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
"""Output tokens assumed where a manifest gives a model no limit, reasoning included; fewer where the model is known to
write fewer. 131,072 is above the largest output of the models in use; the lower ones are allowances, so such a
request's bound holds only up to them."""
VISIBLE_OUTPUT = 16_384
"""Output tokens assumed beside a reasoning budget where a model has no limit of its own."""

_LIMIT_KEYS = ("max_tokens", "max_completion_tokens", "max_output_tokens", "maxOutputTokens")
_NESTED_KEYS = ("generationConfig", "generation_config")
_CHOICES_KEYS = ("n", "candidateCount", "candidate_count")


Size = tuple[int, int]
"""Width and height of an image, in pixels."""


@dataclass(frozen=True, slots=True)
class TokenBound:
    """Largest numbers of tokens that one request can be billed for; ``output`` includes reasoning. ``is_kept_an_hour``:
    input may be written to a cache for an hour, which is dearer than for minutes."""

    input: int
    output: int
    is_kept_an_hour: bool = False

    @classmethod
    def of(cls, input_tokens: int, spec: ModelSpec) -> TokenBound:
        """Return the bound of a request with so many input tokens."""
        return cls(input_tokens, output_bound(spec), _keeps_an_hour(spec.params))


@dataclass(frozen=True, slots=True)
class PromptSize:
    """The size of a prompt, whichever model reads it. ``overhead``: tokens of its form; ``images``: width and height of
    each in pixels, None where they cannot be read."""

    overhead: int
    text_bytes: int
    images: tuple[Size | None, ...]

    @classmethod
    def of(cls, prompt: Prompt) -> PromptSize:
        """Measure a prompt."""
        overhead, schema = REQUEST_OVERHEAD + PART_OVERHEAD * len(prompt.parts), prompt.response_schema
        if schema is not None:
            overhead += SCHEMA_OVERHEAD + 2 * _json_bytes(schema.schema)
        images = (image_size(part) for part in prompt.parts if isinstance(part, Image))
        return cls(overhead, text_bytes(prompt), tuple(images))

    def image_tokens(self, spec: ModelSpec) -> int:
        """Return the most tokens that this model can bill for the images."""
        return sum(image_tokens(size, spec.provider, spec.model) for size in self.images)

    def tokens(self, spec: ModelSpec) -> int:
        """Return the most input tokens that this model can bill."""
        return self.overhead + self.text_bytes + self.image_tokens(spec)


def bound_cost(bound: TokenBound, price: Price) -> Decimal:
    """Return the most USD for at most these tokens in a batch. The dearest rates within reach count, whatever part of
    the input is cached.

    An inferred batch price is not trusted here: the standard rates bound it.
    """
    steps: list[tuple[int, Price | RateStep]] = [(-1, price), *((step.above, step) for step in price.steps)]
    rates = [
        rates
        for above, step in steps
        if bound.input > above
        for rates in ((step.batch, step.standard) if price.inferred else (step.batch,))
    ]
    costs = (
        bound.input * max(rate.dearest_input, rate.hour_write if bound.is_kept_an_hour else rate.dearest_input)
        + bound.output * rate.output
        for rate in rates
    )
    return max(costs).scaleb(PER_MILLION)


def _keeps_an_hour(value: JsonValue) -> bool:
    """Return whether parameters ask for a cache that keeps input for an hour (Anthropic: ``"ttl": "1h"``)."""
    if isinstance(value, Mapping):
        return value.get("ttl") == "1h" or any(map(_keeps_an_hour, value.values()))
    return isinstance(value, list | tuple) and any(map(_keeps_an_hour, value))


def text_bytes(prompt: Prompt) -> int:
    """Return the bytes of the prompt's text."""
    return _bytes(prompt.system) + sum(_bytes(part) for part in prompt.parts if isinstance(part, str))


def _bytes(text: str) -> int:
    # "surrogatepass": text with a lone surrogate is refused elsewhere; counting it must not raise
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _json_bytes(value: JsonValue) -> int:
    """Bound the length of the value as indented JSON text, without building the text."""
    if isinstance(value, str):
        return 6 * len(value) + 4
    if isinstance(value, Mapping):
        return 8 + sum(6 * len(key) + 16 + _json_bytes(member) for key, member in value.items())
    if isinstance(value, list | tuple):
        return 8 + sum(8 + _json_bytes(member) for member in value)
    return len(str(value)) + 2


def output_bound(spec: ModelSpec) -> int:
    """Return the most output tokens of one request, reasoning included, over all the choices asked for."""
    limits = [limit for limit in (spec.max_output_tokens, *_integers(spec.params, _LIMIT_KEYS)) if limit]
    budget = spec.reasoning.budget_tokens or 0
    if limits:
        limit = max(limits)
        # A limit that leaves no room beside the budget is sent as the sum by APIs whose limit counts reasoning too.
        most = limit + budget if budget >= limit else limit
    else:
        most = _assumed_output(spec, budget)
    return most * max([1, *_integers(spec.params, _CHOICES_KEYS)])


def _assumed_output(spec: ModelSpec, budget: int) -> int:
    """Return the most output tokens if the manifest states no limit: the limit that the request always states, else an
    allowance. The result is at most the model's own limit, if that is known.
    """
    if (stated := model_table.STATED_LIMITS.get(spec.provider)) is not None:
        alone, beside_a_budget = stated
        return budget + beside_a_budget if budget else alone
    allowance = OUTPUT_BY_EFFORT.get(spec.reasoning.effort, OUTPUT_BY_EFFORT["high"])
    model_entry = model_table.load().model(spec.provider, spec.model)
    real = model_entry.max_output_tokens if model_entry is not None else None
    most = budget + VISIBLE_OUTPUT if budget else allowance
    return most if real is None else min(most, real)


def _integers(params: Mapping[str, JsonValue], keys: tuple[str, ...]) -> list[int]:
    places = [params, *(inner for key in _NESTED_KEYS if isinstance(inner := params.get(key), Mapping))]
    values = (place.get(key) for place in places for key in keys)
    return [value for value in values if isinstance(value, int) and not isinstance(value, bool) and value > 0]


# ---- images: how many tokens one can be billed as at most, by provider, from its size in pixels --------------------


_LOOKS = (32, 4096, None)
"""Base64 characters, multiples of 4: the size of a PNG or GIF, most headers of a JPEG, all."""
_FRAME_MARKERS = frozenset({*range(0xC0, 0xC4), *range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0)})
_NO_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
_MOST_PIXELS = 65_535  # a side longer than this is no image that a provider takes


def image_tokens(size: Size | None, provider: str, model: str) -> int:
    """An upper bound of the input tokens of an image of this size; see the formulas below for each provider's
    source."""
    formula = _FORMULAS.get(provider, _open_weights)
    if provider == "openai" and model.startswith("gpt-4o-mini"):
        formula = _gpt_4o_mini
    return formula(size)


def image_size(image: Image) -> Size | None:
    """Return (width, height) in pixels; None if the header has no size or an absurd size."""
    try:
        size = None
        for look in _LOOKS:
            size = size or _header_size(b64decode(image.base64[:look]))
    except (binascii.Error, ValueError):
        return None
    if size is None or not (0 < size[0] <= _MOST_PIXELS and 0 < size[1] <= _MOST_PIXELS):
        return None
    return size


def _header_size(data: bytes) -> Size | None:
    if data[:8] == b"\x89PNG\r\n\x1a\n" and len(data) >= 24:
        return int.from_bytes(data[16:20], "big"), int.from_bytes(data[20:24], "big")
    if data[:6] in {b"GIF87a", b"GIF89a"} and len(data) >= 10:
        return int.from_bytes(data[6:8], "little"), int.from_bytes(data[8:10], "little")
    return _jpeg_size(data) if data[:2] == b"\xff\xd8" else None


def _jpeg_size(data: bytes) -> Size | None:
    """Walks the segments up to the frame header; every step goes forward, so broken files end too."""
    at = 2
    while at + 9 <= len(data):
        if data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if marker == 0xFF:  # fill byte
            at += 1
        elif marker in _NO_LENGTH:
            at += 2
        elif marker in _FRAME_MARKERS:
            return int.from_bytes(data[at + 7 : at + 9], "big"), int.from_bytes(data[at + 5 : at + 7], "big")
        else:
            at += 2 + max(int.from_bytes(data[at + 2 : at + 4], "big"), 2)
    return None


def _patches(size: Size, side: int) -> int:
    return ceil(size[0] / side) * ceil(size[1] / side)


def _fit(size: Size, longest: int) -> Size:
    """Shrunk, keeping its shape, so that neither side exceeds ``longest``."""
    scale = min(1.0, longest / max(size))
    return ceil(size[0] * scale), ceil(size[1] * scale)


def _openai_tiles(size: Size) -> int:
    """512-pixel tiles at high detail: fitted into 2048 px, short side brought to 768 px (small images: scaled up)."""
    long_side = min(2048, ceil(768 * max(size) / min(size)))
    return ceil(long_side / 512) * 2


def _openai(size: Size | None) -> int:
    """The dearer of both systems in OpenAI's images guide: 85 + 170 a tile; 32-pixel patches (10,000 at the finest
    detail) at the largest multiplier, 2.46."""
    if size is None:
        return 24_600
    return max(85 + 170 * _openai_tiles(size), ceil(min(_patches(size, 32), 10_000) * 2.46))


def _gpt_4o_mini(size: Size | None) -> int:
    """2,833 + 5,667 a tile (images guide)."""
    return 2833 + 5667 * (8 if size is None else _openai_tiles(size))


def _anthropic(size: Size | None) -> int:
    """Area / 750, or 28-pixel patches; images are shrunk to 4,784 tokens at most (vision guide, high resolution)."""
    if size is None:
        return 4784
    return min(max(ceil(size[0] * size[1] / 750), _patches(size, 28)), 4784)


def _gemini(size: Size | None) -> int:
    """The dearer of Gemini 3's 2,240 at ultra high media resolution and Gemini 2's 258 a tile (its guides)."""
    if size is None:
        return 31_218
    tile = min(max(int(min(size) / 1.5), 256), 768)
    return max(2240, 258 * min(_patches(size, tile), 121))


def _mistral(size: Size | None) -> int:
    """A token a 28-pixel patch up to 1540 px, or a 16-pixel patch up to 1024 px (Pixtral), and one a row."""
    if size is None:
        return 4160
    rows = [(_fit(size, 1540), 28), (_fit(size, 1024), 16)]
    return max(ceil(fit[1] / side) * (ceil(fit[0] / side) + 1) for fit, side in rows)


def _open_weights(size: Size | None) -> int:
    """The dearest of the open models: Qwen-VL and Kimi a token a 28-pixel patch up to 16,384; Llama 3.2 four tiles of
    1,601, which also covers Llama 4's tiles (model cards)."""
    return 16_384 if size is None else max(6404, min(_patches(size, 28), 16_384))


_FORMULAS: dict[str, Callable[[Size | None], int]] = {
    "openai": _openai,
    "anthropic": _anthropic,
    "gemini": _gemini,
    "vertex": _gemini,
    "mistral": _mistral,
}


BYTES_PER_TOKEN = 4
"""Bytes of ordinary text for each token."""
OVERHEAD = 150
"""Tokens of the chat template and the response schema."""


@dataclass(frozen=True, slots=True)
class Priors:
    """Tokens of a reply: ``text`` by role, ``reasoning`` by effort (``default``: none named), or of a budget; a judge's
    is ``of_judging`` of that."""

    as_of: str
    text: Mapping[str, int]
    reasoning: Mapping[str, int]
    of_budget: float
    of_judging: float

    def output(self, spec: ModelSpec, role: Role) -> int:
        """Estimate the output tokens of one request, reasoning included; at most what the request may use."""
        budget, effort = spec.reasoning.budget_tokens, spec.reasoning.effort or "default"
        if budget is not None:
            thought = int(self.of_budget * budget)
        else:  # an effort that the table lacks is above those it has
            thought = self.reasoning.get(effort, self.reasoning["high"])
        share = 1.0 if role is Role.PREDICT else self.of_judging
        return min(self.text[role] + int(share * thought), output_bound(spec))


@cache
def bundled_priors() -> Priors:
    """Load ``priors.toml`` of the package."""
    data = tomllib.loads((files("layton_batch.costs") / "priors.toml").read_text(encoding="utf-8"))
    reasoning = dict(data["reasoning"])
    budget, judging = float(reasoning.pop("of_budget")), float(reasoning.pop("of_judging"))
    return Priors(str(data["as_of"]), data["text"], reasoning, budget, judging)


def expected_input(size: PromptSize, spec: ModelSpec) -> int:
    """Estimate the input tokens of a prompt of ordinary text; images count as in the bound."""
    return OVERHEAD + size.image_tokens(spec) + size.text_bytes // BYTES_PER_TOKEN


def expected_cost(input_tokens: int, output_tokens: int, price: Price) -> Decimal:
    """Return the USD of one request in a batch, nothing cached."""
    return charge(Usage(input_tokens=input_tokens, output_tokens=output_tokens), price, batched=True)
