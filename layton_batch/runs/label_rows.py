"""The table of people's labels on a run's own answers, shown beside the jury's verdicts."""

from __future__ import annotations

from collections.abc import Iterator

import polars as pl

from layton_batch.files import tables
from layton_batch.runs.context import Run
from layton_batch.scoring.annotations import JoinedLabels, settled
from layton_batch.scoring.evidence import ENTRANT, PREDICTION, with_contents
from layton_batch.scoring.gold import HUMAN

_ANSWERS = (*ENTRANT, "item_id", "sample", "answer", "justification")


def write_labels(run: Run, joined: JoinedLabels) -> None:
    """Write the table of the present labels. Write none if the run never had labels."""
    path = run.folder.part("labels", "labels")
    rows = list(_label_rows(run, joined))
    if rows or path.exists():
        tables.write(path, tables.frame("labels", rows))


def _label_rows(run: Run, joined: JoinedLabels) -> Iterator[dict[str, object]]:
    """Yield a row for each labelled answer, with the marks that people settled on. The gold set counts as a person."""
    gold, people = run.load_labels().gold, list(joined.by_prediction.values())
    if gold is None and not people:
        return
    nothing = tables.frame("predictions", []).select(_ANSWERS)
    parts = [with_contents(part) for part in (nothing, *tables.read_each(run.folder.tables, "predictions", _ANSWERS))]
    answers = pl.concat(parts).with_columns(pl.col("sample").fill_null(1))
    answers = answers.join(joined.locations, on=[*ENTRANT, "item_id"], how="left", maintain_order="left")
    if gold is not None:
        words = gold.labelled.unique(PREDICTION, keep="last").select(*PREDICTION, *HUMAN.values(), in_gold=1)
        answers = answers.join(words, on=PREDICTION, how="left", maintain_order="left")
    for row in answers.iter_rows(named=True):
        in_gold = gold is not None and row["in_gold"] is not None
        given = people[row["about"]].values() if row["about"] is not None and row["sample"] == 1 else ()
        if given or in_gold:
            settled_marks = {
                name: settled(row[column] if in_gold else None, given, name) for name, column in HUMAN.items()
            }
            names = ("item_id", "model", "n_hints", "sample")
            yield {name: row[name] for name in names} | {"people": len(given) + in_gold} | settled_marks
