"""A derived table is remade where it was made from anything else: the table, the site and `leaderboard RUN` agree."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from layton_batch.files import tables
from layton_batch.grading.board_sources import BoardOptions, board_of, read_sources
from layton_batch.runs.status import RunState
from layton_batch.scoring.leaderboard import stored
from tests.support.lab import Lab, lab, manifest_text, write_few_labels

READS_PAGES = True
GOLD = '[gold]\nsource = "gold.jsonl"\n'
SCORED = manifest_text(top=GOLD)


def with_scoring(scoring: str) -> str:
    return manifest_text(top=f"{GOLD}[scoring]\n{scoring}\n")


@pytest.fixture(scope="module")
def there(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One run for all tests. Each brings it to the state that it begins with."""
    folder = tmp_path_factory.mktemp("remade")
    write_few_labels(folder)
    with lab(folder) as made:
        yield made


def stored_board(there: Lab, text: str) -> list[dict[str, object]]:
    return list(there.table(text, "leaderboard").iter_rows(named=True))


def shown(there: Lab, text: str) -> str:
    return (there.run_folder(text).site / "index.html").read_text(encoding="utf-8")


def test_a_board_scored_by_other_rules_replaces_table_and_site_and_is_what_leaderboard_prints(there: Lab) -> None:
    there.finish(SCORED)
    before, page = stored_board(there, SCORED), shown(there, SCORED)
    for scoring in ('method = "paper"', 'metric = "answer_correct"\nlevel = 0.8\nseed = 7'):
        there.finish(with_scoring(scoring))
        after = stored_board(there, SCORED)
        root = there.run_folder(SCORED).root
        printed = board_of(read_sources([str(root)], there.runs, there.settings, BoardOptions()))
        assert stored(printed).to_dicts() == after, scoring
        assert after != before, scoring
        assert shown(there, SCORED) != page, scoring


def test_a_board_without_its_gold_set_is_another_board(there: Lab) -> None:
    there.finish(SCORED)
    before = stored_board(there, SCORED)
    there.finish(manifest_text())
    assert stored_board(there, SCORED)[0]["borrowed_labels"] == 0 != before[0]["borrowed_labels"]


def test_nothing_is_remade_where_nothing_changed(there: Lab) -> None:
    there.finish(SCORED)
    folder = there.run_folder(SCORED)
    files = [*folder.tables.rglob("*.parquet"), *folder.site.rglob("*.html")]
    inodes = {path: path.stat().st_ino for path in files}
    assert there.finish(SCORED).state is RunState.DONE
    assert {path: path.stat().st_ino for path in files} == inodes


def test_a_table_of_an_earlier_version_is_remade(there: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "__version__", "0.0.0")
    there.finish(SCORED)
    path = there.run_folder(SCORED).part("leaderboard", "leaderboard")
    earlier = tables.made_from(path)
    monkeypatch.undo()
    there.finish(SCORED)
    assert tables.made_from(path) != earlier


def test_a_removed_site_or_cost_table_is_made_again(there: Lab) -> None:
    there.finish(SCORED)
    folder = there.run_folder(SCORED)
    folder.part("cost", "cost").unlink()
    (folder.site / "index.html").unlink()
    (folder.site / "site.json").write_text("{}")
    there.finish(SCORED)
    assert folder.part("cost", "cost").exists()
    assert (folder.site / "index.html").exists()
    made = (folder.site / "index.html").stat().st_ino
    there.finish(SCORED)
    assert (folder.site / "index.html").stat().st_ino == made
