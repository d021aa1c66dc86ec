"""Labels that were given before an item's question or reference changed: they do not count, and are said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.open import read_run
from layton_batch.settings import Settings
from tests.labels.conftest import Copied
from tests.labels.label_runs import ANNOTATED, answers, board_and_notes, label, labels_used, write_rows
from tests.labels.opened_app import opened
from tests.support.cli_harness import call


def edit(root: Path, **changes: str) -> None:
    """Change every item of a run, as a revision does."""
    with read_run(RunFolder(root), Settings.from_process()) as run:
        run.freeze([replace(item, **changes) for item in run.items])  # type: ignore[arg-type]


def take(root: Path, *rows: Mapping[str, object]) -> str:
    """Import labels; what was said."""
    ended = call("label", "import", root.name, write_rows(root.parent / "taken.jsonl", rows))
    assert ended.code == 0, ended.err
    return ended.err


@pytest.mark.parametrize("part", ["question", "justification"])
def test_an_imported_label_counts_as_long_as_the_item_is_as_it_was_then(copied: Copied, part: str) -> None:
    root = copied(ANNOTATED)
    rows = [label(one, False, annotator="ada", time="2026-11-20T10:00:00Z") for one in answers(root)[:2]]
    take(root, *rows)
    assert labels_used(root) == 2
    edit(root, **{part: "Another one."})
    shown, notes = board_and_notes(root)
    assert {row["own_labels"] for row in shown} == {0}
    assert "2 labels not used: given before the question or the reference of the item changed" in notes
    assert f"`layton-batch label {root.name}` shows these answers again" in notes
    assert "0 labels added, 0 changed, 2 unchanged" in take(root, *rows)
    since = [rows[0] | {"answer_correct": True}, rows[1] | {"time": "2026-11-22T10:00:00Z"}]
    assert "0 labels added, 2 changed" in take(root, *since)
    assert labels_used(root) == 2


def test_the_app_shows_an_answer_again_whose_item_changed(copied: Copied) -> None:
    root = copied(ANNOTATED)
    with opened(root) as app:
        app.label()
        app.post("/unsure", id=app.shown())
    edit(root, answer="Another one.")
    with opened(root) as app:
        everything = len(app.session.answers)
        assert "0 done" in app.get().text
        for _ in range(everything):
            app.label()
        assert f"{everything} done" in app.get().text
    assert labels_used(root) == everything
