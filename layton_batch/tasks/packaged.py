"""Files that come with the package: prompts and items of each benchmark."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from layton_batch.errors import DataError

PROMPTS = Path(__file__).parent / "prompts"
"""The folder with a folder of templates for each task."""
_DATA = Path(__file__).parent / "data"


def bundled_file(name: str, split: str, splits: Sequence[str]) -> Path:
    """Return a file of items that comes with the package. Raises DataError for a split without bundled items."""
    if split not in splits:
        raise DataError(f"no bundled items for split {split!r}; there is {', '.join(splits)}")
    return _DATA / name
