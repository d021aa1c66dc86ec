"""Rounds averaged as the report averages them, and accuracy drawn against tokens."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import pytest

from layton_batch.drawing import rendered
from layton_batch.errors import DataError
from layton_batch.tasks.rome_rules.grades import Rounds, over_rounds
from layton_batch.tasks.rome_rules.scatter import Point, scatter_chart


def test_four_rounds_have_a_mean_and_a_sample_standard_deviation() -> None:
    rounds = Rounds.of([60.0, 62.0, 58.0, 64.0])
    assert rounds.mean == 61.0
    assert rounds.std == pytest.approx(math.sqrt(20 / 3))
    assert rounds.shown() == "61.00 ± 2.58"


def test_one_round_has_no_deviation_and_none_is_an_error() -> None:
    assert Rounds.of([50.0]).std is None
    assert Rounds.of([50.0]).shown(1) == "50.0"
    with pytest.raises(DataError, match="no rounds"):
        Rounds.of([])


def test_rounds_are_averaged_bucket_by_bucket_from_the_exact_sums() -> None:
    first = {"final_score": [2, 3], "accuracy": 66.667, "t": [2, 3, 0.667, {}]}
    second = {"final_score": [1, 3], "accuracy": 33.333, "t": [1, 3, 0.333, {}], "u": [0.5, 1, 0.5, {}]}
    found = over_rounds([first, second])
    assert list(found) == ["accuracy", "t", "u"]
    assert found["t"].values == pytest.approx((200 / 3, 100 / 3))
    assert found["accuracy"].mean == 50.0
    assert (found["u"].mean, found["u"].std) == (50.0, None)
    with pytest.raises(DataError, match="'x' is neither"):
        over_rounds([{"x": "high"}])


def point(model: str, *rounds: tuple[float, float]) -> Point:
    """A model's rounds of accuracy and tokens."""
    return Point(model, *(Rounds.of(values) for values in zip(*rounds, strict=True)))


POINTS = [point(f"model {m} <&>", *((40.0 + 5 * m + r, 300.0 * 3**m) for r in range(4))) for m in range(4)]


def test_the_picture_is_well_formed_and_names_every_model_once_beside_its_point() -> None:
    root = ElementTree.fromstring(rendered(scatter_chart(POINTS, "Accuracy & tokens \x00"), ".svg"))
    shown = [one for one in root.iter("{http://www.w3.org/2000/svg}text") if one.get("stroke") != "white"]
    texts = [element.text for element in shown]
    assert [text for text in texts if text and text.startswith("model")] == [f"model {m} <&>" for m in (3, 2, 1, 0)]
    circles = [one.attrib["transform"] for one in root.iter() if one.get("aria-roledescription") == "circle"]
    places = [place.removeprefix("translate(").rstrip(")").split(",") for place in circles]
    across, up = ([float(place[i]) for place in places] for i in (0, 1))
    assert across == sorted(across, reverse=True)
    assert up == sorted(up)


@pytest.mark.parametrize("points", [[], [point("a", (0.0, 0.0))], [point("a", (50.0, 1.0)), point("b", (50.0, 1.0))]])
def test_few_and_equal_points_are_drawn_too(points: list[Point]) -> None:
    ElementTree.fromstring(rendered(scatter_chart(points, "few"), ".svg"))


@pytest.mark.parametrize("values", [(math.nan, 1.0), (1.0, math.inf), (1.0, -1.0)])
def test_what_cannot_be_drawn_is_refused(values: tuple[float, float]) -> None:
    with pytest.raises(DataError, match="cannot be drawn"):
        scatter_chart([point("a", values)], "none")
