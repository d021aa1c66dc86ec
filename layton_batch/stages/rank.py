"""Rank: from votes and labels, or a rule's marks, to the leaderboard. Recomputed whenever another model is done."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace

import polars as pl

from layton_batch.clock import utc
from layton_batch.files import tables
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.manifest.jury import METRIC_FIELDS
from layton_batch.records import Job
from layton_batch.runs.context import Run
from layton_batch.runs.folders import made_up_note
from layton_batch.runs.label_rows import write_labels
from layton_batch.runs.rejudging import differences
from layton_batch.scoring.annotations import Joined, join, settled, with_annotations
from layton_batch.scoring.annotators import annotator_agreement
from layton_batch.scoring.ballots import Ballots
from layton_batch.scoring.board import OTHER_JURY, OTHER_MODEL, BoardRow, with_flag
from layton_batch.scoring.diagnosis_record import DiagnosisRecord, write_record
from layton_batch.scoring.evidence import Ballot, Entrant, ItemScores, Judged, Label, content_key
from layton_batch.scoring.gold import GoldRow, Marks, judged_of, labels_of, rejudged_labels
from layton_batch.scoring.judges import diagnose
from layton_batch.scoring.label_plan import outlook
from layton_batch.scoring.pairs import pairs_by_marks, pairs_by_votes
from layton_batch.scoring.rules import Rules
from layton_batch.scoring.samples import mean_of_rounds, mean_sheets, rank_sampled
from layton_batch.scoring.uncalibrated import rank_votes
from layton_batch.scoring.vote_table import ballots_of
from layton_batch.stages.readiness import finished
from layton_batch.stages.served_models import served_others
from layton_batch.states import Role
from layton_batch.tasks.protocol import HasStrata, mark_span
from layton_batch.text import plural

MOST_PLANNED = 50_000
"""Predictions: for more of them what to label next is not worked out with every board."""


def rank(run: Run) -> bool:
    """Write ``tables/leaderboard`` where scores, gold set or rules of scoring are others than it was made from."""
    done = finished_jobs(run)
    if not done or tables.made_from(run.folder.part("leaderboard", "leaderboard")) == _origin(run, done):
        return False
    return run.apart("leaderboard", lambda: bool(write_board(run)))


def _origin(run: Run, done: Sequence[Job]) -> str:
    """What the leaderboard is made from: the scores of these jobs' models, the labels, and the manifest's rules."""
    scores = [tables.made_from(run.folder.part("scores", job.id)) for job in done]
    columns = ",".join((*SCHEMAS["leaderboard"], "judges"))
    families = (f"{job.spec.name}\t{job.spec.provider}\t{job.spec.family}" for job in done)
    labels = [_labels_digest(run), *(tables.made_from(run.folder.part("rejudged", job.id)) for job in rejudging(run))]
    labels += ["of another jury"] if has_labels_of_another_jury(run) else []
    others = [f"served another model\t{name}" for name in sorted(answered_by_others(run))]
    return tables.digest("leaderboard", columns, repr(run.rules), *labels, *scores, *families, *others)


def _labels_digest(run: Run) -> str | None:
    """Of people's labels as they are now."""
    return run.load_labels().digest if run.task.uses_jury else None


_Evidence = tuple[Ballots, list[Label]]


def board(run: Run, rules: Rules, first: _Evidence | None = None) -> list[BoardRow]:
    """The leaderboard of the models that are done, by these rules. ``first``: the first round's evidence, where it is
    known."""
    if not run.task.uses_jury:
        rows = rank_sampled(sample_sheets(run, rules.metric), rules)
    else:
        counts = samples(run)
        rounds = [_voted(run, rules, first or evidence(run, rules.metric))]
        later = range(2, 1 + max(counts.values(), default=1))
        rounds += [_voted(run, rules, evidence(run, rules.metric, number)) for number in later]
        rows = mean_of_rounds(rounds, counts)
    return with_flag(rows, OTHER_MODEL, answered_by_others(run))


def _voted(run: Run, rules: Rules, found: _Evidence) -> list[BoardRow]:
    """The jury board of one round."""
    ballots, labels = found
    other = has_labels_of_another_jury(run)
    rows = rank_votes(ballots, labels, replace(rules, other_jury=other))
    return with_flag(rows, OTHER_JURY) if labels and other else rows


def answered_by_others(run: Run) -> frozenset[str]:
    """The models that are done of whom another model gave some of the answers."""
    return served_others(run, finished_jobs(run))


