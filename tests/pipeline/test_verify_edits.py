"""verify: a run whose manifest was edited is as sound as any other, in the middle of the edit too."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from layton_batch.runs.status import RunState
from layton_batch.settings import Settings
from layton_batch.verification.verify import Verification, verify_run
from tests.support.cli_harness import call
from tests.support.commits import after_commits
from tests.support.lab import MODELS, Lab, lab, manifest_text, quiz_text
from tests.support.tiers import tiered

READS_PAGES = True
QUIZ = quiz_text(limit=2)
NOBODY = QUIZ[: QUIZ.index("[[models]]")]


def verified(bench: Lab) -> Verification:
    return verify_run(bench.run_folder(QUIZ), Settings(bench.folder))


def test_a_run_without_models_has_no_board_and_pages_without_one(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.finish_paid_once(QUIZ)
        folder = bench.run_folder(QUIZ)
        assert bench.finish(NOBODY).state is RunState.DONE
        assert bench.table(QUIZ, "leaderboard").is_empty()
        assert "larch-2-mini" not in (folder.site / "index.html").read_text(encoding="utf-8")
        checked = verified(bench)
        assert (checked.differences, checked.notes) == ([], [])
        bench.finish_paid_once(QUIZ)
        checked = verified(bench)
        assert (checked.differences, checked.notes, checked.models) == ([], [], 1)


def test_a_board_of_before_an_edit_stays_until_a_model_is_done_again(tmp_path: Path) -> None:
    more = quiz_text(limit=3, top="[budget]\nmax_usd = 0.0001")
    with lab(tmp_path) as bench:
        bench.finish_paid_once(QUIZ)
        assert bench.finish(more).state is RunState.OVER_BUDGET
        checked = verified(bench)
        assert checked.differences == []
        assert "is not finished" in checked.notes[0]


DEARER = QUIZ.replace('output = "2.4"', 'output = "3.4"', 1)
TWO = ("openai", "anthropic")
JUDGED = manifest_text(limit=2)
RENAMED = JUDGED.replace(f'name = "{MODELS["openai"]}"', 'name = "shown so"', 1)


@pytest.mark.parametrize(
    ("name", "family", "judge"),
    [
        (MODELS["openai"], "acme", "tern-3-referee"),
        (MODELS["openai"], "gemini", "sirocco-referee"),  # the judge of that family may not sit any more
        ("tern-3-referee", "acme", "tern-3-referee"),
    ],
)
def test_another_family_is_in_every_table_and_only_a_judge_that_is_new_is_paid(
    tmp_path: Path, name: str, family: str, judge: str
) -> None:
    edited = JUDGED.replace(f'name = "{name}"\n', f'name = "{name}"\nfamily = "{family}"\n', 1)
    with lab(tmp_path) as bench:
        bench.finish_paid_once(JUDGED)
        paid = len(bench.billed())
        bench.finish_paid_once(edited)
        assert len(bench.billed()) - paid == (0 if judge == "tern-3-referee" else 2)
        assert set(bench.table(edited, "predictions")["family"]) == {"openai" if name == "tern-3-referee" else family}
        assert set(bench.table(edited, "verdicts")["judge"]) == {judge}
        checked = verified(bench)
        assert (checked.differences, checked.notes) == ([], [])


def is_snapshot(difference: str) -> bool:
    """Tell whether a snapshot of a board is gone: its digest is recorded a moment before it is there."""
    return "/history/" in difference and difference.endswith(": is gone")


@pytest.mark.parametrize("every", tiered((5, 1), ci=(5,)))
@pytest.mark.parametrize(
    ("before", "after"),
    [
        (quiz_text(TWO, limit=2), quiz_text((*TWO, "mistral"), limit=3)),
        (quiz_text(TWO, limit=2), quiz_text(("anthropic",), limit=1, top="[scoring]\nlevel = 0.9")),
        (JUDGED, RENAMED.replace("seats = 1", "seats = 2")),
        (QUIZ, DEARER),
        (QUIZ, NOBODY),
    ],
    ids=["more", "fewer", "another jury", "other prices", "no model"],
)
def test_a_run_that_is_stopped_anywhere_in_an_edit_is_not_called_damaged(
    tmp_path: Path, before: str, after: str, every: int
) -> None:
    differences: dict[str, list[str]] = {}
    with lab(tmp_path) as bench, ThreadPoolExecutor(1) as beside:
        bench.finish_paid_once(before)

        def verify(number: int) -> None:
            if number % every == 0:
                lines = beside.submit(verified, bench).result().differences
                differences[f"commit {number}"] = [line for line in lines if not is_snapshot(line)]

        with after_commits(verify):
            assert bench.finish(after).state is RunState.DONE
        assert {point: lines for point, lines in differences.items() if lines} == {}
        checked = verified(bench)
        assert (checked.differences, checked.notes) == ([], [])


def test_a_run_that_planned_nothing_yet_is_not_finished(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        with bench.open(QUIZ):
            pass
        checked = verified(bench)
    assert checked.differences == []
    assert "is not finished" in checked.notes[0]


def test_a_site_that_is_written_before_an_edit_is_planned_is_checked_without_its_pages(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.finish_paid_once(quiz_text(limit=2))
        with bench.open(quiz_text(limit=1)):
            pass
        assert call("site", bench.run_folder(QUIZ).root, "--out", tmp_path / "public", "--with-data").code == 0
    ending = call("verify", tmp_path / "public")
    assert (ending.code, "in the middle of an edit" in ending.err) == (0, True), ending.err


def test_a_price_that_changes_what_is_saved_alone_is_in_the_bill(tmp_path: Path) -> None:
    """Answers cost the same in batches, and the parts of the table ``usage`` keep their sizes."""
    with lab(tmp_path) as bench:
        bench.finish_paid_once(QUIZ)
        before = bench.table(QUIZ, "cost")
        bench.finish_paid_once(DEARER)
        after = bench.table(QUIZ, "cost")
        assert after["cost_usd"].to_list() == before["cost_usd"].to_list()
        assert after["unbatched_usd"].to_list() != before["unbatched_usd"].to_list()
        assert verified(bench).differences == []
