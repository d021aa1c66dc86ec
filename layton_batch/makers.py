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


_PALETTE = (
    "#8664b8", "#b06a00", "#3f8590", "#d03f7a", "#5c8a00", "#2f7de1", "#c15f3c", "#77787c", "#158a6b", "#8a7a25",
    "#b04fc4", "#0f8fb5", "#c23b3b", "#4f8450",
)  # fmt: skip
"""Colours of further models of a maker."""


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


def model_colours(makers: Mapping[str, str], own: Mapping[str, str]) -> dict[str, str]:
    """Return a colour for each model. ``makers``: the maker of each model; ``own``: as of :func:`maker_colour`.

    The first model of a maker, by its name, has the maker's colour. Each other model has the colour that is most
    unlike those before it.
    """
    colours: dict[str, str] = {}
    for model in sorted(makers):
        colour = maker_colour(makers[model], own)
        if colour not in colours.values():
            colours[model] = colour
    for model in sorted(makers.keys() - colours.keys()):
        taken = set(colours.values())
        free = [colour for colour in _PALETTE if colour not in taken] or _PALETTE
        colours[model] = max(free, key=lambda colour: min(_distance(colour, other) for other in taken))
    return colours


def _distance(colour: str, other: str) -> int:
    parts = ((int(colour[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5))
    return sum((first - second) ** 2 for first, second in parts)
