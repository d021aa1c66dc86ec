"""A run in layton-eval's three forms: ``ppi``, ``annotations``, ``results``; JSONL as their tools read it.

Columns that theirs do not have stand behind them: they choose columns by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple, replace
from pathlib import Path

import orjson
import polars as pl

from layton_batch.errors import DataError
from layton_batch.files import atomic, tables
from layton_batch.records import Job
from layton_batch.runs.context import Run
from layton_batch.runs.label_import import check_has_jury
from layton_batch.runs.rejudging import recorded_jury
from layton_batch.scoring.annotations import Annotation, AnswerKey, annotated_words
from layton_batch.scoring.evidence import PREDICTION, Entrant, content_key, with_contents
from layton_batch.scoring.gold import GOLD, HUMAN, VERDICT, GoldSet, gold_rows
from layton_batch.stages.rank import (
    board,
    entrant,
    has_labels_of_another_jury,
    jobs_of_round,
    joined,
    rejudged_verdicts,
    rejudging,
    samples,
)
from layton_batch.states import PredictionKind


def write_ppi(run: Run, out: Path) -> int:
    """Write every answer with each judge's verdict and the human label. Return the number of rows.

    Answers of the gold set that only bring a label have ``ranked`` false, and the votes that stand beside the label.
    ``leaderboard`` on this file gives the run's board. Where a model was asked several times rows have ``sample``.
    """
    check_has_jury(run)
    rounds = [_answers(run, number) for number in range(1, 1 + max(samples(run).values(), default=1))]
    own = [
        answers.filter(pl.col("sample") == number).with_columns(
            sample=pl.lit(number if len(rounds) > 1 else None, pl.Int64)
        )
        for number, answers in enumerate(rounds, 1)
    ]
    recorded = _where_apart(_recorded(run), rounds)
    rows = pl.concat([*own, recorded], how="diagonal")
    begins = VERDICT["answer_correct"]
    named = [name.removeprefix(begins) for name in rows.columns if name.startswith(begins)]
    judges = [name for name in (*_panel(run), *named) if name in named and _has_verdict(rows, name)]
    jury = recorded_jury(run.manifest) if recorded.is_empty() else {}  # others' votes may be of another jury's models
    gold = GoldSet(tuple(dict.fromkeys(judges)), rows, jury, has_labels_of_another_jury(run))
    return _write(out, gold_rows(gold))


def write_annotations(run: Run, out: Path) -> int:
    """Every label on the run's answers, a row for each annotator; the gold set is one of them.

    ``label import`` and ``[gold] annotations`` take the file; so do layton-eval's tools.
    """
    check_has_jury(run)
    return _write(out, _annotation_rows(run))


def write_results(run: Run, out: Path) -> int:
    """The leaderboard in the columns of layton-eval's results."""
    ranked = board(run, run.rules).with_columns(spread=pl.format("{} <--> {}", "rank_best", "rank_worst"))
    return _write(
        out, ranked.select(**{name: pl.col(column) for name, column in _RESULT.items()}).iter_rows(named=True)
    )


def _panel(run: Run) -> list[str]:
    return [judge.model.name for judge in run.manifest.panel()]


# ---- ppi -----------------------------------------------------------------------------------------------------------


def _answers(run: Run, number: int) -> pl.DataFrame:
    """The answers of one round with the verdicts of its jury and people's word, as a gold set has them."""
    answers = pl.concat([_NOTHING, *(_of_job(run, job) for job in jobs_of_round(run, number))], how="diagonal")
    given, gold = joined(run, number=number), run.load_labels().gold
    gold_labels = (gold.labelled if gold else _NOTHING).unique(PREDICTION, keep="last")
    gold_labels = gold_labels.select(*PREDICTION, *HUMAN.values())
    answers = answers.drop(*HUMAN.values()).join(gold_labels, on=PREDICTION, how="left", maintain_order="left")
    for metric, column in HUMAN.items():
        metric_labels = gold_labels.select(*PREDICTION, correct=column).drop_nulls("correct")
        words = annotated_words(answers.select(PREDICTION), metric_labels, given, metric)
        words = words.select(*PREDICTION, "about", "correct")
        answers = answers.join(words, on=PREDICTION, how="left", maintain_order="left")
        word = pl.when(pl.col("about").is_not_null()).then("correct").otherwise(column)
        answers = answers.with_columns(word.alias(column)).drop("about", "correct")
    return answers


_NOTHING = pl.DataFrame(schema={**GOLD, **dict.fromkeys(HUMAN.values(), pl.Boolean())})


def _of_job(run: Run, job: Job) -> pl.DataFrame:
    """The answers of one job of the run with the verdicts of its jury."""
    participant, texts = entrant(run, job), ("answer", "justification")
    path = run.folder.part("predictions", job.id)
    predictions = tables.read_part(path, ("item_id", "kind", *texts))
    answers = predictions.with_columns(
        with_contents(predictions)["content"],
        model=pl.lit(participant.model),
        provider=pl.lit(participant.provider),
        n_hints=pl.lit(participant.n_hints, pl.Int64),
        ranked=True,
        sample=pl.lit(job.spec.sample, pl.Int64),
    )
    judges = [other.id for other in run.store.jobs() if other.depends_on == job.id]
    if not judges:
        return answers
    columns = ("item_id", "judge", *_DECISIONS)
    verdicts = pl.concat([tables.read_part(run.folder.part("verdicts", judge), columns) for judge in judges])
    answers = answers.join(_by_judge(verdicts, ["item_id"]), on="item_id", how="left", maintain_order="left")
    decided = pl.all().exclude(predictions.columns, *PREDICTION, "ranked", "sample")
    return answers.with_columns(pl.when(pl.col("kind") == PredictionKind.ANSWERED).then(decided))


