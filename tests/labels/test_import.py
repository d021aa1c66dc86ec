"""label import: all or nothing, twice changes nothing, a later word takes the place of an earlier."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import layton_batch as lb
from tests.labels.conftest import Copied
from tests.labels.label_desk import PLAIN, answers, label, scores, write_rows
from tests.support.cli_harness import call


def board(root: Path) -> list[dict[str, Any]]:
    ended = call("leaderboard", root.name, "--this-set", "--format", "json")
    assert ended.code == 0, ended.err
    rows: list[dict[str, Any]] = json.loads(ended.out)
    return rows


def imported(root: Path, file: Path) -> dict[str, object]:
    (row,) = lb.label_import(root, file).frame.to_dicts()
    return row


def folder(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


def test_labels_are_used_by_the_next_scoring_and_importing_them_twice_changes_nothing(
    copied: Copied, tmp_path: Path
) -> None:
    root = copied(PLAIN)
    said = answers(root)
    assert {row["method"] for row in board(root)} == {"uncalibrated"}
    file = write_rows(tmp_path / "labels.jsonl", [label(one, False, annotator="ann") for one in said])
    taken = imported(root, file)
    assert taken == {"run": root.name, "added": len(said), "changed": 0, "unchanged": 0, "strangers": 0, "replaced": 0,
                     "stranger_rows": [], "outdated": 0, "unnamed": 0, "beside_unnamed": 0}  # fmt: skip
    assert {row["score"] for row in board(root)} == {0.0}
    before = folder(root)
    assert imported(root, file) == taken | {"added": 0, "unchanged": len(said)}
    assert folder(root) == before
    assert f"+{len(said)} labels since" in call("leaderboard", root.name).err


def test_a_later_label_of_one_annotator_takes_the_place_of_the_earlier_and_an_older_one_does_not(
    copied: Copied, tmp_path: Path
) -> None:
    root = copied(PLAIN)
    said = answers(root)
    at = {"annotator": "ann", "time": "2026-11-20T10:00:00Z"}
    imported(root, write_rows(tmp_path / "first.jsonl", [label(one, False, **at) for one in said]))
    later = [label(said[0], True, annotator="ann", time="2026-11-21T10:00:00Z")]
    taken = imported(root, write_rows(tmp_path / "later.jsonl", later))
    assert (taken["added"], taken["changed"]) == (0, 1)
    changed = scores(board(root))
    assert max(changed.values()) > 0  # type: ignore[type-var, operator]
    again = imported(root, tmp_path / "first.jsonl")
    assert (again["added"], again["changed"], again["unchanged"]) == (0, 0, len(said))
    assert scores(board(root)) == changed
    both = [label(said[1], False, annotator="bob"), label(said[1], True, annotator="bob")]
    assert imported(root, write_rows(tmp_path / "both.jsonl", both))["added"] == 1


def test_a_file_with_a_bad_row_changes_nothing_and_the_row_is_named(copied: Copied, tmp_path: Path) -> None:
    root = copied(PLAIN)
    said = answers(root)
    before = folder(root)
    rows: list[Any] = [label(one, True) for one in said]
    rows[4]["justification_correct"] = "no"
    refused = call("label", "import", root.name, write_rows(tmp_path / "labels.jsonl", rows))
    assert refused.code == 2
    assert "labels.jsonl, line 5: column 'justification_correct' must be true, false or null" in refused.err
    good = write_rows(tmp_path / "good.jsonl", rows[:3])
    assert call("label", "import", root.name, good, tmp_path / "labels.jsonl").code == 2
    assert folder(root) == before


def test_labels_of_models_the_run_does_not_have_are_kept_and_told_unless_all_are(
    copied: Copied, tmp_path: Path
) -> None:
    root = copied(PLAIN)
    said = answers(root)
    typo = f"{said[0]['model']}e"
    rows = [label(said[0], True), label(said[0], True) | {"model": typo}]
    rows += [label(said[0], True) | {"item_id": f"none-{number}"} for number in range(5)]
    shown = call("label", "import", root.name, write_rows(tmp_path / "labels.jsonl", rows))
    assert shown.code == 0
    assert "7 labels added, 0 changed, 0 unchanged" in shown.err
    assert "6 of them on answers that the run does not have (yet):" in shown.err
    suggestion = f"line 2: the run has no model '{typo}'; did you mean '{said[0]['model']}'?"
    assert suggestion in shown.err
    assert "line 6: there is no item 'none-3'" in shown.err
    assert "none-4" not in shown.err
    assert "1 more such label" in shown.err
    assert "1 label not used: of a model that has no answers here" in call("leaderboard", root.name).err
    refused = call("label", "import", root.name, write_rows(tmp_path / "none.jsonl", rows[1:2]))
    assert refused.code == 2
    assert "nothing was imported" in refused.err
    assert suggestion.replace("line 2", "line 1") in refused.err
