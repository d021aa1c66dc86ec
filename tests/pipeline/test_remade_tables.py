"""A derived table is remade where it was made from anything else: the table, the site and `leaderboard RUN` agree."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import polars as pl
import pytest

from layton_batch.files import tables
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.sandbox import Fault
from tests.support.cli_harness import call
from tests.support.lab import Lab, lab, manifest_text, write_few_labels

READS_PAGES = True
GOLD = '[gold]\nsource = "gold.jsonl"\n'
SCORED = manifest_text(limit=3, top=GOLD)
COLUMNS = ("model", "score", "lower", "upper", "rank", "method", "metric")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One run for all tests. Each brings it to the state that it begins with."""
    folder = tmp_path_factory.mktemp("remade")
    write_few_labels(folder)
    with lab(folder) as made:
        made.finish(SCORED)
        yield made


def test_a_board_scored_by_other_rules_replaces_table_and_site_and_is_what_leaderboard_prints(there: Lab) -> None:
    index = there.run_folder(SCORED).site / "index.html"
    boards, pages = [there.table(SCORED, "leaderboard")], [index.read_bytes()]
    for top in (f'{GOLD}[scoring]\nmethod = "paper"', f'{GOLD}[scoring]\nmetric = "answer_correct"\nlevel = 0.8', ""):
        there.finish(manifest_text(limit=3, top=top))
        boards.append(there.table(SCORED, "leaderboard"))
        pages.append(index.read_bytes())
        printed = call("leaderboard", "lab", "--runs", there.runs, "--format", "json").json
        assert [[row[name] for name in COLUMNS] for row in printed] == [  # type: ignore[attr-defined]
            list(row) for row in boards[-1].select(COLUMNS).iter_rows()
        ]
        assert not boards[-1].equals(boards[-2])
        assert pages[-1] != pages[-2]
    assert (boards[0]["borrowed_labels"][0] > 0) == (boards[-1]["borrowed_labels"][0] == 0)  # without the gold set


def test_nothing_is_remade_where_nothing_changed_and_what_was_removed_is(
    there: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = there.run_folder(SCORED)
    with monkeypatch.context() as patch:
        patch.setattr(tables, "__version__", "0.0.0")
        there.finish(SCORED)
    board, cost, index = folder.part("leaderboard", "leaderboard"), folder.part("cost", "cost"), "index.html"
    earlier = board.read_bytes()
    cost.unlink()
    (folder.site / index).unlink()
    (folder.site / "site.json").write_text("{}")
    there.finish(SCORED)
    assert board.read_bytes() != earlier  # which another version had made
    assert cost.exists()
    files = [*folder.tables.rglob("*.parquet"), folder.site / index]
    inodes = {path: path.stat().st_ino for path in files}
    there.finish(SCORED)
    assert {path: path.stat().st_ino for path in files} == inodes


FAULTS = (
    Fault(on="row", action="error", status=500, provider="openai", times=2),
    Fault(on="row", action="malformed_text", provider="openai", after=3, times=1),
    Fault(on="row", action="duplicate", provider="gemini", times=1),
)
REASKED = manifest_text(limit=7, top="[policy]\nreask_unparsed = 1")


def played(folder: Path) -> dict[str, pl.DataFrame]:
    """Every table of a run with another attempt, a reply asked for again and a result that came twice."""
    folder.mkdir()
    with lab(folder, *FAULTS) as bench:
        assert {batch.attempt for batch in bench.finish(REASKED).batches} >= {1, 2}
        return {name: bench.table(REASKED, name) for name in SCHEMAS}


def test_every_table_is_the_same_in_portions_of_two_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = played(tmp_path / "whole")
    monkeypatch.setattr(tables, "PORTION_ROWS", 2)
    in_portions = played(tmp_path / "portions")
    for name, table in whole.items():
        assert table.height > 0 or name in {"grades", "rejudged", "reused", "labels", "pairs", "label_need"}
        assert in_portions[name].equals(table), name
    parts = (tmp_path / "portions" / "runs").rglob("batches/*/*/answers/*.parquet")
    assert max(part.stem for part in parts) == "00003"
