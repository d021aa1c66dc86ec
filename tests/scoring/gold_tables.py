"""Answers, verdicts and labels that tests make up, as a table of layton-eval-ppi's form, which commands take."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import polars as pl

from layton_batch.scoring.evidence import Entrant
from tests.support.evidence import Ballot, Label

JUSTIFICATION = "because"


class Answer(NamedTuple):
    """An answer with its verdicts by judge, and people's word; None: it has no label."""

    entrant: Entrant
    item_id: str
    verdicts: Mapping[str, bool]
    human: bool | None
    text: str = ""


def gold_table(answers: Sequence[Answer]) -> pl.DataFrame:
    judges = dict.fromkeys(judge for answer in answers for judge in answer.verdicts)
    rows = [
        {
            "riddle_id": answer.item_id, "provider": answer.entrant.provider, "model": answer.entrant.model,
            "n_hints": answer.entrant.n_hints, "answer": answer.text, "justification": JUSTIFICATION,
            **{f"is_{field}_correct_{judge}": answer.verdicts.get(judge)
               for judge in judges for field in ("answer", "justification")},
            "human_answer_correct": answer.human, "human_justification_correct": answer.human,
        }
        for answer in answers
    ]  # fmt: skip
    is_bool: dict[str, type[pl.DataType]] = {name: pl.Boolean for name in rows[0] if name.startswith(("is_", "human_"))}
    return pl.DataFrame(rows, schema_overrides=is_bool, infer_schema_length=None)


def verdicts(yes: int, total: int) -> dict[str, bool]:
    """Return verdicts of so many judges, of whom the first ones said yes."""
    return {f"judge-{number}": number < yes for number in range(total)}


def voted(ballots: Sequence[Ballot], labels: Sequence[Label] = ()) -> pl.DataFrame:
    """Return the table of votes and of labels on the same answers."""
    words = {(label.entrant, label.item_id): label.correct for label in labels}
    return gold_table([
        Answer(
            ballot.entrant, ballot.item_id, verdicts(ballot.yes, ballot.total),
            words.get((ballot.entrant, ballot.item_id)), str(ballot.content),
        )
        for ballot in ballots
    ])  # fmt: skip
