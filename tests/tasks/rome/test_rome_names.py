"""The corrected rules for key items and locations: whole names in any spelling, and not merely ruled out."""

from __future__ import annotations

import json

import pytest

from tests.tasks.rome.grading import grade_answer


def says(reply: str, name: str, remove_space: bool = False) -> bool:
    mark = grade_answer("key_items_matching", {"key_items": [[name]], "remove_space": remove_space}, reply)
    assert mark.error is None
    return bool(mark.score)


@pytest.mark.parametrize(
    ("reply", "name"),
    [
        ("Rome, Italy", "rome"), ("tokyo disneyland", "Tokyo Disney"), ("Tokyo DisneySea", "Tokyo Disney"),
        ("中国北京", "北京"), ("서울은",
        "서울"), ("10km", "10"),
        ("New\nYork", "New York"), ("bananas", "banana"), ("buses", "bus"), ("Tokyo's tower", "Tokyo"), ("H₂O", "H2O"),
        ("\\text{H}_{2}\\text{O}", "H2O"), ("São Paulo", "sao paulo"), ("Sao Paulo", "São Paulo"),
        ("Straße", "STRASSE"),
        ("İstanbul", "Istanbul"), ("Zu\u0308rich", "Zürich"), ("well\u2011known", "well-known"),
        ("St. Peter′s", "St. Peter's"),
        ("5–6", "5-6"), ("5-6", "5–6"), ("10\u00a0m", "10 m"), ("C++ and C", "C++"), ("\\frac{42}{1}", "42"),
        ("Monterrey. (Answer confidence: high)", "Monterrey"),
    ],
)  # fmt: skip
def test_a_name_is_found_in_any_spelling(reply: str, name: str) -> None:
    assert says(reply, name)


@pytest.mark.parametrize(
    ("reply", "name"),
    [
        ("Prometheus", "Rome"), ("There are 10", "1"), ("10.5", "10"), ("10.5", "5"), ("1,234", "234"), ("-7", "7"),
        ("Yesterday it rained; no", "yes"), ("H2O2", "H2O"), ("category", "cat"), ("Starrynight", "Starry Night"),
        ("caf", "café"), ("\\boxed{}", "x"), ("", "x"),
    ],
)  # fmt: skip
def test_a_part_of_a_word_or_number_is_no_name(reply: str, name: str) -> None:
    assert not says(reply, name)


@pytest.mark.parametrize(
    "reply",
    [
        "Not Tokyo, it is Osaka", "It is not in Tokyo", "It can't be Tokyo", "neither Osaka nor Tokyo",
        "Osaka (not Tokyo)",
        "Osaka rather than Tokyo", "Tokyo is not correct", "Tokyo isn't the right answer; Osaka is", "Tokyo is wrong",
        "不是东京, Tokyo 错误", "It cannot be Osaka or Tokyo", "anywhere except Tokyo", "No Tokyo",
    ],
)  # fmt: skip
def test_a_name_that_is_ruled_out_is_not_said(reply: str) -> None:
    assert not says(reply, "Tokyo")


@pytest.mark.parametrize(
    "reply",
    [
        "Tokyo rather than Osaka", "not only Tokyo but also Osaka", "There is no doubt it is Tokyo",
        "I'm not sure but Tokyo",
        "The team that does not travel is Tokyo", "Tokyo is not traveling", "not Osaka; Tokyo", "Not Tokyo? Yes: Tokyo",
    ],
)  # fmt: skip
def test_a_denial_of_something_else_does_no_harm(reply: str) -> None:
    assert says(reply, "Tokyo")


def test_blanks_count_unless_the_annotation_says_otherwise() -> None:
    assert not says("x=5", "x = 5")
    assert says("x=5", "x = 5", remove_space=True)
    assert says("I love New  York city", "NewYork", remove_space=True)
    assert not says("xx = 5", "x = 5", remove_space=True)


def test_every_group_needs_one_of_its_variants_and_a_plain_list_any_one() -> None:
    groups = {"key_items": [["van Gogh", "Vincent"], ["Starry Night"]]}
    assert grade_answer("key_items_matching", groups, "Starry night, Vincent").score == 1
    assert grade_answer("key_items_matching", groups, "Starry night").score == 0
    assert grade_answer("key_items_matching", {"key_items": ["a", "b"]}, "b").score == 1


def test_the_first_list_that_has_a_name_decides_what_a_location_is_worth() -> None:
    places = {"location_fine_grained": ["Oslo"], "location_coarse_grained": ["Norway"]}
    for reply, worth in (("Oslo, Norway", 1.0), ("Norway", 0.5), ("Not Oslo, but in Norway", 0.5), ("Sweden", 0)):
        assert json.dumps(grade_answer("location_matching", places, reply).score) == json.dumps(worth)
    own = {**places, "fine_grained_score": 2, "coarse_grained_score": 1}
    assert json.dumps(grade_answer("location_matching", own, "Oslo").score) == "2"
    assert grade_answer("location_matching", {"location_fine_grained": "Paris"}, "Lapland").score == 0


@pytest.mark.parametrize(
    ("evaluator", "arguments", "told"),
    [
        ("key_items_matching", {"key_items": []}, "key_items must be a list with something in it"),
        ("key_items_matching", {"key_items": [[]]}, "key_items[0] names nothing to look for"),
        ("key_items_matching", {"key_items": [["a"], [" "]]}, "key_items[1] names nothing to look for"),
        ("key_items_matching", {"key_items": [["a"], 5]}, "key_items[1] must be a list of texts"),
        ("key_items_matching", {"key_item": ["a"]}, "takes no key_item (it takes key_items, remove_space)"),
        ("location_matching", {}, "location_fine_grained must be a list of texts"),
        (
            "location_matching",
            {"location_fine_grained": ["a"], "fine_grained_score": "x"},
            "fine_grained_score must be",
        ),
        ("telepathy", {}, "there is no evaluator 'telepathy'"),
    ],
)
def test_what_cannot_be_graded_by_gets_zero_and_a_reason(
    evaluator: str, arguments: dict[str, object], told: str
) -> None:
    mark = grade_answer(evaluator, arguments, "a")  # type: ignore[arg-type]
    assert mark.score == 0
    assert told in (mark.error or "")


@pytest.mark.parametrize(
    ("name", "reply", "score"),
    [
        ("12000", "Answer: 12,000 people", 1),
        ("12,000", "Answer: 12000", 1),
        ("1200", "Answer: 1,200,000", 0),
        ("1200", "Answer: 11200", 0),
        ("3.5", "Answer: 35", 0),
        ("St. Louis", "Answer: St Louis, Missouri", 1),
        ("Washington DC", "Answer: Washington D.C.", 1),
        ("U.S.", "Answer: the US", 1),
        ("USA", "Answer: the U.S.A.", 1),
        ("US", "Answer: because of it", 0),
        ("C", "Answer: C++", 0),
        ("C", "Answer: C#", 0),
        ("C++", "Answer: C++", 1),
        ("C", "Answer: C.", 1),
    ],
)
def test_points_and_commas_that_only_spell_a_name_do_not_matter(name: str, reply: str, score: int) -> None:
    assert grade_answer("key_items_matching", {"key_items": [[name]]}, reply).score == score
    assert grade_answer("location_matching", {"location_fine_grained": [name]}, reply).score == score