_DECISIONS = ("is_answer_correct", "is_justification_correct", "both_correct")


def _by_judge(verdicts: pl.DataFrame, index: Sequence[str]) -> pl.DataFrame:
    """The verdicts in a column for each decision and judge, as a gold set names it."""
    return verdicts.pivot(on="judge", index=index, values=_DECISIONS)


def _recorded(run: Run) -> pl.DataFrame:
    """The gold set's labelled answers, with the votes that stand beside their labels; what has none is left out."""
    gold = run.load_labels().gold
    if gold is None:
        return _NOTHING
    rows = gold.labelled.with_columns(ranked=False, sample=pl.lit(None, pl.Int64))
    if rejudging(run):
        verdicts = _by_judge(rejudged_verdicts(run, ["judge", *_DECISIONS]), PREDICTION)
        rows = rows.select(_NOTHING.columns).join(verdicts, on=PREDICTION, maintain_order="left")
    decided = [name for name in rows.columns if name.startswith(tuple(VERDICT.values()))]
    return rows.filter(pl.any_horizontal(pl.lit(value=False), pl.col(decided).is_not_null()))


def _where_apart(recorded: pl.DataFrame, rounds: Sequence[pl.DataFrame]) -> pl.DataFrame:
    """Return the gold set's answers in the rounds that lack the same answer; once if all rounds lack the answer."""
    rows = recorded.with_row_index("row")
    apart = [
        rows.join(answers, on=PREDICTION, how="anti").with_columns(sample=pl.lit(number, pl.Int64))
        for number, answers in enumerate(rounds, 1)
    ]
    is_in_all = pl.len().over("row") == len(rounds)
    answers = pl.concat(apart).with_columns(sample=pl.when(~is_in_all).then("sample"))
    return answers.unique(["row", "sample"], keep="first").sort("row", "sample").drop("row")


def _has_verdict(rows: pl.DataFrame, judge: str) -> bool:
    decisions = rows.select([prefix + judge for prefix in VERDICT.values()])
    return any(column.null_count() < rows.height for column in decisions)


# ---- annotations ---------------------------------------------------------------------------------------------------


def _annotation_rows(run: Run) -> Iterator[dict[str, object]]:
    gold = run.load_labels().gold
    gold_labels = (gold.labelled if gold else _NOTHING).select(*PREDICTION, *HUMAN.values())
    labelled = {key[: len(PREDICTION)]: key[len(PREDICTION) :] for key in gold_labels.iter_rows()}
    model_ids, texts = run.model_ids(), ("answer", "justification")
    for number in range(1, 1 + max(samples(run).values(), default=1)):
        given = joined(run, number=number)
        for job in (job for job in jobs_of_round(run, number) if job.spec.sample == number):
            participant = entrant(run, job)
            for portion in tables.read_portions(run.folder.part("predictions", job.id), ("item_id", *texts)):
                for item_id, *item_texts in portion.iter_rows():
                    labels = [*given.by_prediction.get(AnswerKey.of(participant, item_id), {}).values()]
                    marks = labelled.get((*astuple(participant), item_id, content_key(*item_texts)))
                    if marks is not None:
                        labels.insert(0, replace(Annotation(item_id, participant.model, *marks), annotator="gold set"))
                    answer, model_id = dict(zip(texts, item_texts, strict=True)), model_ids.get(job.spec.name)
                    yield from (_annotation_row(run, participant, label, model_id, answer) for label in labels)


def _annotation_row(
    run: Run, participant: Entrant, label: Annotation, model_id: str | None, answer: Mapping[str, object]
) -> dict[str, object]:
    # their tools take the model's name for what stands between the second and the third underscore
    name, split = participant.model.replace("_", "-"), run.manifest.items.split
    is_partial = label.answer_correct is None or label.justification_correct is None
    optional = {
        "both_correct": label.both_correct if is_partial else None,
        "time": label.time,
        "model_id": model_id,
        "adjudicated": label.adjudicated or None,
        "item_digest": label.item_digest,
    }
    return {
        "riddle_id": label.item_id,
        "source_file": f"benchmark_{participant.provider}_{name}_{split}_hints_{participant.n_hints}.jsonl",
        "model": participant.model,
        "provider": participant.provider,
        "custom_id": label.item_id,
        "is_answer_correct": label.answer_correct,
        "is_justification_correct": label.justification_correct,
        "notes": label.note,
        "n_hints": participant.n_hints,
        "annotator": label.annotator,
        **answer,
        **{name: value for name, value in optional.items() if value is not None},
    }


# ---- results -------------------------------------------------------------------------------------------------------


_RESULT = {
    "rank": "rank", "best_possible_rank": "rank_best", "worst_possible_rank": "rank_worst", "rank_spread": "spread",
    "model": "model", "score": "score", "95% CI (±)": "half_width",
    **{name: name for name in ("provider", "n_hints", "lower", "upper", "target", "level", "method", "metric")},
}  # fmt: skip
"""Columns of layton-eval's results, and ours behind them, by the columns of a board."""


def _write(out: Path, rows: Iterable[Mapping[str, object]]) -> int:
    lines = [orjson.dumps(row) + b"\n" for row in rows]
    if not lines:
        raise DataError(f"{out}: there is nothing to write yet. `layton-batch run` continues the run")
    atomic.write_bytes(out, b"".join(lines))
    return len(lines)
