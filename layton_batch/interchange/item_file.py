"""A run's items as a file of items: in the role ``justify`` with the explanations that people confirmed."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import orjson

from layton_batch.errors import DataError
from layton_batch.files import atomic, tables
from layton_batch.records import Item
from layton_batch.runs.context import Run
from layton_batch.scoring.annotations import AnswerKey, settled
from layton_batch.scoring.evidence import ENTRANT
from layton_batch.stages.rank import entrant, evidence, finished_jobs, joined

_HINTS = ("first_hint", "second_hint", "third_hint", "special_hint")
_METRIC = "justification_correct"


def write_items(run: Run, out: Path) -> int:
    """Every item that has an explanation which people found right, with it; how many that are.

    Of several the one with the most votes of the jury counts, then the manifest's earlier model's. Raises DataError for
    a run of another kind, and where nothing is confirmed yet.
    """
    if getattr(run.manifest, "task_options", {}).get("role") != "justify":
        raise DataError(f'{run.id}: only a run with [task_options] role = "justify" has explanations to export')
    confirmed = _confirmed(run)
    rows = [orjson.dumps(_row(item, *confirmed[item.id])) + b"\n" for item in run.items if item.id in confirmed]
    if not rows:
        raise DataError(f"{run.id}: nobody confirmed an explanation yet: layton-batch label {run.id}")
    atomic.write_bytes(out, b"".join(rows))
    return len(rows)


def _confirmed(run: Run) -> dict[str, tuple[str, str, list[str]]]:
    """Return for each item the explanation, its author and the people who confirmed it."""
    cast, _ = evidence(run, _METRIC)
    yes = {tuple(row[:-1]): row[-1] for row in cast.select(*ENTRANT, "item_id", "yes").iter_rows()}
    people = joined(run, cast).by_prediction
    best: dict[str, tuple[int, tuple[str, str, list[str]]]] = {}
    for job in finished_jobs(run):
        author = entrant(run, job)
        frame = tables.read_part(run.folder.part("predictions", job.id), ["item_id", "justification"])
        for item_id, written in frame.iter_rows():
            labels = people.get(AnswerKey.of(author, item_id), {}).values()
            votes = yes.get((*astuple(author), item_id), 0)
            is_better = item_id not in best or votes > best[item_id][0]
            if written and is_better and settled(None, labels, _METRIC) is True:
                names = sorted({label.annotator for label in labels if label.mark(_METRIC) is True})
                best[item_id] = votes, (written, author.model, names)
    return {item_id: explanation for item_id, (_, explanation) in best.items()}


def _row(item: Item, justification: str, model: str, people: list[str]) -> dict[str, object]:
    row: dict[str, object] = {
        "id": item.id,
        "split": item.split,
        "category": item.category or None,
        "description": item.question,
        **dict.fromkeys(_HINTS),
        **dict(zip(_HINTS, item.hints, strict=False)),
        "answer": item.answer if item.answer != item.solution else None,  # the solution stood in
        "solution": item.solution,
        "justification": justification,
        "justification_by": model,
        "confirmed_by": people,
    }
    return row | ({"img": item.images[0].base64} if item.images else {})
