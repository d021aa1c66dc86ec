"""A finished run to put labels beside, and files of labels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from layton_batch.files.digests import file_digest
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.stores import open_store
from layton_batch.settings import Settings
from tests.support.cli_harness import Desk, call, desk
from tests.support.lab import BUNDLED, MODELS, manifest_text

GOLD_FILE = "gold.jsonl"
ERRORS = "errors.txt"
"""What the command that ran it said on stderr."""
PLAIN = ""
ANNOTATED = 'annotations = "labels.jsonl"\n'
WITH_GOLD = f'source = "{GOLD_FILE}"\n'
"""Lines of [gold]."""
PROVIDERS = ("openai", "anthropic", "together")


def gold_rows() -> list[dict[str, object]]:
    """Return the bundled gold set's rows of the run's models and of two others: fewer models are ranked sooner."""
    names = {*(MODELS[provider] for provider in PROVIDERS), "tern-3-pro", "sirocco-large"}
    rows = [json.loads(line) for line in (BUNDLED / "gold_llm.jsonl").read_text(encoding="utf-8").splitlines()]
    return [row for row in rows if row["model"] in names]


def asked(gold: str = "", *, limit: int = 12) -> str:
    """Three models before a jury of one; ``gold``: the lines of [gold]."""
    return manifest_text(PROVIDERS, limit=limit, top=f"[gold]\n{gold}\n" if gold else "")


@contextmanager
def finished(folder: Path, patch: pytest.MonkeyPatch, gold: str = "", *, limit: int = 12) -> Iterator[Desk]:
    """A desk where such a run has ended."""
    with desk(folder, patch) as at:
        ended = call("run", at.write(asked(gold, limit=limit)))
        assert ended.code == 0, ended.err
        (folder / ERRORS).write_text(ended.err, encoding="utf-8")
        yield at


def answers(run: Path) -> list[dict[str, object]]:
    """Every answer of the run: item, model, what was said, and the only judge's verdict."""
    from layton_batch.files import tables

    root = run / "tables"
    verdicts = {(row["item_id"], row["model"]): row for row in tables.read(root, "verdicts").iter_rows(named=True)}
    rows = tables.read(root, "predictions").filter(kind="answered").iter_rows(named=True)
    return [
        {
            **{name: row[name] for name in ("item_id", "model", "provider", "answer", "justification")},
            "verdict": verdicts[row["item_id"], row["model"]]["both_correct"],
        }
        for row in rows
    ]


def label(answer: Mapping[str, object], says: bool, **more: object) -> dict[str, object]:
    """A label on an answer, by item and model."""
    where = {"item_id": answer["item_id"], "model": answer["model"]}
    return {**where, "answer_correct": says, "justification_correct": says, **more}


def write_rows(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    """A file of rows, an object a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def scores(ending_json: object) -> dict[str, object]:
    """By model."""
    assert isinstance(ending_json, list)
    return {row["model"]: row["score"] for row in ending_json}


def freeze(root: Path, document: str) -> None:
    """Have a run's ``run.json`` say this, as if the run had begun so."""
    path = root / "run.json"
    path.write_text(document, encoding="utf-8")
    note_as_written(root, path)


def note_as_written(root: Path, path: Path) -> None:
    """Have a run's state say that the program wrote this file of it."""
    with open_store(RunFolder(root), Settings(root.parent)) as store:
        store.note_files([file_digest(path, path.relative_to(root.parent).as_posix())])