def evidence(run: Run, metric: str, number: int = 1) -> _Evidence:
    """The votes on the models that are done, in one round, and people's labels as they are now. The gold set's stand
    beside the votes of this run's jury, where it judged the labelled answers again, else beside those in the gold set;
    annotations stand beside the votes of this run's jury on its own answers."""
    ballots = _ballots(run, jobs_of_round(run, number), metric)
    labels = with_annotations(ballots, _gold_labels(run, metric, ballots), joined(run, ballots), metric)
    return ballots, list(labels)


def _gold_labels(run: Run, metric: str, ballots: Ballots) -> list[Label]:
    gold = run.load_labels().gold
    if gold is None:
        return []
    labels = labels_of(gold, metric)
    own = ballots.votes_on([(label.entrant, label.item_id, label.content) for label in labels])
    if not rejudging(run):
        votes = [own.get((one.entrant, one.item_id, one.content), (one.yes, one.total)) for one in labels]
        return [replace(one, yes=yes, total=total) for one, (yes, total) in zip(labels, votes, strict=True)]
    return rejudged_labels(gold, metric, _rejudged(run, metric), own)


def joined(run: Run, ballots: Sequence[Ballot] | None = None, number: int = 1) -> Joined:
    """The annotations beside the predictions of the models that are done, in one round."""
    annotations = run.load_labels().annotations
    if not annotations:
        return Joined({})
    if ballots is None:
        ballots = _ballots(run, jobs_of_round(run, number), run.task.metrics[0])
    return join(annotations, ballots, {entrant(run, job): job.spec.model for job in finished_jobs(run)})


def reader_notes(run: Run) -> list[str]:
    """What a reader of the run's board has to know: that its answers are made up, and of its labels."""
    note = made_up_note(run.folder)
    return [*([note] if note else []), *_label_notes(run)]


def _label_notes(run: Run) -> list[str]:
    """What a reader of a board has to know of its labels: how they differ from those of the run's beginning, what could
    not be read, and which belong to no prediction."""
    if not run.task.uses_jury:
        return []
    labels, lines = run.load_labels(), []
    change = labels.change
    if change:
        parts = [f"{count} {word}" for count, word in ((change.changed, "changed"), (change.gone, "gone")) if count]
        since = utc(run.born).date()
        lines.append(", ".join([f"+{plural(change.added, 'label')}", *parts]) + f" since {since}, when the run began")
    if unseen := _unseen(run):
        lines.append(
            f"{plural(unseen, 'label')} not used: of an answer in the gold set that this run's jury did not judge"
        )
    for reason, count in joined(run).apart.items():
        lines.append(f"{plural(count, 'label')} not used: {_APART[reason]}")
    return [*lines, *labels.notes]


def _unseen(run: Run) -> int:
    """Labels that came or changed their answer after the gold set's answers went before this run's jury."""
    first, now = run.load_gold(), run.load_labels().gold
    if first is None or now is None or not rejudging(run):
        return 0
    judged_then = {(*_key(row), row.item_id) for row in first.rows if row.human is not None}
    later = {key for row in now.rows if row.human is not None and (key := (*_key(row), row.item_id)) not in judged_then}
    if not later:
        return 0
    own = {(one.entrant, one.content, one.item_id) for one in _ballots(run, finished_jobs(run), run.task.metrics[0])}
    return len(later - own)


def _key(row: GoldRow) -> tuple[Entrant, int]:
    return Entrant(row.model, row.provider, row.n_hints), content_key(row.answer, row.justification)


_APART = {
    "another model": "of a model that has no answers here",
    "another item": "of an item that has no answers here",
    "another answer": "of an answer that the model did not give here",
    "several models": "several models here go by the name; give the one the leaderboard shows",
}


def rejudging(run: Run) -> list[Job]:
    """The jobs that put labelled answers of the gold set before this run's jury."""
    return [job for job in run.store.jobs() if job.role is Role.REJUDGE]


def has_labels_of_another_jury(run: Run) -> bool:
    """Whether the board's labels stand beside votes that another jury gave."""
    gold = run.load_labels().gold if run.manifest.gold is not None and run.task.uses_jury else None
    return gold is not None and bool(differences(run.manifest, gold)) and not rejudging(run)


def rejudged_marks(run: Run) -> dict[tuple[Entrant, str, int], dict[str, Marks]]:
    """This jury's verdicts on labelled answers, by entrant, item, content and judge."""
    parts = [_rejudged(run, metric) for metric in METRIC_FIELDS]
    both, answer, justification = parts
    return {
        key: {name: Marks(*(part.get(key, {}).get(name) for part in (answer, justification, both))) for name in names}
        for key, names in ((key, {name for part in parts for name in part.get(key, {})}) for key in set().union(*parts))
    }


