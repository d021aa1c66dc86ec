"""How many tokens an image can be billed as at most, by provider, from its size in pixels.

The size is read from the header alone (JPEG, PNG, GIF). An image whose size cannot be read counts as the largest that
the provider bills.
"""

from __future__ import annotations

import binascii
from base64 import b64decode
from collections.abc import Callable
from math import ceil

from layton_batch.records import Image

_FIRST_LOOK = 4096  # base64 characters; a multiple of 4. Most headers lie within, so large images are not decoded whole
_FRAME_MARKERS = frozenset({*range(0xC0, 0xC4), *range(0xC5, 0xC8), *range(0xC9, 0xCC), *range(0xCD, 0xD0)})
_NO_LENGTH = frozenset({0x01, *range(0xD0, 0xD9)})
_MOST_PIXELS = 65_535  # a side longer than this is no image that a provider takes

Size = tuple[int, int]


def image_tokens(image: Image, provider: str, model: str) -> int:
    """An upper bound of the input tokens of one image; see the formulas below for each provider's source."""
    formula = _FORMULAS.get(provider, _open_weights)
    size = image_size(image)
    if provider == "openai" and model.startswith("gpt-4o-mini"):
        formula = _gpt_4o_mini
    return formula(size)


def image_size(image: Image) -> Size | None:
    """(width, height) in pixels; None where the header does not say, or says something absurd."""
    try:
        found = _header_size(b64decode(image.base64[:_FIRST_LOOK]))
        if found is None and len(image.base64) > _FIRST_LOOK:
            found = _header_size(b64decode(image.base64))
    except (binascii.Error, ValueError):
        return None
    if found is None or not (0 < found[0] <= _MOST_PIXELS and 0 < found[1] <= _MOST_PIXELS):
        return None
    return found


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
