"""People's labels on a run's own answers as a table, for whoever shows them beside the jury's verdicts."""

from __future__ import annotations

from collections.abc import Iterator

from layton_batch.files import tables
from layton_batch.runs.context import Run
from layton_batch.scoring.annotations import Joined, settled
from layton_batch.scoring.evidence import Entrant, content_key

_SAID = ("item_id", "model", "provider", "n_hints", "sample", "answer", "justification")
_MARKS = ("answer_correct", "justification_correct", "both_correct")


def write_labels(run: Run, joined: Joined) -> None:
    """Write the table of labels as they are now; a run that never had any gets none."""
    path = run.folder.part("labels", "labels")
    rows = list(_label_rows(run, joined))
    if rows or path.exists():
        tables.write(path, tables.frame("labels", rows))


def _label_rows(run: Run, joined: Joined) -> Iterator[dict[str, object]]:
    """One row for each answer that people labelled: what people settled on, the gold set one of them."""
    labels = run.load_labels()
    annotations = joined.by_prediction
    gold = {
        (Entrant(row.model, row.provider, row.n_hints), row.item_id, content_key(row.answer, row.justification)): row
        for row in (labels.gold.rows if labels.gold else ())
        if row.human is not None
    }
    if not gold and not annotations:
        return
    parts = tables.read_each(run.folder.tables, "predictions", _SAID)
    for row in (row for part in parts for row in part.iter_rows(named=True)):
        who, sample = Entrant(row["model"], row["provider"], row["n_hints"]), row["sample"] or 1
        known = gold.get((who, row["item_id"], content_key(row["answer"], row["justification"])))
        marks = (None,) * len(_MARKS) if known is None or known.human is None else tuple(known.human)
        people = annotations.get((who, row["item_id"]), {}).values() if sample == 1 else ()
        count = len(people) + (known is not None)
        if count:
            said = {name: settled(mark, people, name) for name, mark in zip(_MARKS, marks, strict=True)}
            yield {"item_id": row["item_id"], "model": row["model"], "n_hints": row["n_hints"], "sample": sample,
                   "people": count} | said  # fmt: skip
