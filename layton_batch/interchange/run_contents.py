"""A run in frames: every prediction of the models that are done with its marks, verdicts and usage, for the writers of
other forms; and the run's own tables, CSV and Parquet, its votes (``scoring/vote_files.py`` has their columns), and its
items, in the role ``justify`` with the explanations that people confirmed."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from pathlib import Path

import orjson
import polars as pl

from layton_batch.columns import text_table
from layton_batch.errors import DataError
from layton_batch.files import atomic, tables
from layton_batch.manifest.jury import METRIC_FIELDS
from layton_batch.records import Item, Job, ModelSpec
from layton_batch.reports.label_sheet import reference_text
from layton_batch.reports.leaderboard_tables import Leaderboard
from layton_batch.reports.table import as_csv
from layton_batch.runs.context import Run
from layton_batch.runs.label_import import check_has_jury
from layton_batch.scoring.annotations import AnswerKey, settled
from layton_batch.scoring.evidence import ENTRANT
from layton_batch.scoring.gold import HUMAN
from layton_batch.scoring.leaderboard import stored
from layton_batch.scoring.vote_files import SCHEMA
from layton_batch.stages.rank import board, entrant, evidence, finished_jobs, joined, label_rows, samples, scores_of
from layton_batch.states import Role

_PREDICTION = ("item_id", "model", "provider", "family", "split", "n_hints", "kind", "answer", "justification",
               "raw_text", "note", "finish_reason", "sample")  # fmt: skip
_QUESTION = ("item_id", "question", "reference")
_ANSWER = ("item_id", "model", "n_hints", "sample")
_TOKENS = ("input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens", "cost_usd")
_REQUEST = ("custom_id", "batch_id", "attempt")
_VERDICT = tuple(METRIC_FIELDS.values())
_GROUP_ROWS = 100_000
"""Rows of a row group: a reader of one metric skips the groups of the others."""
VOTE, FLAG, JUDGED = "vote_", "flag_", "verdict_"
"""Prefixes of columns: of a metric's mark or share of yes votes, of what became of it, and of a judge's verdict."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelContents:
    """A model that is done, in one of the samples that it was asked for. ``answers``: a row a prediction, with its
    usage, its marks by metric, and the verdict of each of the ``judges``, null where it gave none. ``samples``: how
    often the model was asked."""

    spec: ModelSpec
    hints: int
    samples: int
    judges: Sequence[ModelSpec]
    answers: pl.DataFrame


@dataclass(frozen=True, slots=True, eq=False)
class RunContents:
    """The models that are done, in the manifest's order, first samples before all others, and the boards they are on,
    by metric. The run's own metric is the first."""

    run: Run
    models: Sequence[ModelContents]
    boards: Mapping[str, pl.DataFrame]


def contents(run: Run) -> RunContents:
    """Read the contents of the completed models. Raises DataError if no model is completed."""
    done, main, counts = _done(run), run.rules.metric, samples(run)
    metrics = [main, *(metric for metric in run.task.metrics if metric != main)]
    boards = {metric: board(run, replace(run.rules, metric=metric)) for metric in metrics}
    models = [_of_model(run, job, metrics, counts[job.spec.name]) for job in done]
    return RunContents(run, sorted(models, key=lambda model: model.spec.sample > 1), boards)


def _done(run: Run) -> Sequence[Job]:
    if done := finished_jobs(run):
        return done
    raise DataError(f"run {run.id}: no model is done yet; there is nothing to export. `layton-batch run` continues it")


def _of_model(run: Run, job: Job, metrics: Sequence[str], count: int) -> ModelContents:
    judges = [judge for judge in run.store.jobs() if judge.role is Role.JUDGE and judge.depends_on == job.id]
    usage = tables.read(run.folder.tables, "usage", (*_REQUEST, *_TOKENS)).unique(_REQUEST, keep="last")
    answers = tables.read_part(run.folder.part("predictions", job.id))
    answers = answers.join(usage, on=_REQUEST, how="left", maintain_order="left")
    scores = tables.read_part(run.folder.part("scores", job.id))
    parts = [scores.filter(metric=metric).select("item_id", **{VOTE + metric: "vote", FLAG + metric: "flag"})
             for metric in metrics]  # fmt: skip
    for judge in judges:
        verdicts = tables.read_part(run.folder.part("verdicts", judge.id))
        parts.append(verdicts.select("item_id", pl.struct(_VERDICT).alias(JUDGED + judge.spec.name)))
    for part in parts:
        answers = answers.join(part.unique("item_id", keep="last"), on="item_id", how="left", maintain_order="left")
    return ModelContents(job.spec, run.manifest.hints_of(job.spec), count, [judge.spec for judge in judges], answers)