def _rejudged(run: Run, metric: str) -> dict[tuple[Entrant, str, int], dict[str, bool]]:
    """This jury's verdicts on labelled answers, by entrant, item, content and judge; a model's when all of its jury are
    done."""
    graded, field = {job.id for job in rejudging(run) if job.graded}, METRIC_FIELDS.get(metric, metric)
    juries: dict[Entrant, list[str]] = defaultdict(list)
    for job_id, one in run.rejudging.items():
        juries[Entrant(one.judged.name, one.judged.provider, one.rows[0].n_hints)].append(job_id)
    verdicts: dict[tuple[Entrant, str, int], dict[str, bool]] = defaultdict(dict)
    for who, jury in juries.items():
        for job_id in jury if graded.issuperset(jury) else ():
            given = tables.read_part(run.folder.part("rejudged", job_id), columns=["item_id", "judge", field])
            contents = {row.item_id: content_key(row.answer, row.justification) for row in run.rejudging[job_id].rows}
            for item_id, judge, verdict in given.drop_nulls().iter_rows():
                verdicts[who, item_id, contents[item_id]][judge] = verdict
    return verdicts


def item_scores(run: Run, metric: str) -> list[ItemScores]:
    """The rule's marks of the models that are done."""
    return mean_sheets(sample_sheets(run, metric))


def judged(run: Run, metric: str, ballots: Sequence[Ballot] | None = None) -> list[Judged]:
    """Every prediction of the models that are done with its jury's verdicts, and the gold set's recorded ones.

    A prediction that is in both counts once: with this run's verdicts and the gold set's label. ``ballots``: those of
    the first round, where they are known.
    """
    gold = run.load_labels().gold
    rows = judged_of(gold, metric) if gold else []
    then = {(row.entrant, row.item_id, row.content): row.verdicts for row in rows}
    if rejudging(run):
        given = _rejudged(run, metric)
        keys = [(row.entrant, row.item_id, row.content) for row in rows]
        rows = [
            replace(row, verdicts=given.get(key, {}), recorded=then[key]) for row, key in zip(rows, keys, strict=True)
        ]
    recorded = {(row.entrant, row.item_id, row.content): row for row in rows}
    annotated = joined(run, ballots).by_prediction
    own, families = {}, {entrant(run, job): job.spec.family for job in finished_jobs(run)}
    for row in _own_judged(run, _said(run, metric, ballots), metric, families):
        key = (row.entrant, row.item_id, row.content)
        gold_row = recorded.pop(key, None)
        people = annotated.get((row.entrant, row.item_id), {}).values()
        human = settled(gold_row.human if gold_row else None, people, metric)
        own[row.entrant, row.item_id] = replace(row, human=human, recorded=then.get(key, {}))
    others = [replace(row, family=families.get(row.entrant, row.family)) for row in recorded.values()]
    return [*own.values(), *others]


def finished_jobs(run: Run) -> list[Job]:
    """The jobs of the models that are done and scored, all their samples; a model with several numbers of hints is one
    with each."""
    jobs = run.store.jobs()
    done = [job for job in finished(jobs) if run.folder.part("scores", job.id).exists()]
    ended = {job.id for job in done}
    open_ = {entrant(run, job) for job in jobs if job.role is Role.PREDICT and job.id not in ended}
    return [job for job in done if entrant(run, job) not in open_]


def samples(run: Run) -> Mapping[str, int]:
    """How often every model that is done was asked, with each number of hints."""
    asked = Counter(entrant(run, job) for job in finished_jobs(run))
    return {who.model: number for who, number in asked.items()}


def jobs_of_round(run: Run, number: int) -> list[Job]:
    """Of every model that is done the job of one sample; models with fewer samples begin again with their first."""
    done = finished_jobs(run)
    counts = Counter(entrant(run, job) for job in done)
    return [job for job in done if job.spec.sample == 1 + (number - 1) % counts[entrant(run, job)]]


def write_board(run: Run) -> list[BoardRow]:
    """Replace the run's leaderboard table; returns its rows."""
    found = evidence(run, run.rules.metric) if run.task.uses_jury else None
    rows, origin = board(run, run.rules, found), _origin(run, finished_jobs(run))
    _write_pairs(run, found)
    table = tables.frame("leaderboard", [row.columns() for row in rows])
    if run.task.uses_jury:
        write_labels(run, joined(run))
    tables.write(run.folder.part("leaderboard", "leaderboard"), table, origin)
    return rows


