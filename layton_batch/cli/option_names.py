"""Older spellings of options: a command takes them, and its help does not list them."""

from __future__ import annotations


def renamed(**names: str) -> dict[str, object]:
    """Return a command's settings for Typer. ``names``: the present name of an option by its older name."""

    def newer(name: str) -> str:
        return names.get(name, name)

    return {"token_normalize_func": newer}