# ---- tables --------------------------------------------------------------------------------------------------------


def hub_data_set(run: Run) -> str:
    """Return ``OWNER/NAME`` of a run whose items come from Hugging Face; empty for any other."""
    address = run.manifest.items.source.partition("hf://datasets/")[2]
    return "/".join(address.split("/")[:2])


def csv_files(contents: RunContents) -> Iterator[tuple[str, bytes]]:
    """Yield ``leaderboard.csv`` (the run's metric) and ``predictions.csv``.

    Text that a spreadsheet would run as a formula starts with an apostrophe. Line breaks inside a cell stay.
    """
    yield "leaderboard.csv", Leaderboard(next(iter(contents.boards.values()))).text("csv").encode()
    table = _predictions(contents)
    yield "predictions.csv", as_csv(text_table("", table.columns, table.rows()), keep="\n\t").encode()


def parquet_files(contents: RunContents) -> Iterator[tuple[str, bytes]]:
    """Yield ``leaderboard.parquet`` with every metric's board, and ``predictions.parquet``; texts are unchanged."""
    boards = stored(pl.concat(contents.boards.values()))
    for name, table in {"leaderboard": boards, "predictions": _predictions(contents)}.items():
        out = io.BytesIO()
        table.write_parquet(out, compression="zstd")
        yield f"{name}.parquet", out.getvalue()


def _predictions(contents: RunContents) -> pl.DataFrame:
    """Return a row a prediction, with its question and people's label; null for judges outside the model's jury and for
    unreadable verdicts."""
    run, metrics = contents.run, list(contents.boards)
    verdicts: dict[str, None] = {}
    frames = []
    for model in contents.models:
        given = {
            f"{name}_{judge.name}": pl.col(JUDGED + judge.name).struct.field(name)
            for judge in model.judges for name in _VERDICT
        }  # fmt: skip
        verdicts |= dict.fromkeys(given)
        marks = {metric: VOTE + metric for metric in metrics}
        frames.append(model.answers.select(*_PREDICTION, *_TOKENS, **marks, flag=FLAG + metrics[0], **given))
    table = pl.concat(frames, how="diagonal").select(*_PREDICTION, *metrics, "flag", *verdicts, *_TOKENS)
    texts = [(item.id, item.question, reference_text(item)) for item in run.items]
    questions = pl.DataFrame(texts, schema=dict.fromkeys(_QUESTION, pl.String()), orient="row")
    table = table.join(questions, on="item_id", how="left", maintain_order="left")
    if run.task.uses_jury:
        labels = tables.frame("labels", list(label_rows(run, joined(run))))
        human = {column: metric for metric, column in HUMAN.items() if metric in metrics}
        table = table.join(labels.select(*_ANSWER, **human), on=_ANSWER, how="left", maintain_order="left")
    return table.select(*_QUESTION, pl.exclude(_QUESTION))


def write_votes(run: Run, out: Path) -> int:
    """Write a row for every prediction and metric, models in the order of their names. Return the number of rows.

    Raises DataError where no jury judges, and where no model is done.
    """
    check_has_jury(run)
    parts = [scores_of(run, job, metric).select(list(SCHEMA)) for metric in run.task.metrics for job in _done(run)]
    votes = pl.concat(parts).sort("metric", "model", "provider", "n_hints", "sample", "item_id")
    with atomic.writing(out) as handle:
        votes.write_parquet(handle, compression="zstd", row_group_size=_GROUP_ROWS)
    return votes.height


# ---- items and confirmed explanations -----------------------------------------------------------------------------


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
