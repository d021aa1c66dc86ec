"""verify: a run whose manifest was edited is as sound as any other, in the middle of the edit too."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path

import polars as pl
import pytest

from layton_batch.settings import Settings
from layton_batch.verification.verify import verify_run
from tests.support.cli_harness import call
from tests.support.commits import after_commits
from tests.support.lab import MODELS, Lab, RunState, demo_prices, lab, manifest_text, quiz_text
from tests.support.tiers import tiered

QUIZ = quiz_text(limit=2)
NOBODY = QUIZ[: QUIZ.index("[[models]]")] + demo_prices()
DEARER = QUIZ.replace('output = "2.4"', 'output = "3.4"', 1)
TWO = ("openai", "anthropic")
JUDGED = manifest_text(limit=2)
OPENAI, JUDGE = MODELS["openai"], "tern-3-referee"


def of_family(name: str, family: str) -> str:
    return JUDGED.replace(f'name = "{name}"\n', f'name = "{name}"\nfamily = "{family}"\n', 1)


HISTORIES = {
    "quiz": (
        quiz_text(TWO, limit=2),
        quiz_text((*TWO, "mistral"), limit=3),
        quiz_text(("anthropic",), limit=1, top="[scoring]\nlevel = 0.9"),
        QUIZ,
        DEARER,
        NOBODY,
    ),
    "judged": (
        JUDGED,
        of_family(JUDGE, "acme"),
        of_family(OPENAI, "gemini"),  # the judge of that family may not sit any more
        JUDGED.replace("seats = 1", "seats = 2").replace(f'name = "{OPENAI}"', 'name = "shown so"', 1),
    ),
}


def verified(bench: Lab) -> tuple[list[str], int]:
    """Return the differences, and the number of notes."""
    checked = verify_run(bench.run_folder(QUIZ), Settings(bench.folder))
    return list(checked.differences), len(checked.notes)


def is_unfinished(bench: Lab) -> bool:
    return verified(bench) == ([], 1)


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


def is_snapshot(difference: str) -> bool:
    """Tell whether a snapshot of a board is gone: its digest is recorded a moment before it is there."""
    return "/history/" in difference and difference.endswith(": is gone")


@pytest.mark.parametrize("every", tiered((10, 1), ci=(10,)))
@pytest.mark.parametrize("history", HISTORIES.values(), ids=HISTORIES)
def test_a_run_is_sound_after_every_edit_and_not_called_damaged_wherever_it_is_stopped(
    tmp_path: Path, history: tuple[str, ...], every: int
) -> None:
    differences: dict[str, list[str]] = {}
    bills: dict[str, pl.DataFrame] = {}
    with lab(tmp_path) as bench, ThreadPoolExecutor(1) as beside:

        def verify(number: int) -> None:
            if number % every == 0:
                lines, _ = beside.submit(verified, bench).result()
                differences[f"commit {number}"] = [line for line in lines if not is_snapshot(line)]

        for text in history:
            with after_commits(verify) if bench.billed() else nullcontext():  # once the run is there
                bench.finish_paid_once(text)
            assert {point: lines for point, lines in differences.items() if lines} == {}
            assert verified(bench) == ([], 0)
            bills[text] = bench.table(text, "cost")
    if DEARER in bills:  # by the price of what is saved alone; and parts of the table ``usage`` keep their sizes
        assert bills[QUIZ]["cost_usd"].to_list() == bills[DEARER]["cost_usd"].to_list()
        assert bills[QUIZ]["unbatched_usd"].to_list() != bills[DEARER]["unbatched_usd"].to_list()
