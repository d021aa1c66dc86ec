"""Labels that were given before an item's question or reference changed: they do not count, and are said."""

from __future__ import annotations

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
from tests.labels.label_desk import PLAIN, answers, label, write_rows
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


@pytest.mark.parametrize("part", ["question", "justification"])
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


def test_a_form_on_an_answer_that_changed_since_labels_nothing(copied: Copied) -> None:
    root = copied(PLAIN)
    with opened(root) as app:
        refused = app.post("/label", **{**app.form(), "seen": "i0"}, answer="right", justification="right")
        assert (refused.status_code, "The answer changed since this page was opened" in refused.text) == (409, True)
        assert not list((root / "labels").glob("*.jsonl"))
