"""What a letter is worth, and the best of several replies."""

from __future__ import annotations

import pytest

from layton_batch.tasks.mcq_idk.items import idk_letter
from layton_batch.tasks.mcq_idk.metrics import ABSTAINED, CORRECT, MARKS, METRICS, NO_LETTER, WRONG, best_of, outcome_of


@pytest.mark.parametrize(
    ("letter", "n_options", "outcome"),
    [
        (None, 4, NO_LETTER),
        ("B", 4, CORRECT),
        ("A", 4, WRONG),
        ("E", 4, ABSTAINED),
        ("E", 10, WRONG),
        ("K", 10, ABSTAINED),
        ("F", 4, WRONG),
        ("C", 2, ABSTAINED),
    ],
)
def test_a_letter_has_one_outcome_and_the_last_letter_abstains(
    letter: str | None, n_options: int, outcome: str
) -> None:
    assert outcome_of(letter, "B", idk_letter(n_options)) == outcome


def test_the_best_of_several_replies_is_the_best_mark_of_each_metric() -> None:
    unread = MARKS[NO_LETTER]
    assert best_of([unread, MARKS[WRONG]]) == MARKS[WRONG]
    assert tuple(best_of([unread, MARKS[ABSTAINED], MARKS[CORRECT]]).values()) == (1, 1, 1, 0)
    assert best_of([unread, unread]) == unread


def test_the_penalised_score_follows_from_the_others() -> None:
    for marks in MARKS.values():
        trad, idk, frequency, _ = (marks[name] for name in METRICS)
        assert idk == 2 * trad - 1 + frequency
