"""One late provider holds back no board: complete models are ranked and published, the others stand below."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import polars as pl

from layton_batch.sandbox import Fault
from layton_batch.scoring.leaderboard import complete
from tests.support.cli_harness import call, finish, start
from tests.support.lab import MODELS, RunState, lab, manifest_text, named

EARLY, LATE = ("openai", "anthropic"), "doubleword"
BUSY = Fault(on="create", action="status", provider=LATE, status=429, after=1, times=9)
PROGRESS = "2 of 4 answered, 2 of 2 judged"


def text_of(providers: tuple[str, ...]) -> str:
    """The last of three models has two samples, a batch each."""
    last = f'provider = "{LATE}"\nmodel = "{MODELS[LATE]}"\nmax_output'
    return manifest_text(providers, limit=2).replace(last, f"samples = 2\n{last}")


TEXT = text_of((*EARLY, LATE))


def test_complete_models_are_ranked_as_if_alone_and_one_that_is_not_stands_below_until_it_is(tmp_path: Path) -> None:
    """The third provider takes no second batch at first."""
    with lab(tmp_path, BUSY) as late:
        assert late.finish(TEXT, max_hours=0.2).state is RunState.RUNNING
        board = late.table(TEXT, "leaderboard")
        assert board["progress"].to_list() == [None, None, PROGRESS]
        assert board.select("model", "score", "rank").row(2) == (MODELS[LATE], None, None)
        only, billed = named("only", text_of(EARLY)), late.billed()
        assert late.finish(only).state is RunState.DONE
        assert late.billed() == billed  # every answer was there
        assert complete(board).equals(late.table(only, "leaderboard"))

        command = ("leaderboard", "lab", "--runs", late.runs)
        rows = call(*command, "--format", "json").json
        assert isinstance(rows, list)
        assert [(row["progress"], row["failures"]) for row in rows] == [(None, {}), (None, {}), (PROGRESS, {})]
        in_csv = [row["progress"] for row in csv.DictReader(io.StringIO(call(*command, "--format", "csv").out))]
        assert in_csv == ["", "", PROGRESS]
        [line] = [line for line in call(*command, "--format", "md").out.splitlines() if "Sedge" in line]
        assert (PROGRESS in line, "None" in line) == (True, False)
        assert PROGRESS in " ".join(call(*command).out.split())
        site = tmp_path / "public"
        assert finish(start("site", late.run_folder(TEXT).root, "--out", site, cwd=tmp_path)).code == 0
        assert f"Sedge-32B</bdi> ({PROGRESS})" in (site / "index.html").read_text(encoding="utf-8")
        assert pl.read_parquet(site / "data" / "leaderboard.parquet")["progress"].to_list()[2] == PROGRESS

        late.finish(TEXT)
        whole = late.table(TEXT, "leaderboard")
        assert whole["progress"].null_count() == whole["rank"].count() == 3
