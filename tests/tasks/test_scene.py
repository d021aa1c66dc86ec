"""Names beside points, and letters that a font may lack."""

from __future__ import annotations

import io
import random
from itertools import pairwise
from xml.etree import ElementTree

import pytest
from PIL import Image

from layton_batch.tasks import scene
from layton_batch.tasks.scene import Circle, Line, Names, Scene, Text, png, shortened, svg

TOP, BOTTOM = 0.0, 400.0


def placed(points: list[tuple[float, float]], name: str = "a-model") -> list[Text]:
    names = Names(points, TOP, BOTTOM)
    shapes = [shape for x, y in points for shape in names.beside(x, y, name)]
    return [shape for shape in shapes if isinstance(shape, Text)]


def test_a_lonely_name_stands_beside_its_point_without_a_thread() -> None:
    names = Names([(50.0, 50.0)], TOP, BOTTOM)
    (text,) = names.beside(50.0, 50.0, "model")
    assert isinstance(text, Text)
    assert (text.x, text.anchor) == (59.0, "start")
    (text,) = Names([(50.0, 50.0)], TOP, BOTTOM).beside(50.0, 50.0, "model", on_left=True)
    assert isinstance(text, Text)
    assert (text.x, text.anchor) == (41.0, "end")


def test_names_of_one_place_stand_apart_inside_the_picture_with_threads() -> None:
    points = [(50.0, 395.0)] * 20
    texts = placed(points)
    heights = sorted(text.y for text in texts)
    assert all(b - a >= 11 for a, b in pairwise(heights))
    assert heights[0] > TOP
    assert heights[-1] < BOTTOM + 1
    names = Names(points, TOP, BOTTOM)
    threads = [shape for x, y in points for shape in names.beside(x, y, "m") if isinstance(shape, Line)]
    assert len(threads) >= 19


def test_no_name_covers_another_or_a_point_where_there_is_room() -> None:
    rng = random.Random(5)
    points = [(rng.uniform(0, 300), rng.uniform(20, 380)) for _ in range(15)]
    texts = placed(points)
    boxes = [(text.x, text.x + 6.6 * len(text.text), text.y - 9, text.y + 1) for text in texts]
    for i, (left, right, top, bottom) in enumerate(boxes):
        assert not any(a < right and left < b and c < bottom and top < d for a, b, c, d in boxes[i + 1 :])
        assert not any(left < x < right and top < y < bottom for x, y in points)


def test_more_names_than_there_is_room_for_end_well() -> None:
    assert len(placed([(50.0, 50.0)] * 200)) == 200


@pytest.mark.parametrize(("name", "letters", "short"), [("gpt-5", 5, "gpt-5"), ("abcdefghij", 5, "ab…ij"), ("", 3, "")])
def test_a_long_name_loses_its_middle(name: str, letters: int, short: str) -> None:
    assert shortened(name, letters) == short


def test_a_point_tells_what_it_is() -> None:
    root = ElementTree.fromstring(svg(Scene(9, 9, "t", [Circle(1, 1, 1, "#000000", "<b> & \x1b")])))
    assert [title.text for title in root.iter("{http://www.w3.org/2000/svg}title")] == ["t", "<b> &  "]


def test_without_a_font_of_its_own_a_picture_spells_names_in_plain_letters(monkeypatch: pytest.MonkeyPatch) -> None:
    def drawn(text: str) -> bytes:
        return Image.open(io.BytesIO(png(Scene(80, 20, "t", [Text(40, 15, text)]), scale=1))).tobytes()

    scene._font.cache_clear()
    monkeypatch.setattr(scene, "_FONTS", ("a-font-that-nobody-has.ttf",))
    try:
        assert drawn("Wörter 猫…") == drawn("Worter ?…")
    finally:
        scene._font.cache_clear()
