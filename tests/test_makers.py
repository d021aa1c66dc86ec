"""Makers have the names that readers know, and colours that can be seen on a light and on a dark page."""

from __future__ import annotations

import pytest

from layton_batch.makers import maker_colour, maker_name
from layton_batch.providers import BUILT_IN


@pytest.mark.parametrize(
    ("family", "name"), [("gemini", "Google"), ("OpenAI", "OpenAI"), ("mistral", "Mistral AI"), ("acme", "acme")]
)
def test_a_maker_has_the_name_that_readers_know(family: str, name: str) -> None:
    assert maker_name(family) == name


def test_a_colour_of_the_manifest_wins_by_family_or_name_and_the_others_stay() -> None:
    assert maker_colour("gemini", {"Google": "#123456"}) == "#123456"
    assert maker_colour("Google", {"gemini": "#123456"}) == "#123456"
    assert maker_colour("acme", {}) == maker_colour("acme", {"openai": "#123456"})


@pytest.mark.parametrize("page", ["#fdfdfb", "#14171b"])
@pytest.mark.parametrize("maker", [*BUILT_IN, *map(str, range(40))])
def test_every_colour_stands_out_from_a_page(maker: str, page: str) -> None:
    colour = maker_colour(maker, {})
    bright, dark = sorted((_luminance(colour), _luminance(page)), reverse=True)
    assert (bright + 0.05) / (dark + 0.05) >= 3, "WCAG 1.4.11"


def _luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue
