"""A gold set as ballots and labels: recorded juries and people's words in the form a leaderboard takes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from layton_batch.scoring.evidence import Ballot, Entrant, Judged, Label, content_key
from layton_batch.scoring.gold import Gold, GoldRow, Marks

_PART = {"answer_correct": 0, "justification_correct": 1, "both_correct": 2}


def ballots_of(gold: Gold, metric: str) -> list[Ballot]:
    """Every recorded prediction with its jury's votes; one without any answer counts as wrong."""
    return [_ballot(row, metric) for row in gold.rows]


def labels_of(gold: Gold, metric: str) -> list[Label]:
    """The predictions a person judged on this metric, with their jury's votes."""
    labels = []
    for row in gold.rows:
        correct = _mark(row.human, metric)
        if correct is not None:
            yes, total = _votes(row, metric)
            content = content_key(row.answer, row.justification)
            labels.append(Label(_entrant(row), row.item_id, yes, total, correct, content))
    return labels


def rejudged_labels(
    gold: Gold,
    metric: str,
    verdicts: Mapping[tuple[Entrant, str], Mapping[str, bool]],
    own: Mapping[tuple[Entrant, str, int], tuple[int, int]],
) -> list[Label]:
    """The labelled predictions with another jury's votes: by entrant, item and content where that jury judged the very
    same prediction anyway (``own``: yes, total), else its ``verdicts`` by entrant and item, each by judge.

    What that jury did not judge is left out.
    """
    labels = []
    for row in gold.rows:
        correct, entrant = _mark(row.human, metric), _entrant(row)
        content = content_key(row.answer, row.justification)
        given = verdicts.get((entrant, row.item_id), {})
        yes, total = own.get((entrant, row.item_id, content)) or (sum(given.values()), len(given))
        if correct is not None and total:
            labels.append(Label(entrant, row.item_id, yes, total, correct, content))
    return labels


def judged_of(gold: Gold, metric: str) -> list[Judged]:
    """Every recorded prediction with each judge's verdict on this metric; the provider stands for the family."""
    return [
        Judged(
            entrant=_entrant(row),
            family=row.provider,
            item_id=row.item_id,
            verdicts={
                name: mark
                for name, marks in zip(gold.judges, row.judges, strict=True)
                if (mark := _mark(marks, metric)) is not None
            },
            human=_mark(row.human, metric),
            content=content_key(row.answer, row.justification),
        )
        for row in gold.rows
    ]


def _ballot(row: GoldRow, metric: str) -> Ballot:
    yes, total = _votes(row, metric)
    silent = row.answer is None and total == 0
    return Ballot(
        entrant=_entrant(row),
        item_id=row.item_id,
        yes=yes,
        total=total,
        content=content_key(row.answer, row.justification),
        known_zero=silent,
        kind="missing" if silent else "answered",
    )


def _entrant(row: GoldRow) -> Entrant:
    return Entrant(row.model, row.provider, row.n_hints)


def _votes(row: GoldRow, metric: str) -> tuple[int, int]:
    marks = [mark for judge in row.judges if (mark := _mark(judge, metric)) is not None]
    return sum(marks), len(marks)


def _mark(marks: Marks | None, metric: str) -> bool | None:
    return None if marks is None else marks[_PART[metric]]


def gold_rows(gold: Gold) -> Iterator[dict[str, object]]:
    """The gold set in the form it was read in, layton-eval-ppi's."""
    for row in gold.rows:
        plain: dict[str, object] = {
            "riddle_id": row.item_id,
            "provider": row.provider,
            "model": row.model,
            "n_hints": row.n_hints,
            "answer": row.answer,
            "justification": row.justification,
        }
        for judge, marks in zip(gold.judges, row.judges, strict=True):
            plain |= _columns(
                marks, f"is_answer_correct_{judge}", f"is_justification_correct_{judge}", f"both_correct_{judge}"
            )
        yield plain | _columns(row.human, "human_answer_correct", "human_justification_correct", "human_both_correct")


def _columns(marks: Marks | None, *names: str) -> dict[str, object]:
    return dict(zip(names, marks or (None, None, None), strict=True))
