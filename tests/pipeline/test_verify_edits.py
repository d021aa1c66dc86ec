"""verify: a run whose manifest was edited is as sound as any other, in the middle of the edit too."""

from __future__ import annotations

from pathlib import Path

from layton_batch.runs.status import RunState
from layton_batch.settings import Settings
from layton_batch.verification.verify import Verification, verify_run
from tests.support.lab import Lab, lab, quiz_text

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
        assert "no model is done since" in checked.notes[0]
