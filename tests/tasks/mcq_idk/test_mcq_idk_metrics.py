"""Marks of a reply, and of several replies to one item."""

from __future__ import annotations

import pytest

from layton_batch.tasks.mcq_idk_rules.metrics import UNREAD, McqGrade, McqOutcome, best_of, mark

RIGHT, WRONG, ABSTAINED = McqGrade(1, 1, 0, 0), McqGrade(0, -1, 0, 0), McqGrade(0, 0, 1, 0)


@pytest.mark.parametrize(
    ("letter", "n_options", "marks", "outcome"),
    [
        (None, 4, (0, -1, 0, 1), McqOutcome.NO_LETTER),
        ("B", 4, (1, 1, 0, 0), McqOutcome.CORRECT),
        ("A", 4, (0, -1, 0, 0), McqOutcome.WRONG),
        ("E", 4, (0, 0, 1, 0), McqOutcome.ABSTAINED),
        ("E", 10, (0, -1, 0, 0), McqOutcome.WRONG),
        ("K", 10, (0, 0, 1, 0), McqOutcome.ABSTAINED),
        ("F", 4, (0, -1, 0, 0), McqOutcome.WRONG),
        ("C", 2, (0, 0, 1, 0), McqOutcome.ABSTAINED),
    ],
)
def test_a_letter_gets_its_marks(
    letter: str | None, n_options: int, marks: tuple[int, ...], outcome: McqOutcome
) -> None:
    found = mark(letter, "B", n_options)
    assert found.values() == marks
    assert found.outcome is outcome


def test_of_several_replies_the_best_counts_and_only_all_unreadable_ones_are_unreadable() -> None:
    assert best_of([UNREAD, WRONG]) == WRONG
    assert best_of([WRONG, ABSTAINED]) == McqGrade(0, 0, 1, 0)
    assert best_of([UNREAD, ABSTAINED, RIGHT]) == McqGrade(1, 1, 1, 0)
    assert best_of([UNREAD, UNREAD]) == best_of([]) == UNREAD


@pytest.mark.parametrize("letter", [None, *"ABCDEFK"])
def test_a_single_letter_obeys_the_identity(letter: str | None) -> None:
    marks = mark(letter, "B", 4)
    assert marks.idk_score == 2 * marks.trad_score - 1 + marks.idk_freq
