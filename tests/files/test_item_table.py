"""Items are frozen with a run as they are. Picarats are kept with them, and identify nothing."""

from __future__ import annotations

import base64
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from layton_batch.files import tables
from layton_batch.records import Image, Item, Prediction
from layton_batch.runs.context import Run
from layton_batch.states import PredictionKind
from layton_batch.tasks.protocol import Candidate
from tests.support.lab import lab, manifest_text

ORIGINAL = '[task_options]\nprotocol = "original"\n[prompts]\nparticipant_system = "p.txt"\njudge_system = "p.txt"\n'


def asked(run: Run, items: Sequence[Item]) -> list[object]:
    """Return what models and judges are asked about the items."""
    task: Any = run.task
    said = Prediction("x", "m", PredictionKind.ANSWERED, "8", "Guessed.")
    return [(task.prompt(item), task.judge_prompt(Candidate(item, said))) for item in items]


def test_a_run_goes_on_with_the_items_that_it_froze(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tables, "PORTION_ROWS", 7)
    rows = [
        {"id": f"r{number}", "split": "vlm", "category": "c", "description": "How many?", "first_hint": "é",
         "answer": "7", "justification": "Count.", "solution": None if number % 2 else "Seven.",
         "img": base64.b64encode(b"\xff\xd8\xff\xe0" + bytes(100 * (number % 7))).decode(), "picarats": number or None}
        for number in range(100)
    ]  # fmt: skip
    source = tmp_path / "items.jsonl"
    source.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    (tmp_path / "p.txt").write_text("Solve it.", encoding="utf-8")
    text = manifest_text(items="items.jsonl", limit=100, top=ORIGINAL).replace('split = "llm"', 'split = "vlm"')
    with lab(tmp_path) as there:
        with there.open(text) as run:
            items = list(run.load_items())
            prompts = asked(run, items)
        there.plan_only(text)
        source.unlink()
        with there.open(text) as run:
            assert (list(run.items), asked(run, run.items)) == (items, prompts)
    assert [item.picarats for item in items] == [None, *range(1, 100)]
    assert items[5].images == (Image("image/jpeg", str(rows[5]["img"])),)
