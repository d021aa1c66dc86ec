"""A finished run to put labels beside, and files of labels."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.cli_harness import Desk, call, desk
from tests.pipeline.lab import manifest_text

PLAIN = ""
WITH_GOLD = 'source = "bundled"\n'
"""Lines of [gold]."""
PROVIDERS = ("openai", "anthropic", "together")
KEYS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "TOGETHER_API_KEY", "GEMINI_API_KEY", "MISTRAL_API_KEY")


def asked(gold: str = "", *, limit: int = 12) -> str:
    """Three models before a jury of one; ``gold``: the lines of [gold]."""
    return manifest_text(PROVIDERS, limit=limit, top=f"[gold]\n{gold}\n" if gold else "")


@contextmanager
def finished(folder: Path, patch: pytest.MonkeyPatch, gold: str = "", *, limit: int = 12) -> Iterator[Desk]:
    """A desk where such a run has ended. From then on there is no key, and no provider is at its address."""
    with desk(folder, patch) as at:
        ended = call("run", at.write(asked(gold, limit=limit)))
        assert ended.code == 0, ended.err
        for name in KEYS:
            patch.delenv(name, raising=False)
        for name in at.lab.server.environment():
            if name.endswith("_URL"):
                patch.setenv(name, "http://127.0.0.1:9")
        yield at


def answers(at: Desk | Path) -> list[dict[str, object]]:
    """Every answer of the run: item, model, what was said, and the only judge's verdict."""
    from layton_batch.files import tables

    root = (at if isinstance(at, Path) else at.run_root()) / "tables"
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