def _write_pairs(run: Run, found: _Evidence | None) -> None:
    """The tables beside the board, for its pages: every two models against each other, and what labels would do for the
    intervals (no row where nothing)."""
    if found is None:
        pairs, need, now = pairs_by_marks(item_scores(run, run.rules.metric)), None, None
    else:
        ballots, labels = found
        rules = replace(run.rules, other_jury=has_labels_of_another_jury(run))
        _write_judges(run, ballots, labels, rules)
        pairs = pairs_by_votes(ballots, labels, rules) if labels else []
        need = outlook(ballots, labels, rules, length=0) if 0 < len(ballots) <= MOST_PLANNED else None
        now = need.gains[0].mean if need and labels else None
    rows = []
    if need is not None and need.enough.labels:
        rows = [{"labels": need.enough.labels, "half_width_now": now, "half_width_then": need.enough.mean}]
    tables.write(run.folder.part("pairs", "pairs"), tables.frame("pairs", [asdict(pair) for pair in pairs]))
    tables.write(run.folder.part("label_need", "label_need"), tables.frame("label_need", rows))


def _write_judges(run: Run, ballots: Sequence[Ballot], labels: Sequence[Label], rules: Rules) -> None:
    """What `judges` says of this board's jury; no row where nobody judged or there is too much of it."""
    record = None
    rows = judged(run, rules.metric, ballots) if len(ballots) <= MOST_PLANNED else []
    if any(row.verdicts for row in rows):
        families = {judge.model.name: judge.model.family for judge in run.manifest.panel()}
        people = annotator_agreement(joined(run, ballots), rules.metric, rules.level)
        record = DiagnosisRecord(diagnose(rows, ballots, labels, families, rules), people)
    write_record(run.folder.part("judges", "judges"), record)


def _ballots(run: Run, jobs: Sequence[Job], metric: str) -> Ballots:
    votes = [votes_of(run, job, metric).with_columns(who=pl.lit(n, pl.Int32)) for n, job in enumerate(jobs)]
    return ballots_of([entrant(run, job) for job in jobs], pl.concat(votes)) if votes else Ballots.of(())


def votes_of(run: Run, job: Job, metric: str) -> pl.DataFrame:
    """The job's rows of the table ``scores`` on one metric, each with what tells which answer it is of."""
    return tables.read_part(run.folder.part("scores", job.id)).filter(pl.col("metric") == metric)


def entrant(run: Run, job: Job) -> Entrant:
    """Whose answers a job brings."""
    return Entrant(job.spec.name, job.spec.provider, run.manifest.hints_of(job.spec))


def sample_sheets(run: Run, metric: str) -> list[ItemScores]:
    """A sheet a sample, in the order of the samples."""
    jobs = sorted(finished_jobs(run), key=lambda job: job.spec.sample)
    return [_item_scores(run, job, metric) for job in jobs]


def _item_scores(run: Run, job: Job, metric: str) -> ItemScores:
    kinds = tables.read_part(run.folder.part("predictions", job.id), columns=["item_id", "kind"])
    rows = votes_of(run, job, metric).join(kinds, on="item_id", how="left", maintain_order="left")
    items = rows["item_id"].to_list()
    return ItemScores(
        entrant=entrant(run, job),
        item_ids=items,
        marks=rows["vote"].fill_null(float("nan")).to_list(),
        kinds=rows["kind"].to_list(),
        failures=rows["flag"].to_list(),
        span=(0.0, 1.0) if run.task.uses_jury else mark_span(run.task, metric),
        strata=[run.task.stratum(run.item(item)) for item in items] if isinstance(run.task, HasStrata) else (),
    )


_Prediction = tuple[Entrant, str, int]


def _said(run: Run, metric: str, ballots: Sequence[Ballot] | None) -> Iterator[_Prediction]:
    """Whose predictions of the first round there are: entrant, item and content."""
    cast = _ballots(run, jobs_of_round(run, 1), metric) if ballots is None else ballots
    return ((one.entrant, one.item_id, one.content) for one in cast)


def _own_judged(
    run: Run, said: Iterable[_Prediction], metric: str, families: Mapping[Entrant, str]
) -> Iterator[Judged]:
    """The first round's predictions with the verdicts of every judge that could be read."""
    jobs, field = run.store.jobs(), METRIC_FIELDS.get(metric, metric)
    sitting: dict[str, list[Job]] = defaultdict(list)
    for job in jobs:
        sitting[str(job.depends_on)].append(job)
    by_entrant: dict[Entrant, dict[str, dict[str, bool]]] = {}
    for job in jobs_of_round(run, 1):
        verdicts = by_entrant.setdefault(entrant(run, job), {})
        for other in sitting[job.id]:
            given = tables.read_part(run.folder.part("verdicts", other.id), columns=["item_id", "judge", field])
            for item_id, judge, verdict in given.iter_rows():
                if verdict is not None:
                    verdicts.setdefault(item_id, {})[judge] = verdict
    for who, item_id, content in said:
        yield Judged(who, families[who], item_id, by_entrant[who].get(item_id, {}), None, content)
