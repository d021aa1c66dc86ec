"""A run in layton-eval's three forms: ``ppi``, ``annotations``, ``results``; JSONL as their tools read it.

Columns that theirs do not have stand behind them: they choose columns by name.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import orjson

from layton_batch.errors import DataError
from layton_batch.files import atomic, tables
from layton_batch.records import Job
from layton_batch.runs.context import Run
from layton_batch.runs.rejudging import recorded_jury
from layton_batch.scoring.annotations import Annotation, Joined, Prediction, settled
from layton_batch.scoring.board import BoardRow
from layton_batch.scoring.evidence import Entrant, content_key
from layton_batch.scoring.gold import GoldRow, Marks
from layton_batch.scoring.gold_file import written_rows
from layton_batch.stages.rank import (
    board,
    entrant,
    has_labels_of_another_jury,
    jobs_of_round,
    joined,
    rejudged_marks,
    rejudging,
    samples,
)
from layton_batch.states import PredictionKind

_METRICS = ("answer_correct", "justification_correct", "both_correct")


def write_ppi(run: Run, out: Path) -> int:
    """Every answer with each judge's verdict and people's word on it; how many rows that are.

    Answers of the gold set that only bring a label have ``ranked`` false, and the votes that stand beside the label.
    ``leaderboard`` on this file gives the run's board. Where a model was asked several times rows have ``sample``.
    """
    _jury_only(run)
    rounds = max(samples(run).values(), default=1)
    own: list[_Answer] = []
    mine: list[set[_Identity]] = []
    for number in range(1, 1 + rounds):
        said = [(job.spec.sample, row) for job, row in _of_round(run, number)]
        mine.append({_identity(row) for _, (row, _) in said})
        own += [_asked_as(row, sample if rounds > 1 else None) for sample, row in said if sample == number]
    others = [one for pair in _recorded(run) for one in _where_apart(pair, mine)]
    judges = tuple(dict.fromkeys(name for _, verdicts in (*own, *others) for name in verdicts))
    seats = tuple(name for name in _panel(run) if name in judges)
    judges = (*seats, *(name for name in judges if name not in seats))
    rows = (_with_judges(row, verdicts, judges) for row, verdicts in (*own, *others))
    known = recorded_jury(run.manifest) if not others else {}  # others' votes may be of another jury's models
    return _write(out, written_rows(judges, rows, known, other_jury=has_labels_of_another_jury(run)))


def write_annotations(run: Run, out: Path) -> int:
    """Every label on the run's answers, a row for each annotator; the gold set is one of them.

    ``import --annotations`` and ``[gold] annotations`` take the file; so do layton-eval's tools.
    """
    _jury_only(run)
    return _write(out, _annotation_rows(run))


def write_results(run: Run, out: Path) -> int:
    """The leaderboard in the columns of layton-eval's results."""
    return _write(out, map(_result, board(run, run.rules)))


def _jury_only(run: Run) -> None:
    if not run.task.uses_jury:
        raise DataError(f"{run.id}: this task is graded by rule: it has no verdicts and no labels to export")


def _panel(run: Run) -> list[str]:
    return [judge.model.name for judge in run.manifest.panel()]


# ---- ppi -----------------------------------------------------------------------------------------------------------

_Answer = tuple[GoldRow, Mapping[str, Marks]]
_Identity = tuple[str, str, str, int, str | None, str | None]


def _of_round(run: Run, number: int) -> Iterator[tuple[Job, _Answer]]:
    people, gold = joined(run, number=number).by_prediction, _gold_words(run)
    for job in jobs_of_round(run, number):
        yield from ((job, row) for row in _answers(run, job, people, gold))


def _asked_as(answer: _Answer, sample: int | None) -> _Answer:
    row, verdicts = answer
    return replace(row, sample=sample), verdicts


def _where_apart(recorded: _Answer, mine: Sequence[Collection[_Identity]]) -> Iterator[_Answer]:
    """An answer of the gold set in the rounds in which the run has not the very same; once, where that is so of all."""
    apart = [number for number, said in enumerate(mine, 1) if _identity(recorded[0]) not in said]
    if len(apart) == len(mine):
        yield recorded
    else:
        yield from (_asked_as(recorded, number) for number in apart)


def _answers(
    run: Run, job: Job, people: Mapping[Prediction, Mapping[str, Annotation]], gold: _GoldWords
) -> Iterator[_Answer]:
    """The answers of one job of the run, with the verdicts of its jury and people's word."""
    who, verdicts = entrant(run, job), _verdicts(run, job)
    said = ("item_id", "kind", "answer", "justification")
    for portion in tables.read_portions(run.folder.part("predictions", job.id), said):
        for row in portion.iter_rows(named=True):
            item_id, answer, justification = str(row["item_id"]), row["answer"], row["justification"]
            labelled = gold.get((who, item_id, content_key(answer, justification)))
            words = people.get((who, item_id), {})
            human = _word(labelled.human if labelled else None, words)
            given = verdicts.get(item_id, {}) if row["kind"] == PredictionKind.ANSWERED else {}
            here = (item_id, who.provider, who.model, who.n_hints, answer, justification)
            yield GoldRow(*here, (), human, str(row["kind"]), propensity=_chance(labelled, words)), given


def _verdicts(run: Run, job: Job) -> dict[str, dict[str, Marks]]:
    """By item and judge."""
    columns = ["item_id", "judge", "is_answer_correct", "is_justification_correct", "both_correct"]
    found: dict[str, dict[str, Marks]] = defaultdict(dict)
    for other in run.store.jobs():
        if other.depends_on == job.id:
            for item_id, judge, *marks in tables.read_part(
                run.folder.part("verdicts", other.id), columns=columns
            ).iter_rows():
                if any(mark is not None for mark in marks):
                    found[item_id][judge] = Marks(*marks)
    return found


