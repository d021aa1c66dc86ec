"""Whatever the number, list, letters or name: formats do not matter, and nothing that is said can raise."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.tasks.rome.grading import grade_answer

LABELS = st.sampled_from(
    [
        "{}",
        "Final Answer: {}",
        "**Final Answer:** {}",
        "The answer is {}.",
        "\\boxed{{{}}}",
        "答案：{}",
        "Answer:\n{}\n",
    ]
)
WORDS = ["amber", "birch", "cedar", "dune", "ember", "fjord", "grove", "heath"]


def score(evaluator: str, reply: str, **arguments: object) -> object:
    return grade_answer(f"{evaluator}_matching", arguments, reply).score  # type: ignore[arg-type]


@given(st.integers(-(10**12), 10**12), st.sampled_from(["{}", "{:,}", "{}.0", "{:+}", "about {}", "{} km"]), LABELS)
def test_an_integer_is_right_in_every_format_and_its_neighbour_is_not(value: int, form: str, label: str) -> None:
    reply = label.format(form.format(value))
    assert score("number", reply, value_to_match=value) == 1
    assert score("number", reply, value_to_match=value + 1) == 0


@given(
    st.permutations(WORDS),
    st.integers(1, 6),
    st.sampled_from([", ", ",", "; ", " > ", " -> ", " → ", "、", "，", "\n", " | ", " / ", ", then ", " and "]),
    LABELS,
)
def test_a_list_is_right_with_every_separator_and_wrong_in_every_other_order(
    words: list[str], size: int, separator: str, label: str
) -> None:
    order = words[:size]
    reply = label.format(separator.join(order))
    assert score("ordered_list", reply, order=order) == 1
    if size > 1:
        assert score("ordered_list", reply, order=order[::-1]) == 0
        assert score("ordered_list", reply, order=order[:-1]) == 0
        assert score("ordered_list", reply, order=[*order, words[-1]]) == 0


@given(
    st.sets(st.sampled_from("ABCDEFGHIJKLMNOPQRSTUVWXYZ"), min_size=1, max_size=5),
    st.randoms(use_true_random=False),
    st.sampled_from([", ", ",", " and ", "; ", "、", "/", "", " "]),
    st.sampled_from(["{}", "({})"]),
    LABELS,
)
def test_letters_are_right_in_any_order_and_only_all_of_them(
    letters: set[str], chance: object, separator: str, form: str, label: str
) -> None:
    chosen = sorted(letters)
    chance.shuffle(chosen)  # type: ignore[attr-defined]
    reply = label.format(separator.join(form.format(letter) for letter in chosen))
    assert score("choices", reply, label="".join(sorted(letters))) == 1
    other = next(letter for letter in "ABCDEF" if letter not in letters)
    assert score("choices", reply, label=other) == 0
    assert score("choices", reply, label="".join({*letters, other})) == 0


@given(
    st.sampled_from(WORDS), st.sampled_from(WORDS), st.sampled_from(["{}", "in {}.", "“{}”", "{}, up north"]), LABELS
)
def test_a_name_is_found_and_others_and_parts_of_words_are_not(name: str, other: str, form: str, label: str) -> None:
    reply = label.format(form.format(name))
    assert score("location", reply, location_fine_grained=[name.upper()]) == 1.0
    assert score("key_items", reply, key_items=[[name[1:]]]) == 0
    assert score("key_items", label.format(f"x{name}x"), key_items=[[name]]) == 0
    if other != name:
        assert score("key_items", reply, key_items=[[other]]) == 0
        assert score("location", label.format(f"not {name}, {other}"), location_fine_grained=[name]) == 0


@pytest.mark.parametrize(("evaluator", "reply", "arguments", "right"), [
    ("key_items", "_Paris_", {"key_items": [["Paris"]]}, 1), ("key_items", "5米", {"key_items": [["米"]]}, 1),
    ("key_items", "2023年", {"key_items": [["年"]]}, 1), ("key_items", "JR东京站", {"key_items": [["东京"]]}, 1),
    ("key_items", "about 25°C", {"key_items": [["°C"]]}, 1), ("key_items", "C++17", {"key_items": [["C++"]]}, 1),
    ("key_items", "It isn't Paris", {"key_items": [["Paris"]]}, 0),
    ("key_items", "neither Paris nor Rome", {"key_items": [["Paris"]]}, 0),
    ("ordered_list", "A，B，C", {"order": "A，B，C"}, 1), ("ordered_list", "红，蓝，绿", {"order": "红，蓝，绿"}, 1),
    ("choices", "nothing here", {"label": ", "}, 0),
])  # fmt: skip
def test_signs_and_scripts_without_blanks_do_not_hide_a_name(
    evaluator: str, reply: str, arguments: dict[str, object], right: int
) -> None:
    assert score(evaluator, reply, **arguments) == right
