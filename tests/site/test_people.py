"""People's labels stand beside the jury's verdicts, and what they call wrong is never shown as right."""

from __future__ import annotations

from pathlib import Path

from layton_batch.site.build import build_site
from tests.support.fabricated_run import FabricatedRun, fabricated
from tests.support.read_html import read_page, words


def labelled(tmp_path: Path, *, correct: bool, index: int, people: int = 1) -> Path:
    run: FabricatedRun = fabricated(tmp_path)
    row = {"item_id": run.item_id(index), "model": run.words.models[0], "n_hints": 0, "people": people}
    marks = dict.fromkeys(("answer_correct", "justification_correct", "both_correct"), correct)
    run.table("labels", [row | marks])
    return build_site(run.folder, run.status()).parent


def test_an_answer_that_a_person_called_wrong_is_not_shown_as_right(tmp_path: Path) -> None:
    page = read_page(labelled(tmp_path, correct=False, index=1) / "items" / "0001.html")
    assert page.values("data-standing") == ["disputed", "right", "right"]
    assert "a person said wrong, the jury right 2 of 2 yes" in words(page)
    assert "a person answer ✗ not correct reason ✗ not correct" in words(page)


def test_an_answer_that_people_called_right_and_the_jury_wrong_is_disputed(tmp_path: Path) -> None:
    page = read_page(labelled(tmp_path, correct=True, index=2, people=3) / "items" / "0002.html")
    assert page.values("data-standing") == ["disputed", "wrong", "wrong"]
    assert "3 people said right, the jury wrong" in words(page)


def test_a_label_that_agrees_with_the_jury_stands_beside_it(tmp_path: Path) -> None:
    page = read_page(labelled(tmp_path, correct=True, index=1) / "items" / "0001.html")
    assert page.values("data-standing") == ["right", "right", "right"]
    assert "a person answer ✓ correct reason ✓ correct" in words(page)