_GoldWords = Mapping[tuple[Entrant, str, int], GoldRow]


def _gold_words(run: Run) -> _GoldWords:
    gold = run.load_labels().gold
    return {
        (_who(row), row.item_id, content_key(row.answer, row.justification)): row
        for row in (gold.rows if gold else ())
        if row.human is not None
    }


def _chance(gold: GoldRow | None, given: Mapping[str, Annotation]) -> float | None:
    """With which a labelled answer was picked, as a board takes it."""
    if given:
        return next((one.propensity for one in given.values() if one.propensity is not None), None)
    return gold.propensity if gold else None


def _word(gold: Marks | None, given: Mapping[str, Annotation]) -> Marks | None:
    """People's word on one answer, metric by metric."""
    by_gold = gold or Marks(None, None, None)
    marks = Marks(*(settled(by_gold[i], given.values(), metric) for i, metric in enumerate(_METRICS)))
    return None if marks == (None, None, None) else marks


def _recorded(run: Run) -> Iterator[_Answer]:
    """The gold set's labelled answers, with the votes that stand beside their labels; what has none is left out."""
    gold = run.load_labels().gold
    if gold is None:
        return
    judged_again = rejudged_marks(run) if rejudging(run) else None
    for row in gold.rows:
        if row.human is None:
            continue
        if judged_again is None:
            votes = {name: marks for name, marks in zip(gold.judges, row.judges, strict=True) if marks is not None}
        else:
            votes = judged_again.get((_who(row), row.item_id, content_key(row.answer, row.justification)), {})
        if votes:
            yield GoldRow(*_identity(row), (), row.human, row.kind, ranked=False, propensity=row.propensity), votes


def _identity(row: GoldRow) -> _Identity:
    return row.item_id, row.provider, row.model, row.n_hints, row.answer, row.justification


def _who(row: GoldRow) -> Entrant:
    return Entrant(row.model, row.provider, row.n_hints)


def _with_judges(row: GoldRow, verdicts: Mapping[str, Marks], judges: tuple[str, ...]) -> GoldRow:
    seats = tuple(verdicts.get(name) for name in judges)
    return replace(row, judges=seats)


# ---- annotations ---------------------------------------------------------------------------------------------------


def _annotation_rows(run: Run) -> Iterator[dict[str, object]]:
    gold = _gold_words(run)
    for number in range(1, 1 + max(samples(run).values(), default=1)):
        given = joined(run, number=number)
        for job in jobs_of_round(run, number):
            if job.spec.sample == number:
                yield from _annotations_of(run, job, given, gold)


def _annotations_of(run: Run, job: Job, given: Joined, gold: _GoldWords) -> Iterator[dict[str, object]]:
    who = entrant(run, job)
    for portion in tables.read_portions(run.folder.part("predictions", job.id), ("item_id", "answer", "justification")):
        for item_id, *said in portion.iter_rows():
            known = gold.get((who, item_id, content_key(*said)))
            words: dict[str, object] = dict(zip(("answer", "justification"), said, strict=True))
            if known is not None and known.human is not None:
                more = {"annotator": "gold set", **words, **_picked(known.propensity)}
                yield _annotation_row(run, who, item_id, known.human, more)
            for one in given.by_prediction.get((who, item_id), {}).values():
                word = Marks(one.answer_correct, one.justification_correct, one.both_correct)
                more = {"annotator": one.annotator, "time": one.time, **words, **_picked(one.propensity)}
                more |= {"notes": one.note} if one.note else {}
                more |= {"adjudicated": True} if one.adjudicated else {}
                yield _annotation_row(run, who, item_id, word, more)


def _picked(propensity: float | None) -> dict[str, object]:
    return {} if propensity is None else {"propensity": propensity}


def _annotation_row(run: Run, who: Entrant, item_id: str, word: Marks, more: Mapping[str, object]) -> dict[str, object]:
    # their tools take the model's name for what stands between the second and the third underscore
    name = who.model.replace("_", "-")
    split = run.manifest.items.split
    row: dict[str, object] = {
        "riddle_id": item_id,
        "source_file": f"benchmark_{who.provider}_{name}_{split}_hints_{who.n_hints}.jsonl",
        "model": who.model,
        "provider": who.provider,
        "custom_id": item_id,
        "is_answer_correct": word.answer,
        "is_justification_correct": word.justification,
        "notes": "",
        "n_hints": who.n_hints,
    }
    if word.answer is None or word.justification is None:
        row["both_correct"] = word.both
    return {**row, **more}


# ---- results -------------------------------------------------------------------------------------------------------


def _result(row: BoardRow) -> dict[str, object]:
    return {
        "rank": row.rank,
        "best_possible_rank": row.rank_best,
        "worst_possible_rank": row.rank_worst,
        "rank_spread": None if row.rank_best is None else f"{row.rank_best} <--> {row.rank_worst}",
        "model": row.model,
        "score": row.score,
        "95% CI (±)": row.half_width,
        "provider": row.provider,
        "n_hints": row.n_hints,
        "lower": row.lower,
        "upper": row.upper,
        "target": row.target,
        "level": row.level,
        "method": row.method,
        "metric": row.metric,
    }


def _write(out: Path, rows: Iterable[Mapping[str, object]]) -> int:
    lines = [orjson.dumps(row) + b"\n" for row in rows]
    if not lines:
        raise DataError(f"{out}: there is nothing to write yet")
    atomic.write_bytes(out, b"".join(lines))
    return len(lines)
