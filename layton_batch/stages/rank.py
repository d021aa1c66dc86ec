"""Rank: from votes and labels, or a rule's marks, to the leaderboard. Recomputed whenever another model is done."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from hashlib import sha256

import polars as pl

from layton_batch.files import tables
from layton_batch.manifest.jury import METRIC_FIELDS
from layton_batch.records import Job
from layton_batch.run.context import Run
from layton_batch.scoring.board import OTHER_JURY, OTHER_MODEL, BoardRow, rank_board, rank_marks, with_flag
from layton_batch.scoring.evidence import Ballot, Entrant, ItemScores, Judged, Label, content_key
from layton_batch.scoring.gold import judged_of, labels_of, rejudged_labels
from layton_batch.scoring.rules import Rules
from layton_batch.stages.readiness import finished
from layton_batch.stages.served_models import served_others
from layton_batch.states import PredictionKind, Role
from layton_batch.tasks.protocol import mark_span


def rank(run: Run) -> bool:
    """Write ``tables/leaderboard`` where scores, gold set or rules of scoring are others than it was made from."""
    done = _done(run)
    if not done or tables.made_from(run.folder.part("leaderboard", "leaderboard")) == _origin(run, done):
        return False
    return run.apart("leaderboard", lambda: bool(write_board(run)))


def _origin(run: Run, done: Sequence[Job]) -> str:
    """What the leaderboard is made from: the scores of these jobs' models, the labels, and the manifest's rules."""
    scores = [tables.made_from(run.folder.part("scores", job.id)) for job in done]
    columns = ",".join(tables.SCHEMAS["leaderboard"])
    families = (f"{job.spec.name}\t{job.spec.provider}\t{job.spec.family}" for job in done)
    labels = [_labels_digest(run), *(tables.made_from(run.folder.part("rejudged", job.id)) for job in rejudging(run))]
    labels += ["of another jury"] if has_labels_of_another_jury(run) else []
    others = [f"served another model\t{name}" for name in sorted(answered_by_others(run))]
    return tables.digest("leaderboard", columns, repr(run.rules), *labels, *scores, *families, *others)


def _labels_digest(run: Run) -> str | None:
    """Of the run's own copy of the gold set."""
    if run.manifest.gold is None:
        return None
    copy = run.folder.gold(run.manifest.gold.source)
    return sha256(copy.read_bytes()).hexdigest() if copy.exists() else None


def board(run: Run, rules: Rules) -> list[BoardRow]:
    """The leaderboard of the models that are done, by these rules."""
    if not run.task.uses_jury:
        rows = rank_marks(item_scores(run, rules.metric), rules)
    else:
        ballots, labels = evidence(run, rules.metric)
        other = has_labels_of_another_jury(run)
        rows = rank_board(ballots, labels, replace(rules, other_jury=other))
        rows = with_flag(rows, OTHER_JURY) if other else rows
    return with_flag(rows, OTHER_MODEL, answered_by_others(run))


def answered_by_others(run: Run) -> frozenset[str]:
    """The models that are done of whom another model gave some of the answers."""
    return served_others(run, _done(run))


def evidence(run: Run, metric: str) -> tuple[list[Ballot], list[Label]]:
    """The votes on the models that are done, and the gold set's labels: beside the votes of this run's jury, where it
    judged the labelled answers again, else beside those in the gold set."""
    gold = run.load_gold()
    ballots = [ballot for job in _done(run) for ballot in _ballots(run, job, metric)]
    if gold is None:
        return ballots, []
    if not rejudging(run):
        return ballots, labels_of(gold, metric)
    own = {(one.entrant, one.item_id, one.content): (one.yes, one.total) for one in ballots}
    return ballots, rejudged_labels(gold, metric, _rejudged(run, metric), own)


def rejudging(run: Run) -> list[Job]:
    """The jobs that put labelled answers of the gold set before this run's jury."""
    return [job for job in run.store.jobs() if job.role is Role.REJUDGE]


def has_labels_of_another_jury(run: Run) -> bool:
    """Whether the board's labels stand beside votes that another jury gave."""
    return run.manifest.gold is not None and run.has_labels_of_another_jury and not rejudging(run)


def _rejudged(run: Run, metric: str) -> dict[tuple[Entrant, str], dict[str, bool]]:
    """This jury's verdicts on labelled answers, by entrant, item and judge; a model's when all of its jury are done."""
    graded, field = {job.id for job in rejudging(run) if job.graded}, METRIC_FIELDS.get(metric, metric)
    juries: dict[Entrant, list[str]] = defaultdict(list)
    for job_id, one in run.rejudging.items():
        juries[Entrant(one.judged.name, one.judged.provider, one.rows[0].n_hints)].append(job_id)
    verdicts: dict[tuple[Entrant, str], dict[str, bool]] = defaultdict(dict)
    for entrant, jury in juries.items():
        for job_id in jury if graded.issuperset(jury) else ():
            given = tables.read_part(run.folder.part("rejudged", job_id), columns=["item_id", "judge", field])
            for item_id, judge, verdict in given.drop_nulls().iter_rows():
                verdicts[entrant, item_id][judge] = verdict
    return verdicts


