"""Names beside points, and pictures of text that is hostile."""

from __future__ import annotations

import random
from xml.etree import ElementTree

import altair as alt
import pytest

from layton_batch.drawing import name_offsets, recoloured, rendered, specification, svg, table, titled

WIDTH, HEIGHT = 1000.0, 400.0
Place = tuple[float, float]


def boxes(points: list[Place], name: str = "a-model") -> list[tuple[float, float, float, float]]:
    offsets = name_offsets(points, [name] * len(points), WIDTH, HEIGHT)
    wide = 6.6 * len(name)
    return [(x + dx, x + dx + wide, y + dy - 5, y + dy + 5) for (x, y), (dx, dy) in zip(points, offsets, strict=True)]


def test_no_name_covers_another_or_a_point_where_there_is_room() -> None:
    rng = random.Random(5)
    points = [(rng.uniform(0, 300), rng.uniform(20, 380)) for _ in range(15)]
    found = boxes(points)
    for i, (left, right, top, bottom) in enumerate(found):
        assert not any(a < right and left < b and c < bottom and top < d for a, b, c, d in found[i + 1 :])
        assert not any(left < x < right and top < y < bottom for x, y in points)


def said(text: str) -> alt.LayerChart:
    mark = alt.Chart(table([{"x": 1, "text": text}])).mark_text().encode(x="x:Q", text="text:N", description="text:N")
    return titled(alt.LayerChart(layer=[mark]), text)


def test_a_point_tells_what_it_is_and_hostile_text_is_text() -> None:
    text = "<script>alert(1)</script> & \x1b\0\ud800\uffff"
    root = ElementTree.fromstring(rendered(said(text), ".svg"))
    clean = "<script>alert(1)</script> &     "
    assert clean in [element.attrib.get("aria-label") for element in root.iter()]
    assert not any(element.tag.endswith("script") for element in root.iter())
    assert rendered(said(text), ".PNG").startswith(b"\x89PNG")


def test_nothing_is_fetched() -> None:
    chart = alt.LayerChart(layer=[alt.Chart("http://127.0.0.1:9/rows.json").mark_point().encode(x="x:Q")])
    with pytest.raises(ValueError, match="not allowed"):
        rendered(chart, ".svg")


def test_letters_of_other_scripts_are_drawn() -> None:
    assert rendered(said("Wörter 猫…"), ".png") != rendered(said("Worter"), ".png")


def test_a_picture_in_a_page_has_the_page_s_colours_no_height_and_its_marks_tell_what_they_are() -> None:
    rows = table([{"x": 1, "text": "<b>wren</b>: 5"}, {"x": 2, "text": "tern"}])
    mark = alt.Chart(rows).mark_circle(color="#0072b2").encode(x="x:Q", description="text:N")
    picture = svg(specification(titled(alt.LayerChart(layer=[mark]), "Scores")))
    page = recoloured(picture, {"#0072b2": "var(--accent)"}, 'Scores & "more"', {"<b>wren</b>: 5": 0, "tern": 1}, 1)
    root = ElementTree.fromstring(page)
    assert (root.get("role"), root.get("aria-label"), root.get("height")) == ("img", 'Scores & "more"', None)
    assert [element.text for element in root.iter() if element.tag.endswith("title")] == ["<b>wren</b>: 5", "tern"]
    assert {element.get("fill") for element in root.iter()} >= {"var(--accent)"}
    assert "#0072b2" not in {element.get("fill") for element in root.iter()}
    models = [(one.get("data-model"), one.get("display")) for one in root.iter() if one.get("data-model")]
    assert models == [("0", None), ("1", "none")]  # the second is not chosen at first
