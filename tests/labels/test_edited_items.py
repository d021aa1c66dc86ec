"""Labels that were given before an item's question or reference changed: they do not count, and are said."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.open import read_run
from layton_batch.settings import Settings
from tests.labels.app_desk import opened
from tests.labels.conftest import Copied
from tests.labels.label_desk import ANNOTATED, PLAIN, answers, label, write_rows
from tests.support.cli_harness import Ending, call


def edit(root: Path, **changes: str) -> None:
    """Change every item of a run, as a revision does."""
    with read_run(RunFolder(root), Settings.from_process()) as run:
        run.freeze([replace(item, **changes) for item in run.items])  # type: ignore[arg-type]


def labels_used(root: Path) -> tuple[int, str]:
    """Return the number of labels on the leaderboard, and the command's notes."""
    ended = call("leaderboard", root.name, "--format", "json")
    assert ended.code == 0, ended.err
    return sum(row["own_labels"] for row in json.loads(ended.out)), ended.err


def take(root: Path, *rows: Mapping[str, object]) -> Ending:
    """Import labels."""
    ended = call("label", "import", root.name, write_rows(root.parent / "taken.jsonl", rows))
    assert ended.code == 0, ended.err
    return ended


@pytest.mark.parametrize("part", ["question", "answer", "justification", "solution"])
def test_an_imported_label_counts_as_long_as_the_item_is_as_it_was_then(copied: Copied, part: str) -> None:
    root = copied(PLAIN)
    first, second, *_ = answers(root)
    rows = (label(first, False), label(second, False))
    take(root, *rows)
    assert labels_used(root)[0] == 2
    edit(root, **{part: "Another one."})
    count, notes = labels_used(root)
    assert count == 0
    assert (
        "2 labels not used: given before the question or the reference of the item changed; "
        f"`layton-batch label {root.name}` shows these answers again"
    ) in notes
    assert "0 labels added, 0 changed, 2 unchanged" in take(root, *rows).err
    assert labels_used(root)[0] == 0


def test_a_label_that_was_given_since_takes_the_place_of_an_earlier_one(copied: Copied) -> None:
    root = copied(PLAIN)
    first, second, *_ = answers(root)
    old = {"annotator": "ada", "time": "2026-11-20T10:00:00Z"}
    take(root, label(first, False, **old), label(second, False, **old))
    edit(root, answer="Another one.")
    taken = take(root, label(first, True, **old), label(second, False, annotator="ada", time="2026-11-22T10:00:00Z"))
    assert "0 labels added, 2 changed" in taken.err
    assert labels_used(root)[0] == 2


def test_a_sheet_that_was_written_before_labels_the_item_of_then(copied: Copied) -> None:
    root = copied(PLAIN)
    assert call("label", "plan", root.name, "--labels", "6", "--out", "ask.csv").code == 0
    rows = list(csv.DictReader(io.StringIO(Path("ask.csv").read_text(encoding="utf-8-sig"))))
    edit(root, answer="Another one.")
    take(root, *({**row, "answer_correct": "yes", "justification_correct": "no"} for row in rows[:2]))
    assert labels_used(root)[0] == 0
    ended = take(root, *({**row, "answer_correct": "no", "justification_correct": "no"} for row in rows[:2]))
    assert "2 of them given before the question or the reference of the item changed: they do not count" in ended.err
    assert call("label", "plan", root.name, "--labels", "6", "--out", "new.csv").code == 0
    rows = list(csv.DictReader(io.StringIO(Path("new.csv").read_text(encoding="utf-8-sig"))))
    take(root, *({**row, "answer_correct": "no", "justification_correct": "no"} for row in rows[:2]))
    assert labels_used(root)[0] == 2


def test_labels_of_an_export_belong_to_the_item_that_people_saw(copied: Copied, tmp_path: Path) -> None:
    root = copied(PLAIN)
    first, second, *_ = answers(root)
    take(root, label(first, False), label(second, False))
    assert call("export", root.name, "--to", "annotations", "--out", "out.jsonl").code == 0
    rows = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text(encoding="utf-8").splitlines()]
    for path in (root / "labels").glob("*"):
        path.unlink()
    edit(root, answer="Another one.")
    take(root, *rows)
    assert labels_used(root)[0] == 0


def test_a_file_of_ones_own_counts_unless_it_says_which_item_people_saw(copied: Copied, tmp_path: Path) -> None:
    root = copied(ANNOTATED)
    first, second, *_ = answers(root)
    write_rows(tmp_path / "labels.jsonl", [label(first, True), label(second, True, item_digest="i0")])
    edit(root, answer="Another one.")
    count, notes = labels_used(root)
    assert (count, "1 label not used: given before" in notes) == (1, True)


def test_the_app_shows_an_answer_again_whose_item_changed(copied: Copied) -> None:
    root = copied(PLAIN)
    with opened(root) as app:
        app.label()
        app.post("/unsure", id=app.shown())
    edit(root, answer="Another one.")
    assert labels_used(root)[0] == 0
    with opened(root) as app:
        everything = len(app.session.answers)
        assert "0 done" in app.get().text
        for _ in range(everything):
            app.label()
        assert f"{everything} done" in app.get().text
    assert labels_used(root)[0] == everything


def test_the_app_shows_the_answers_of_another_model_that_takes_a_name(copied: Copied) -> None:
    root = copied(PLAIN)
    with opened(root) as app:
        app.label()
        session = app.session
        assert "1 done" in app.get().text
        names = dict.fromkeys(session.run.model_ids(), "another-model")
        assert not session.actions().on_present_answers(session.run.item_digest, names).active("ada")


def test_a_form_that_was_opened_before_the_edit_labels_nothing(copied: Copied) -> None:
    root = copied(PLAIN)
    with opened(root) as app:
        shown = app.form()
        edit(root, answer="Another one.")
        for path in ("/label", "/adjudicate", "/unsure", "/flag"):
            refused = app.post(path, **shown, answer="right", justification="right")
            assert refused.status_code == 500
            assert "the items of the run changed since the app was started: stop it and start it again" in refused.text
        assert "stop it and start it again" in app.get().text
        assert not list((root / "labels").glob("*.jsonl"))


def test_a_form_on_an_answer_that_changed_since_labels_nothing(copied: Copied) -> None:
    root = copied(PLAIN)
    with opened(root) as app:
        refused = app.post("/label", **{**app.form(), "seen": "i0"}, answer="right", justification="right")
        assert (refused.status_code, "The answer changed since this page was opened" in refused.text) == (409, True)
        assert not list((root / "labels").glob("*.jsonl"))
