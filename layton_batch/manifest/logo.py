"""The logo of a site: an image file, carried in the manifest as a data URL, so that a page loads nothing."""

from __future__ import annotations

from base64 import b64encode
from pathlib import Path

from layton_batch.errors import DataError

MOST_BYTES = 100_000
"""Limit of a logo: it stands in the manifest of every revision, and in the page."""
_STARTS = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpeg", b"GIF87a": "gif", b"GIF89a": "gif"}


def logo_url(path: Path) -> str:
    """Return the image as a data URL. Raises DataError for a file that is missing, too large or no image.

    SVG is refused: it is a document that can carry scripts.
    """
    try:
        if not path.is_file():
            raise DataError(f"no file {path}; a logo is a file on this machine")
        if path.stat().st_size > MOST_BYTES:
            raise DataError(f"{path}: {path.stat().st_size:,} bytes are too many for a logo (at most {MOST_BYTES:,})")
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    return f"data:image/{_kind(content, path)};base64,{b64encode(content).decode()}"


def _kind(content: bytes, path: Path) -> str:
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "webp"
    kind = next((kind for start, kind in _STARTS.items() if content.startswith(start)), None)
    if kind is None:
        raise DataError(f"{path}: is no PNG, JPEG, WebP or GIF image")
    return kind
