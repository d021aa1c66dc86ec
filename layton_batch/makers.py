"""Makers of models as readers know them: their names and colours by the family that a manifest states."""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256

_NAMES = {
    "alibaba": "Alibaba", "amazon": "Amazon", "anthropic": "Anthropic", "cohere": "Cohere", "deepseek": "DeepSeek",
    "doubleword": "Doubleword", "gemini": "Google", "google": "Google", "groq": "Groq", "ibm": "IBM", "meta": "Meta",
    "microsoft": "Microsoft", "minimax": "MiniMax", "mistral": "Mistral AI", "moonshotai": "Moonshot AI",
    "nvidia": "NVIDIA", "openai": "OpenAI", "openrouter": "OpenRouter", "qwen": "Qwen", "together": "Together AI",
    "vertex": "Vertex AI", "xai": "xAI", "z-ai": "Z.ai", "zai": "Z.ai",
}  # fmt: skip
_COLOURS = {
    "Alibaba": "#7a5fd0", "Amazon": "#b06a00", "Anthropic": "#c15f3c", "Cohere": "#3f7f6f", "DeepSeek": "#4a68e0",
    "Google": "#2f7de1", "IBM": "#3a6fd8", "Meta": "#0f7fb5", "Microsoft": "#3d8a2e", "MiniMax": "#c0455f",
    "Mistral AI": "#c46a00", "Moonshot AI": "#5b6f86", "NVIDIA": "#5c8a00", "OpenAI": "#158a6b", "Qwen": "#7a5fd0",
    "xAI": "#77787c", "Z.ai": "#a3558f",
}  # fmt: skip
_OTHERS = ("#b0557a", "#3f8590", "#8a7a25", "#8664b8", "#a8624a", "#4f8450", "#5a76b5", "#96705a")
"""Colours of makers that have none of their own. Each colour here stands out from a white and from a black page."""


def maker_name(family: str) -> str:
    """Return the name of a maker or provider: ``Google`` for ``gemini``. An unknown family stays as it is."""
    return _NAMES.get(family.lower(), family)


def maker_colour(family: str, own: Mapping[str, str]) -> str:
    """Return the maker's colour as ``#rrggbb``. ``own``: colours that a manifest states, by family or name of a maker.

    A maker without a known colour has the same colour on every page and day.
    """
    name = maker_name(family)
    stated = {maker_name(key).lower(): colour for key, colour in own.items()}
    chosen = stated.get(name.lower()) or _COLOURS.get(name)
    return chosen or _OTHERS[sha256(name.lower().encode("utf-8", "replace")).digest()[0] % len(_OTHERS)]