def item_scores(run: Run, metric: str) -> list[ItemScores]:
    """The rule's marks of the models that are done."""
    return [_item_scores(run, job, metric) for job in _done(run)]


def judged(run: Run, metric: str) -> list[Judged]:
    """Every prediction of the models that are done with its jury's verdicts, and the gold set's recorded ones.

    A prediction that is in both counts once: with this run's verdicts and the gold set's label.
    """
    gold = run.load_gold()
    rows = judged_of(gold, metric) if gold else []
    if rejudging(run):
        given = _rejudged(run, metric)
        rows = [replace(row, verdicts=given.get((row.entrant, row.item_id), {})) for row in rows]
    recorded = {(row.entrant, row.item_id, row.content): row for row in rows}
    own, families = {}, {_entrant(run, job): job.spec.family for job in _done(run)}
    for job in _done(run):
        for row in _judged(run, job, metric):
            known = recorded.pop((row.entrant, row.item_id, row.content), None)
            own[row.entrant, row.item_id] = replace(row, human=known.human) if known else row
    others = [replace(row, family=families.get(row.entrant, row.family)) for row in recorded.values()]
    return [*own.values(), *others]


def _done(run: Run) -> list[Job]:
    return [job for job in finished(run.store.jobs()) if run.folder.part("scores", job.id).exists()]


def write_board(run: Run) -> list[BoardRow]:
    """Replace the run's leaderboard table; returns its rows."""
    rows, origin = board(run, run.rules), _origin(run, _done(run))
    table = tables.frame("leaderboard", [asdict(row) for row in rows])
    tables.write(run.folder.part("leaderboard", "leaderboard"), table, origin)
    return rows


def _ballots(run: Run, job: Job, metric: str) -> list[Ballot]:
    entrant = _entrant(run, job)
    return [_ballot(entrant, row) for row in _scored_texts(run, job, metric)]


def _scores(run: Run, job: Job, metric: str) -> pl.DataFrame:
    return tables.read_part(run.folder.part("scores", job.id)).filter(pl.col("metric") == metric)


def _scored_texts(run: Run, job: Job, metric: str) -> Iterator[Mapping[str, object]]:
    """The job's scores on one metric, each with what was said."""
    scores = _scores(run, job, metric)
    columns = ("item_id", "kind", "answer", "justification")
    for said in tables.read_portions(run.folder.part("predictions", job.id), columns):
        yield from said.join(scores, on="item_id", how="inner", maintain_order="left").iter_rows(named=True)


def _entrant(run: Run, job: Job) -> Entrant:
    return Entrant(job.spec.name, job.spec.provider, run.manifest.items.hints)


def _item_scores(run: Run, job: Job, metric: str) -> ItemScores:
    kinds = tables.read_part(run.folder.part("predictions", job.id), columns=["item_id", "kind"])
    rows = _scores(run, job, metric).join(kinds, on="item_id", how="left", maintain_order="left")
    return ItemScores(
        entrant=_entrant(run, job),
        item_ids=rows["item_id"].to_list(),
        marks=rows["vote"].fill_null(float("nan")).to_list(),
        kinds=rows["kind"].to_list(),
        failures=rows["flag"].to_list(),
        span=(0.0, 1.0) if run.task.uses_jury else mark_span(run.task, metric),
    )


def _judged(run: Run, job: Job, metric: str) -> Iterator[Judged]:
    """The job's predictions with the verdicts of every judge that could be read."""
    field = METRIC_FIELDS.get(metric, metric)
    verdicts: dict[str, dict[str, bool]] = {}
    for other in run.store.jobs():
        if other.depends_on == job.id:
            given = tables.read_part(run.folder.part("verdicts", other.id), columns=["item_id", "judge", field])
            for item_id, judge, verdict in given.iter_rows():
                if verdict is not None:
                    verdicts.setdefault(item_id, {})[judge] = verdict
    for row in _scored_texts(run, job, metric):
        item_id = str(row["item_id"])
        content = content_key(row["answer"], row["justification"])  # type: ignore[arg-type]
        given_here = verdicts.get(item_id, {})
        yield Judged(_entrant(run, job), job.spec.family, item_id, given_here, None, content)


def _ballot(entrant: Entrant, row: Mapping[str, object]) -> Ballot:
    answer, justification = row["answer"], row["justification"]
    return Ballot(
        entrant=entrant,
        item_id=str(row["item_id"]),
        yes=int(str(row["yes"])),
        total=int(str(row["total"])),
        content=content_key(answer, justification),  # type: ignore[arg-type]
        known_zero=row["kind"] != PredictionKind.ANSWERED,
        kind=str(row["kind"]),
    )
