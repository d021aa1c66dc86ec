"""What is said of a jury in sentences: as much as labels make certain, and in the names that readers know."""

from __future__ import annotations

from dataclasses import replace

import pytest

from layton_batch.columns import Table
from layton_batch.scoring.evidence import Entrant
from layton_batch.scoring.judge_quality import Diagnosis, diagnose
from layton_batch.scoring.judges_told import JudgeNote, Section, diagnosis_told, mistakes_told
from layton_batch.scoring.jury_board import JuryBoard
from layton_batch.scoring.rules import ScoringRules
from tests.support.evidence import Judged, frames, judged_frame


def diagnosed(*families: tuple[str, int, int], human: bool = True) -> Diagnosis:
    """A jury of two that says yes to everything; of each (family, answers, wrong) people call so many wrong."""
    rows = [
        Judged(
            Entrant(f"{family}-1", family, 0), family, f"i{number}", {"owl": True, "hawk": True},
            human=number >= wrong if human else None,
        )
        for family, answers, wrong in families
        for number in range(answers)
    ]  # fmt: skip
    return diagnose(judged_frame(rows), JuryBoard(*frames([]), ScoringRules()))


def section(diagnosis: Diagnosis, key: str) -> Section:
    return next(one for one in diagnosis_told(diagnosis) if one.key == key)


def sentences(diagnosis: Diagnosis) -> list[str]:
    return [part.text for part in section(diagnosis, "short").parts if not isinstance(part, Table)]


def test_a_certain_error_for_a_maker_is_a_sentence_of_its_own() -> None:
    told = sentences(diagnosed(("openai", 40, 20), ("gemini", 40, 1), ("acme", 4, 0)))
    assert told[:2] == [
        "The majority of the jury agrees with people on 75 % of 84 labelled answers.",
        "On these answers the jury says yes 25.0 points too often.",
    ]
    assert told[2].startswith("The jury says yes 50.0 points too often for OpenAI’s models (± ")
    assert told[3] == "For the models of Google no such error is certain, at 95 % for all makers at once."
    assert told[4] == "For the models of acme there are too few labels to tell."


def test_a_jury_without_a_vote_agrees_with_nobody() -> None:
    silent = [Judged(Entrant("m", "acme", 0), "acme", f"i{number}", {}, human=True) for number in range(9)]
    for rows, agrees in ((silent, False), ([replace(row, verdicts={"owl": True}) for row in silent], True)):
        (note,) = mistakes_told(diagnose(judged_frame(rows), JuryBoard(*frames([]), ScoringRules()))).parts
        assert isinstance(note, JudgeNote)
        assert ("agrees" in note.text) is agrees


def test_answers_to_one_item_count_as_one_piece_of_evidence() -> None:
    def half_width(items: int) -> float:
        rows = [
            Judged(Entrant(f"m{number}", "acme", 0), "acme", f"i{number % items}", {"owl": True}, human=number % 5 > 0)
            for number in range(100)
        ]
        (found,) = diagnose(judged_frame(rows), JuryBoard(*frames([]), ScoringRules())).jury_by_family
        assert (found.labels, found.leniency) == (100, pytest.approx(0.2))
        assert found.half_width is not None
        return found.half_width

    assert half_width(5) > 3 * half_width(100)


def test_without_labels_nothing_is_said_of_errors() -> None:
    told = sentences(diagnosed(("openai", 10, 5), human=False))
    assert told == ["No answer has a label: nobody can tell how often the jury is right."]


def test_makers_are_rows_and_judges_are_columns() -> None:
    (table, _) = section(diagnosed(("openai", 40, 20), ("gemini", 40, 1)), "families").parts
    assert isinstance(table, Table)
    assert [column.name for column in table.columns] == ["answers by", "labels", "the jury", "hawk", "owl"]
    assert [row[:3] for row in table.rows] == [("Google", "40", "+2.5"), ("OpenAI", "40", "+50.0")]
