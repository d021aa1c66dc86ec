"""A finished run to label, and files of labels."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from layton_batch.files import tables
from layton_batch.files.atomic import file_digest
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.stores import open_store
from layton_batch.settings import Settings
from tests.support.cli_harness import call, desk
from tests.support.lab import BUNDLED, MODELS, manifest_text

Row = dict[str, Any]
GOLD_FILE = "gold.jsonl"
ANNOTATED, WITH_GOLD = 'annotations = "labels.jsonl"\n', f'source = "{GOLD_FILE}"\n'
"""Lines of [gold]."""
PROVIDERS = ("openai", "anthropic", "together")


def gold_rows() -> list[Row]:
    """Return the bundled gold set's rows of the run's models and of two others: fewer models are ranked sooner."""
    names = {*(MODELS[provider] for provider in PROVIDERS), "tern-3-pro", "sirocco-large"}
    rows = [json.loads(line) for line in (BUNDLED / "gold_llm.jsonl").read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["model"] in names]


def asked(gold: str = "") -> str:
    """Three models before a jury of one; ``gold``: the lines of [gold]."""
    return manifest_text(PROVIDERS, limit=12, top=f"[gold]\n{gold}\n" if gold else "")


def finish(folder: Path, gold: str) -> Path:
    """Drive such a run to its end in ``folder``; return its folder."""
    write_rows(folder / GOLD_FILE, gold_rows())
    with pytest.MonkeyPatch.context() as patch, desk(folder, patch) as at:
        ended = call("run", at.write(asked(gold)))
        assert ended.code == 0, ended.err
        return at.run_root()


def answers(run: Path) -> list[Row]:
    """Every answer of the run, with the only judge's ``verdict``."""
    judged = {(row["item_id"], row["model"]): row for row in tables.read(run / "tables", "verdicts").to_dicts()}
    rows = tables.read(run / "tables", "predictions").filter(kind="answered").to_dicts()
    return [row | {"verdict": judged[row["item_id"], row["model"]]["both_correct"]} for row in rows]


def label(answer: Mapping[str, object], says: bool, **more: object) -> Row:
    """A label on an answer, by item and model."""
    where = {"item_id": answer["item_id"], "model": answer["model"]}
    return {**where, "answer_correct": says, "justification_correct": says, **more}


def write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """A file of rows, an object a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def board(root: Path, *more: str) -> list[Row]:
    """The rows of a leaderboard."""
    return board_and_notes(root, *more)[0]


def board_and_notes(root: Path, *more: str) -> tuple[list[Row], str]:
    """The rows of a leaderboard, and what the command says with them."""
    ended = call("leaderboard", root.name, "--format", "json", *more)
    assert ended.code == 0, ended.err
    return json.loads(ended.out), ended.err


def labels_used(root: Path) -> int:
    return sum(row["own_labels"] for row in board(root))


def exported(root: Path, form: str) -> list[Row]:
    out = root.parent.parent / f"{form}.jsonl"
    ended = call("export", root.name, "--to", form, "--out", out)
    assert ended.code == 0, ended.err
    return [json.loads(line) for line in out.read_text(encoding="utf-8").splitlines()]


def actions(root: Path, annotator: str) -> list[str]:
    """Return the kinds of all that the app noted of a person, in order."""
    logs = sorted((root / "labels").glob("annotate-*.jsonl"))
    rows = (json.loads(line) for path in logs for line in path.read_text(encoding="utf-8").splitlines())
    return [row["kind"] for row in rows if row["annotator"] == annotator]


def publish(root: Path) -> None:
    """Score the run, and write its pages."""
    ended = call("site", root.name, "--out", root.parent / "pages")
    assert ended.code == 0, ended.err


def note_as_written(root: Path, path: Path) -> None:
    """Have a run's state say that the program wrote this file of it."""
    with open_store(RunFolder(root), Settings(root.parent)) as store:
        store.note_files([file_digest(path, path.relative_to(root.parent).as_posix())])
