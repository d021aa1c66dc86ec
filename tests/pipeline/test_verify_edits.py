"""verify: a run whose manifest was edited is as sound as any other, in the middle of the edit too."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.runs.status import RunState
from layton_batch.settings import Settings
from layton_batch.verification.verify import Verification, verify_run
from tests.support.lab import MODELS, Lab, lab, manifest_text, quiz_text

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


JUDGED = manifest_text(limit=2)


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
