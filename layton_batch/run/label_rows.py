"""People's labels on a run's own answers as a table, for whoever shows them beside the jury's verdicts."""

from __future__ import annotations

from collections.abc import Iterator

from layton_batch.files import tables
from layton_batch.run.context import Run
from layton_batch.scoring.annotations import Joined, majority
from layton_batch.scoring.evidence import Entrant, content_key

_SAID = ("item_id", "model", "provider", "n_hints", "answer", "justification")
_MARKS = ("answer_correct", "justification_correct", "both_correct")


def write_labels(run: Run, joined: Joined) -> None:
    """Write the table of labels as they are now; a run that never had any gets none."""
    path = run.folder.part("labels", "labels")
    rows = list(_label_rows(run, joined))
    if rows or path.exists():
        tables.write(path, tables.frame("labels", rows))


def _label_rows(run: Run, joined: Joined) -> Iterator[dict[str, object]]:
    """One row for each answer that people labelled: of several people the majority, the gold set one of them."""
    labels = run.load_labels()
    annotations = joined.by_prediction
    gold = {
        (Entrant(row.model, row.provider, row.n_hints), row.item_id, content_key(row.answer, row.justification)): row
        for row in (labels.gold.rows if labels.gold else ())
        if row.human is not None
    }
    if not gold and not annotations:
        return
    for item_id, model, provider, hints, answer, reason in tables.read(
        run.folder.tables, "predictions", _SAID
    ).iter_rows():
        who = Entrant(model, provider, hints)
        row = gold.get((who, item_id, content_key(answer, reason)))
        given = [tuple(one.mark(name) for name in _MARKS) for one in annotations.get((who, item_id), {}).values()]
        given += [tuple(row.human)] if row is not None and row.human is not None else []
        if given:
            marks = [_most(column) for column in zip(*given, strict=True)]
            about = {"item_id": item_id, "model": model, "n_hints": hints}
            yield about | dict(zip(_MARKS, marks, strict=True)) | {"people": len(given)}


def _most(marks: tuple[bool | None, ...]) -> bool | None:
    return majority([mark for mark in marks if mark is not None])
