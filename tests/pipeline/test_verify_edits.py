"""verify: a run whose manifest was edited is as sound as any other, in the middle of the edit too."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

import polars as pl
import pytest

from layton_batch.settings import Settings
from layton_batch.verification.recompute import Verification
from layton_batch.verification.verify import verify_run
from tests.support.cli_harness import call
from tests.support.commits import after_commits
from tests.support.lab import MODELS, Lab, RunState, demo_prices, lab, manifest_text, quiz_text
from tests.support.tiers import tiered

READS_PAGES = True
QUIZ = quiz_text(limit=2)
NOBODY = QUIZ[: QUIZ.index("[[models]]")] + demo_prices()
DEARER = QUIZ.replace('output = "2.4"', 'output = "3.4"', 1)
TWO = ("openai", "anthropic")
JUDGED = manifest_text(limit=2)
RENAMED = JUDGED.replace(f'name = "{MODELS["openai"]}"', 'name = "shown so"', 1)


def verified(bench: Lab) -> Verification:
    return verify_run(bench.run_folder(QUIZ), Settings(bench.folder))


def is_sound(bench: Lab) -> bool:
    checked = verified(bench)
    return (checked.differences, checked.notes) == ([], [])


def is_unfinished(bench: Lab) -> bool:
    checked = verified(bench)
    return (checked.differences, len(checked.notes)) == ([], 1)


def test_a_run_that_is_not_finished_is_sound_and_says_so(tmp_path: Path) -> None:
    """Before its first plan, with a board of before an edit, and where an edit is not planned yet."""
    with lab(tmp_path) as bench:
        with bench.open(QUIZ):
            pass
        assert is_unfinished(bench)
        bench.finish_paid_once(QUIZ)
        assert bench.finish(quiz_text(limit=3, top="[budget]\nmax_usd = 0.0001")).state is RunState.OVER_BUDGET
        assert is_unfinished(bench)
        with bench.open(quiz_text(limit=1)):
            pass
        assert call("site", bench.run_folder(QUIZ).root, "--out", tmp_path / "public", "--with-data").code == 0
    ending = call("verify", tmp_path / "public")
    assert (ending.code, "in the middle of an edit" in ending.err) == (0, True), ending.err


# ---- finished, and stopped anywhere on the way -----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Edit:
    """What the manifest says next, and how many requests are paid for it. ``judge``: whose verdicts are there then."""

    text: str
    bought: int
    judge: str = ""


def of_family(name: str, family: str) -> str:
    return JUDGED.replace(f'name = "{name}"\n', f'name = "{name}"\nfamily = "{family}"\n', 1)


OPENAI, JUDGE = MODELS["openai"], "tern-3-referee"
HISTORIES = {
    "quiz": (
        Edit(quiz_text(TWO, limit=2), 4),
        Edit(quiz_text((*TWO, "mistral"), limit=3), 5),
        Edit(quiz_text(("anthropic",), limit=1, top="[scoring]\nlevel = 0.9"), 0),
        Edit(QUIZ, 0),
        Edit(DEARER, 0),
        Edit(NOBODY, 0),
        Edit(QUIZ, 0),
    ),
    "judged": (
        Edit(JUDGED, 4, JUDGE),
        Edit(of_family(OPENAI, "acme"), 0, JUDGE),
        Edit(of_family(JUDGE, "acme"), 0, JUDGE),
        Edit(of_family(OPENAI, "gemini"), 2, "sirocco-referee"),  # the judge of that family may not sit any more
        Edit(RENAMED.replace("seats = 1", "seats = 2"), 0),
    ),
}


def is_snapshot(difference: str) -> bool:
    """Tell whether a snapshot of a board is gone: its digest is recorded a moment before it is there."""
    return "/history/" in difference and difference.endswith(": is gone")


@pytest.mark.parametrize("every", tiered((5, 1), ci=(5,)))
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_a_run_is_sound_after_every_edit_and_not_called_damaged_wherever_it_is_stopped(
    tmp_path: Path, history: tuple[Edit, ...], every: int
) -> None:
    differences: dict[str, list[str]] = {}
    bills: dict[str, pl.DataFrame] = {}
    with lab(tmp_path) as bench, ThreadPoolExecutor(1) as beside:

        def verify(number: int) -> None:
            if number % every == 0:
                lines = beside.submit(verified, bench).result().differences
                differences[f"commit {number}"] = [line for line in lines if not is_snapshot(line)]

        for edit in history:
            paid = len(bench.billed())
            with after_commits(verify) if paid else nullcontext():  # once the run is there
                bench.finish_paid_once(edit.text)
            assert {point: lines for point, lines in differences.items() if lines} == {}
            assert is_sound(bench)
            assert len(bench.billed()) - paid == edit.bought
            models, judges = (bench.table(edit.text, name) for name in ("predictions", "verdicts"))
            families = {model.family for model in bench.manifest(edit.text).model_specs()}
            assert set(models["family"]) == families
            assert not edit.judge or set(judges["judge"]) == {edit.judge}
            named = models["model"].unique().to_list()
            assert sorted(bench.table(edit.text, "leaderboard")["model"]) == sorted(named)
            published = bench.run_folder(edit.text).site / "data" / "leaderboard.parquet"
            assert published.exists() == bool(named)
            assert not named or sorted(pl.read_parquet(published)["model"]) == sorted(named)
            bills[edit.text] = bench.table(edit.text, "cost")
    if DEARER in bills:  # by the price of what is saved alone; and parts of the table ``usage`` keep their sizes
        assert bills[QUIZ]["cost_usd"].to_list() == bills[DEARER]["cost_usd"].to_list()
        assert bills[QUIZ]["unbatched_usd"].to_list() != bills[DEARER]["unbatched_usd"].to_list()
