"""One late provider holds back no board: complete models are ranked and published, the others stand below."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from layton_batch.files import tables
from layton_batch.loop import drive
from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from layton_batch.scoring.leaderboard import complete
from tests.support.cli_harness import call
from tests.support.lab import MODELS, Lab, lab, manifest_text, write_few_labels

READS_PAGES = True
EARLY, LATE = ("openai", "anthropic"), "doubleword"
BUSY = Fault(on="create", action="status", provider=LATE, status=429, times=9)


def three_models(bench: Lab, *, samples: int = 1) -> str:
    text = manifest_text((*EARLY, LATE), limit=3, top=f'[gold]\nsource = "{write_few_labels(bench.folder)}"')
    return text.replace("= 4000", f"= 4000\nsamples = {samples}", 1)


def board_of(bench: Lab, text: str) -> pl.DataFrame:
    return bench.table(text, "leaderboard")


@pytest.fixture(scope="module")
def late(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A run at whose third provider nothing has been sent yet; tests only read it."""
    with lab(tmp_path_factory.mktemp("late"), BUSY) as bench:
        assert bench.finish(three_models(bench), max_hours=0.2).state is RunState.RUNNING
        yield bench


def test_the_complete_models_have_the_board_of_a_manifest_with_only_these(late: Lab) -> None:
    board = board_of(late, three_models(late))
    assert board["model"].to_list()[-1] == MODELS[LATE]
    assert board["progress"].to_list() == [None, None, "0 of 3 answered"]
    assert board.row(2, named=True)["score"] is None
    assert board.row(2, named=True)["rank"] is None
    only = three_models(late).replace('name = "lab"', 'name = "only"', 1)
    start, end = (only.index(f'[[models]]\nname = "{MODELS[LATE]}"'), only.index("[jury]"))
    only = only[:start] + only[end:]
    billed = late.billed()
    assert late.finish(only).state is RunState.DONE
    assert late.billed() == billed  # every answer was there
    assert complete(board).equals(board_of(late, only))


def test_a_model_that_is_not_complete_stands_below_the_board_on_every_surface(late: Lab) -> None:
    progress, command = "0 of 3 answered", ("leaderboard", "lab", "--runs", late.runs)
    rows = call(*command, "--format", "json").json
    assert isinstance(rows, list)
    assert [row["progress"] for row in rows] == [None, None, progress]
    assert [row["failures"] for row in rows] == [{}, {}, {}]
    assert [row["progress"] for row in csv.DictReader(io.StringIO(call(*command, "--format", "csv").out))][
        2
    ] == progress
    [line] = [line for line in call(*command, "--format", "md").out.splitlines() if "Sedge" in line]
    assert progress in line
    assert "None" not in line
    shown = " ".join(call(*command).out.split())
    assert progress in shown
    site = late.run_folder(three_models(late)).site
    assert f"Sedge-32B</bdi> ({progress})" in (site / "index.html").read_text(encoding="utf-8")
    assert tables.read_part(site / "data" / "leaderboard.parquet")["progress"].to_list()[2] == progress
    assert call("verify", "lab", "--runs", late.runs).code == 0


def test_the_last_model_completes_the_board_that_is_made_at_once(tmp_path: Path) -> None:
    (tmp_path / "late").mkdir()
    (tmp_path / "once").mkdir()
    with lab(tmp_path / "late", BUSY) as bench:
        text = three_models(bench)
        with bench.open(text) as run:
            before = drive(run, once=False, stop_at=bench.clock.now() + 600)
            assert before.state is RunState.RUNNING
        progress = board_of(bench, text)["progress"].to_list()
        assert progress == [None, None, "0 of 3 answered"]
        bench.finish_paid_once(text)
        late = board_of(bench, text)
    with lab(tmp_path / "once") as bench:
        bench.finish(text)
        assert board_of(bench, text).equals(late)


def test_a_model_is_complete_when_all_its_samples_are(tmp_path: Path) -> None:
    second = Fault(on="poll", action="status", provider="openai", status=503, after=1, times=99)
    with lab(tmp_path, second) as bench:
        text = three_models(bench, samples=2)
        bench.finish(text, max_hours=0.5)
        board = board_of(bench, text)
        waiting = board.filter(pl.col("progress").is_not_null())
        assert waiting["model"].to_list() == [MODELS["openai"]]
        assert MODELS["openai"] not in complete(board)["model"]
