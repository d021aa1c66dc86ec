"""Rank: from votes and labels, or a rule's marks, to the leaderboard. Recomputed whenever another model is done.

There are four kinds of verdicts, of which the first that there is counts beside a label of the same answer:

| verdicts | by whom, on what | table |
|---|---|---|
| rejudged | this run's jury, on labelled answers of the gold set | ``rejudged`` |
| own | this run's jury, on this run's answers | ``verdicts`` |
| recorded | the jury of the gold set, on its answers | the gold set |
| anchors | judges that are asked once more; they show drift, and count beside no label | ``rejudged`` |
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, astuple, replace
from pathlib import Path

import polars as pl

from layton_batch.clock import utc
from layton_batch.errors import DamagedTableError
from layton_batch.files import tables
from layton_batch.files.table_columns import SCHEMAS, VERDICTS
from layton_batch.manifest.jury import METRIC_FIELDS
from layton_batch.model_table import is_same_model
from layton_batch.records import Job
from layton_batch.runs.context import Run
from layton_batch.runs.folders import made_up_note, run_source
from layton_batch.runs.rejudging import differences
from layton_batch.runs.status import finished, has_models, job_statuses, progress
from layton_batch.scoring.annotations import (
    JoinedLabels,
    annotated_words,
    count_ties,
    join,
    newest,
    settled,
    with_annotations,
)
from layton_batch.scoring.board import rank as rank_rounds
from layton_batch.scoring.board import with_failures
from layton_batch.scoring.boards import JuryBoard, RuleBoard
from layton_batch.scoring.compare import all_pairs
from layton_batch.scoring.evidence import (
    ENTRANT,
    JUDGED,
    LABELS,
    MARKS,
    PREDICTION,
    VOTES,
    Entrant,
    count_by_answer,
    with_contents,
)
from layton_batch.scoring.gold import HUMAN, judged_of, labels_of
from layton_batch.scoring.judge_quality import (
    DiagnosisRecord,
    JudgeDrift,
    annotator_agreement,
    diagnose,
    drift_of,
    has_verdicts,
    is_drift,
    write_record,
)
from layton_batch.scoring.label_plan import outlook
from layton_batch.scoring.leaderboard import OTHER_JUDGE, OTHER_MODEL, ScoringRules, stored, with_flag, with_incomplete
from layton_batch.scoring.verdict_counts import count_verdicts
from layton_batch.scoring.vote_files import votes_of
from layton_batch.states import Role
from layton_batch.tasks.protocol import HasStrata, mark_span
from layton_batch.text import plural

_ANSWERS = (*ENTRANT, "item_id", "sample", "answer", "justification")
_ANSWER = {name: VOTES[name] for name in PREDICTION}


def label_rows(run: Run, joined: JoinedLabels) -> Iterator[dict[str, object]]:
    """Yield a row for each labelled answer: the marks that people settled on, and how many gave which. The gold set
    counts as a person."""
    gold, people = run.load_labels().gold, list(joined.by_prediction.values())
    if gold is None and not people:
        return
    nothing = tables.frame("predictions", []).select(_ANSWERS)
    parts = [with_contents(part) for part in (nothing, *tables.read_each(run.folder.tables, "predictions", _ANSWERS))]
    answers = pl.concat(parts).with_columns(pl.col("sample").fill_null(1))
    answers = answers.join(joined.locations, on=[*ENTRANT, "item_id"], how="left", maintain_order="left")
    schema = {**_ANSWER, **dict.fromkeys(HUMAN.values(), pl.Boolean())}
    words = pl.DataFrame(schema=schema) if gold is None else gold.labelled.unique(PREDICTION, keep="last")
    words = words.select(*schema, in_gold=pl.lit(value=True))
    for row in answers.join(words, on=PREDICTION, how="left", maintain_order="left").iter_rows(named=True):
        given = people[row["about"]].values() if row["about"] is not None and row["sample"] == 1 else ()
        if given or row["in_gold"]:
            gold_marks = {name: row[column] for name, column in HUMAN.items()}
            groups = Counter((label.adjudicated, *map(label.mark, HUMAN)) for label in given)
            groups.update([(False, *gold_marks.values())] if row["in_gold"] else ())
            ordered = sorted(groups.items(), key=lambda group: (group[0][0], -group[1]))
            yield {name: row[name] for name in ("item_id", "model", "n_hints", "sample")} | {
                "labels": [
                    {"people": number, "adjudicated": adjudicated, **dict(zip(HUMAN, marks, strict=True))}
                    for (adjudicated, *marks), number in ordered
                ],
                **{name: settled(gold_marks[name], given, name) for name in HUMAN},
            }


MOST_PLANNED = 50_000
"""Predictions: for more of them what to label next is not worked out with every board."""


def rank(run: Run) -> bool:
    """Write ``tables/leaderboard`` where scores, gold set or rules of scoring are others than it was made from.

    While no model is done, the board stays as it is. A run without models gets an empty board.
    """
    return _can_rank(run) and run.engine.apart("leaderboard", lambda: _rank(run))


def is_current(run: Run) -> bool:
    """Return whether the board is of the scores, labels and rules of now, or cannot be made yet."""
    return not _can_rank(run) or tables.made_from(_part(run, "leaderboard")) == _origin(run)


def _can_rank(run: Run) -> bool:
    return bool(finished_jobs(run)) or not has_models(run.store.jobs())


def _rank(run: Run) -> bool:
    """Rank again if what the scores are made from changed; if only the progress of incomplete models did, replace
    their rows."""
    part, origin = _part(run, "leaderboard"), _origin(run)
    earlier = tables.made_from(part) or ""
    if earlier == origin:
        return False
    if earlier.partition(" ")[0] == origin.partition(" ")[0]:
        tables.write(part, with_incomplete(tables.read_part(part), incomplete_of(run)), origin)
        return True
    boards = jury_boards(run, run.rules) if run.task.uses_jury else rule_board(run, run.rules)
    rows = with_incomplete(_ranked(run, boards), incomplete_of(run))
    _write_beside(run, boards)
    tables.write(part, stored(rows), origin)
    return rows.height > 0


def _part(run: Run, table: str) -> Path:
    return run.folder.part(table, table)


def waiting_jobs(run: Run) -> dict[Entrant, list[Job]]:
    """Return the models that are not complete, each with its jobs and its judges' jobs."""
    jobs, ranked = run.store.jobs(), {entrant(run, job) for job in finished_jobs(run)}
    models: dict[Entrant, list[Job]] = defaultdict(list)
    own = {job.id: model for job in jobs if job.role is Role.PREDICT and (model := entrant(run, job)) not in ranked}
    for job in jobs:
        if (judged := own.get(job.depends_on or job.id)) is not None:
            models[judged].append(job)
    return models


def incomplete_of(run: Run) -> list[tuple[Entrant, str]]:
    """Return the models that are not complete, each with its progress."""
    if not (models := waiting_jobs(run)):
        return []
    statuses = {status.id: status for status in job_statuses(run.store, run.store.jobs(), cancelled=False)}
    return [(model, progress([statuses[job.id] for job in jobs])) for model, jobs in models.items()]


def _origin(run: Run) -> str:
    """Digest the leaderboard's inputs: the scores and families of the finished models, the families of judges, the
    labels, and the manifest's rules; then what was entered and collected for models that are not complete."""
    done, waiting = finished_jobs(run), waiting_jobs(run)
    columns = ",".join((*SCHEMAS["leaderboard"], *SCHEMAS["labels"], "judges"))
    specs = [*(job.spec for job in done), *(judge.model for judge in run.manifest.panel())]
    sources = [_labels_digest(run)]
    if run.manifest.gold is not None:  # whose labels are another jury's, if the manifest has one of its own
        sources += [run.manifest.identity(), repr(run.manifest.gold)]
    sources += [
        tables.made_from(run.folder.part(name, job.id))
        for name, jobs in (("rejudged", [*rejudging(run), *anchor_jobs(run)]), ("scores", done))
        for job in jobs
    ]
    sources += [f"{spec.name}\t{spec.provider}\t{spec.family}" for spec in specs]
    ranking = tables.digest("leaderboard", columns, repr(run.rules), *sources)
    news = (f"{job.id} {job.news}" for jobs in waiting.values() for job in jobs)
    return f"{ranking} {tables.digest('incomplete', *news)}" if waiting else ranking


def _labels_digest(run: Run) -> str | None:
    """Digest people's labels as they are now, and the items that people saw."""
    if not run.task.uses_jury:
        return None
    labels = run.load_labels()
    items = sorted({annotation.item_id for annotation in labels.annotations if annotation.item_digest is not None})
    return tables.digest(labels.digest, *map(run.item_digest, items)) if items else labels.digest


def board(run: Run, rules: ScoringRules) -> pl.DataFrame:
    """The leaderboard of the models that are done, by these rules."""
    return _ranked(run, jury_boards(run, rules) if run.task.uses_jury else rule_board(run, rules))


def shown_board(run: Run) -> pl.DataFrame:
    """The run's leaderboard with the models that are not complete: a jury's from its table, if that is of now."""
    part = _part(run, "leaderboard")
    if run.task.uses_jury and part.exists() and is_current(run):
        return with_failures(tables.read_part(part))
    return with_incomplete(board(run, run.rules), incomplete_of(run))


def _ranked(run: Run, boards: RuleBoard | Sequence[JuryBoard]) -> pl.DataFrame:
    rows = rank_rounds(boards, samples(run))
    rows = with_flag(rows, OTHER_JUDGE) if has_judges_of_another_model(run) else rows
    return with_flag(rows, OTHER_MODEL, answered_by_others(run))


def rule_board(run: Run, rules: ScoringRules) -> RuleBoard:
    """The rule's marks of the models that are done."""
    return RuleBoard(marks(run, rules.metric), rules, mark_span(run.task, rules.metric))


def jury_boards(run: Run, rules: ScoringRules) -> list[JuryBoard]:
    """The jury's board of each round, of the models that are done."""
    first = jury_board(run, rules)
    later = range(2, 1 + max(samples(run).values(), default=1))
    return [first, *(JuryBoard(*evidence(run, rules.metric, number), first.rules) for number in later)]


def jury_board(run: Run, rules: ScoringRules) -> JuryBoard:
    """The jury's board of the first round, by rules that say what is known of the jury beside whose votes the labels
    stand."""
    other_jury, drifted = has_labels_of_another_jury(run), is_drift(judge_drift(run, rules.metric))
    rules = replace(rules, other_jury=other_jury, drifted=drifted, unsure=run.load_labels().unsure)
    return JuryBoard(*evidence(run, rules.metric), rules)


def answered_by_others(run: Run) -> frozenset[str]:
    """The models that are done of whom another model gave some of the answers."""
    return served_others(run, finished_jobs(run))


def has_judges_of_another_model(run: Run) -> bool:
    """Return whether another model than a judge gave some of the verdicts that the board is made from."""
    done = {job.id for job in finished_jobs(run)}
    judging = [job for job in run.store.jobs() if job.graded and (job.depends_on in done or job.role is Role.REJUDGE)]
    return bool(served_others(run, judging))


def served_others(run: Run, jobs: Iterable[Job]) -> frozenset[str]:
    """Return the names of the jobs' models of which at least one response came from another model.

    Responses that do not say who answered, and tables that cannot be read, say nothing here.
    """
    specs, names = {job.id: job.spec for job in jobs}, set[str]()
    for job_id, run_id, batch_id in run.store.answering_batches():
        if (spec := specs.get(job_id)) is None or spec.name in names:
            continue
        for part in run.folder.workspace.batch(run_id, batch_id).answer_parts:
            with suppress(DamagedTableError):
                served = tables.read_part(part, ["served_model"])["served_model"].drop_nulls().unique()
                names |= {spec.name for model in served if not is_same_model(spec.model, model)}
    return frozenset(names)


def evidence(run: Run, metric: str, number: int = 1) -> tuple[pl.DataFrame, pl.DataFrame]:
    """The votes on the models that are done, in one round, and people's labels as they are now. The gold set's stand
    beside the votes of this run's jury, where it judged the labelled answers again, else beside those in the gold set;
    annotations stand beside the votes of this run's jury on its own answers."""
    votes = _votes(run, jobs_of_round(run, number), metric)
    return votes, with_annotations(votes, _gold_labels(run, metric, votes), joined(run, votes), metric)


def _gold_labels(run: Run, metric: str, votes: pl.DataFrame) -> pl.DataFrame:
    gold = run.load_labels().gold
    if gold is None:
        return pl.DataFrame(schema=LABELS)
    labels, counts = labels_of(gold, metric), ("yes", "total")
    if run.manifest.in_turn:
        labels = labels.update(_in_turn(_recorded(judged_of(gold, metric))), on=PREDICTION)
    own = votes.filter(pl.col("total") > 0).select(*PREDICTION, *counts)
    if rejudging(run):
        again = _in_turn(_rejudged(run, metric), in_turn=run.manifest.in_turn)
        own = pl.concat([own, again.join(own, on=PREDICTION, how="anti")])
        return labels.drop(counts).join(own, on=PREDICTION, maintain_order="left").select(*LABELS)
    return labels.update(own, on=PREDICTION)


def _in_turn(verdicts: pl.DataFrame, *, in_turn: bool = True) -> pl.DataFrame:
    """Count yes and verdicts by answer, in the form in which the run's own jury votes."""
    counted = count_by_answer(verdicts, PREDICTION, ["verdict"], in_turn=in_turn)
    counts = {name: LABELS[name] for name in ("yes", "total")}
    return counted.select(*PREDICTION, *(pl.col(f"{name} verdict").alias(name).cast(counts[name]) for name in counts))


def _recorded(answers: pl.DataFrame) -> pl.DataFrame:
    """Return a row for each verdict that a gold set records of these answers."""
    verdicts = answers.unique(PREDICTION, keep="last", maintain_order=True).select(*PREDICTION, "verdicts")
    return verdicts.explode("verdicts").drop_nulls("verdicts").unnest("verdicts").drop("recorded")


def joined(run: Run, votes: pl.DataFrame | None = None, number: int = 1) -> JoinedLabels:
    """The annotations beside the predictions of the models that are done, in one round."""
    annotations = run.load_labels().annotations
    if not annotations:
        return JoinedLabels({})
    if votes is None:
        votes = _votes(run, jobs_of_round(run, number), run.task.metrics[0])
    ids = run.model_ids()
    ids_by_entrant = {entrant(run, job): ids[job.spec.name] for job in finished_jobs(run) if job.spec.name in ids}
    return join(annotations, votes, ids_by_entrant, run.item_digest)


def reader_notes(run: Run) -> list[str]:
    """Return the notes for a reader of the run's board: made-up answers, and notes on labels."""
    note = made_up_note(run.folder)
    return [*([note] if note else []), *_label_notes(run)]


def _label_notes(run: Run) -> Iterator[str]:
    """Yield the notes on a board's labels: changes since the run began, unreadable labels, labels of no prediction."""
    if not run.task.uses_jury:
        return
    labels, people, source = run.load_labels(), joined(run), run_source(run.folder)
    change = labels.change
    if change:
        parts = [f"{count} {word}" for count, word in ((change.changed, "changed"), (change.gone, "gone")) if count]
        since = utc(run.born).date()
        yield ", ".join([f"+{plural(change.added, 'label')}", *parts]) + f" since {since}, when the run began"
    if unseen := _unseen(run):
        yield f"{plural(unseen, 'label')} not used: of an answer in the gold set that this run's jury did not judge"
    if ties := count_ties(people, run.rules.metric):
        yield (
            f"{plural(ties, 'answer')} on which as many people say right as wrong: a tie is no label; "
            f"`layton-batch label {source}` shows them under Disagreements"
        )
    yield from _anchor_notes(run)
    for reason, count in people.apart.items():
        yield f"{plural(count, 'label')} not used: {_APART[reason].format(run=source)}"
    yield from labels.notes


def _anchor_notes(run: Run) -> Iterator[str]:
    """Yield what judges said who were asked once more about labelled answers, or that they should be."""
    if drift := judge_drift(run, run.rules.metric):
        answers = max(judge.answers for judge in drift)
        more, fewer = sum(judge.more_yes for judge in drift), sum(judge.fewer_yes for judge in drift)
        seen = "they drifted, so intervals are wider" if is_drift(drift) else "no drift is seen"
        counted = plural(answers, "labelled answer")
        yield f"judges asked again about {counted}: {more} more and {fewer} fewer yes; {seen}"
        return
    judging = {job.id for job in run.store.jobs(Role.JUDGE)}
    last = max((batch.submitted_at or 0.0 for batch in run.store.batches() if batch.job_id in judging), default=0.0)
    labelled = newest(run.load_labels().annotations)
    if labelled is not None and last - labelled > _WEEK:
        yield (
            f"judges were asked {int((last - labelled) / 86_400)} days after the newest label: `[jury] anchors = 20`, "
            "with an export `--to ppi` as gold set, asks them again about labelled answers and shows whether they "
            "changed"
        )


_WEEK = 7 * 86_400


def _unseen(run: Run) -> int:
    """Labels that came or changed their answer after the gold set's answers went before this run's jury."""
    first, now = run.load_gold(), run.load_labels().gold
    if first is None or now is None or not rejudging(run):
        return 0
    later = now.labelled.select(PREDICTION).unique().join(first.labelled, on=PREDICTION, how="anti")
    if later.is_empty():
        return 0
    own = _votes(run, finished_jobs(run), run.task.metrics[0])
    return later.join(own, on=PREDICTION, how="anti").height


_APART = {
    "another model": "of a model that has no answers here",
    "another item": "of an item that has no answers here",
    "another answer": (
        "of an answer that the model did not give here to that item; if its row has another id by now, give it the "
        "earlier one in a column `id`"
    ),
    "changed item": (
        "given before the question or the reference of the item changed; `layton-batch label {run}` shows these "
        "answers again"
    ),
    "no name": "without the name of an annotator, on an answer that people labelled by name",
    "several models": "several models here go by the name; give the one the leaderboard shows",
}


def rejudging(run: Run) -> list[Job]:
    """The jobs that put labelled answers of the gold set before this run's jury."""
    return [job for job in run.store.jobs(Role.REJUDGE) if not job.is_anchor]


def anchor_jobs(run: Run) -> list[Job]:
    """The jobs that ask judges once more about labelled answers, to see whether they judge as they did."""
    return [job for job in run.store.jobs() if job.is_anchor]


def has_labels_of_another_jury(run: Run) -> bool:
    """Return whether the board's labels belong to another jury's votes."""
    gold = run.load_labels().gold if run.manifest.gold is not None and run.task.uses_jury else None
    return gold is not None and bool(differences(run.manifest, gold)) and not rejudging(run)


def rejudged_verdicts(run: Run, columns: Sequence[str], *, anchors: bool = False) -> pl.DataFrame:
    """This jury's verdicts on labelled answers of the gold set, by what names the answer, and judge; a model's when all
    of its jury are done. ``columns``: of the table ``rejudged``. ``anchors``: the verdicts of judges asked once
    more."""
    graded = {job.id for job in (anchor_jobs(run) if anchors else rejudging(run)) if job.graded}
    jobs = {job_id: rejudged for job_id, rejudged in run.rejudging.items() if rejudged.job.is_anchor == anchors}
    undone = {rejudged.about for job_id, rejudged in jobs.items() if job_id not in graded}
    parts = [pl.DataFrame(schema={**_ANSWER, **{name: VERDICTS[name] for name in columns}})]
    for job_id, rejudged in jobs.items():
        if rejudged.about not in undone:
            given = tables.read_part(run.folder.part("rejudged", job_id), columns=["item_id", *columns])
            parts.append(rejudged.rows.select(PREDICTION).join(given, on="item_id", maintain_order="left"))
    return pl.concat(parts)


def _rejudged(run: Run, metric: str, *, anchors: bool = False) -> pl.DataFrame:
    """This jury's verdicts on labelled answers, on one metric."""
    field = METRIC_FIELDS.get(metric, metric)
    return rejudged_verdicts(run, ["judge", field], anchors=anchors).rename({field: "verdict"}).drop_nulls()


def judge_drift(run: Run, metric: str) -> tuple[JudgeDrift, ...]:
    """Compare what judges say of labelled answers when asked once more with the verdicts that the labels stand
    beside."""
    gold = run.load_labels().gold if anchor_jobs(run) else None
    if gold is None:
        return ()
    recorded = judged_of(gold, metric).unique(PREDICTION, keep="last", maintain_order=True)
    before = _rejudged(run, metric) if rejudging(run) else _recorded(recorded)
    pairs = _rejudged(run, metric, anchors=True).join(
        before.rename({"verdict": "recorded"}), on=[*PREDICTION, "judge"], maintain_order="left"
    )
    pairs = pairs.join(recorded.select(*PREDICTION, "human"), on=PREDICTION, how="left", maintain_order="left")
    return tuple(drift_of(pairs, run.rules.level))


def judged(run: Run, metric: str, votes: pl.DataFrame | None = None) -> pl.DataFrame:
    """Every prediction of the models that are done with its jury's verdicts, and the gold set's recorded ones.

    A prediction that is in both counts once: with this run's verdicts and the gold set's label. ``votes``: those of
    the first round, where they are known.
    """
    gold = run.load_labels().gold
    recorded = judged_of(gold, metric) if gold else pl.DataFrame(schema=JUDGED)
    recorded = recorded.unique(PREDICTION, keep="last", maintain_order=True)
    if votes is None:
        votes = _votes(run, jobs_of_round(run, 1), metric)
    words = annotated_words(votes, recorded.rename({"human": "correct"}), joined(run, votes), metric)
    own = votes.select(PREDICTION).join(
        recorded.select(*PREDICTION, "human"), on=PREDICTION, how="left", maintain_order="left"
    )
    own = own.update(words.select(*PREDICTION, human="correct"), on=PREDICTION, include_nulls=True)
    other_answers = recorded.join(own, on=PREDICTION, how="anti", maintain_order="left")
    answers = pl.concat([own, other_answers.select(*PREDICTION, "human")])
    families = [(*astuple(entrant(run, job)), job.spec.family) for job in finished_jobs(run)]
    schema = {name: JUDGED[name] for name in (*ENTRANT, "family")}
    family = pl.DataFrame(families, schema=schema, orient="row").unique(ENTRANT, keep="last")
    answers = answers.join(family, on=ENTRANT, how="left", maintain_order="left")
    answers = answers.with_columns(pl.col("family").fill_null(pl.col("provider")))
    before = _recorded(recorded)
    of_others, recorded_verdicts = before.join(own, on=PREDICTION, how="anti"), before
    if rejudging(run):
        of_others = _rejudged(run, metric).join(own, on=PREDICTION, how="anti")
    else:
        recorded_verdicts = before.join(own, on=PREDICTION, how="semi")
    now = pl.concat([_own_verdicts(run, votes, metric), of_others])
    recorded_verdicts = recorded_verdicts.rename({"verdict": "recorded"})
    pairs = now.join(recorded_verdicts, on=[*PREDICTION, "judge"], how="full", coalesce=True)
    pairs = pairs.sort("judge").group_by(PREDICTION).agg(verdicts=pl.struct("judge", "verdict", "recorded"))
    return answers.join(pairs, on=PREDICTION, how="left", maintain_order="left").select(*JUDGED)


def finished_jobs(run: Run) -> list[Job]:
    """The jobs of the models that are done and scored, all their samples; a model with several numbers of hints is one
    with each."""
    jobs = run.store.jobs()
    done = [job for job in finished(jobs) if run.folder.part("scores", job.id).exists()]
    ended = {job.id for job in done}
    open_ = {entrant(run, job) for job in jobs if job.role is Role.PREDICT and job.id not in ended}
    return [job for job in done if entrant(run, job) not in open_]


def samples(run: Run) -> Mapping[str, int]:
    """Count the samples of every finished model, at each hint level."""
    counts = Counter(entrant(run, job) for job in finished_jobs(run))
    return {participant.model: number for participant, number in counts.items()}


def jobs_of_round(run: Run, number: int) -> list[Job]:
    """Return each finished model's job of one sample. A model with fewer samples begins again with its first."""
    done = finished_jobs(run)
    counts = Counter(entrant(run, job) for job in done)
    return [job for job in done if job.spec.sample == 1 + (number - 1) % counts[entrant(run, job)]]


def _write_beside(run: Run, boards: RuleBoard | Sequence[JuryBoard]) -> None:
    """Write the tables beside the board, for its pages: every two models against each other, and of a jury what labels
    would do for the intervals (no row where nothing), the findings of `judges` (no row if no judge was asked, or for
    too many verdicts), and the present labels (no table if the run never had any)."""
    need: list[tables.Row] = []
    if isinstance(boards, RuleBoard):
        pairs = all_pairs(boards)
    else:
        board, people = boards[0], joined(run)
        pairs, is_small = all_pairs(board), board.votes.height <= MOST_PLANNED
        if is_small and board.votes.height and (plan := outlook(board, length=0)).enough:
            now = plan.half_width_now if board.labels.height else None
            need = [{"labels": plan.enough, "half_width_now": now, "half_width_then": plan.half_width_then}]
        write_record(_part(run, "judges"), _diagnosis(run, board, people) if is_small else None)
        rows = list(label_rows(run, people))
        if rows or _part(run, "labels").exists():
            tables.write(_part(run, "labels"), tables.frame("labels", rows))
    tables.write(_part(run, "pairs"), tables.frame("pairs", [asdict(pair) for pair in pairs]))
    tables.write(_part(run, "label_need"), tables.frame("label_need", need))


def _diagnosis(run: Run, board: JuryBoard, people: JoinedLabels) -> DiagnosisRecord | None:
    verdicts, counts = judged(run, board.rules.metric, board.votes), tuple(count_verdicts(run.folder.tables))
    if not has_verdicts(verdicts) and not (counts and verdicts.height):
        return None
    diagnosis = diagnose(verdicts, board, judge_drift(run, board.rules.metric))
    return DiagnosisRecord(diagnosis, annotator_agreement(people, board.rules.metric, board.rules.level), counts)


def _votes(run: Run, jobs: Sequence[Job], metric: str) -> pl.DataFrame:
    return pl.concat([pl.DataFrame(schema=VOTES), *(votes_of(scores_of(run, job, metric)) for job in jobs)])


def scores_of(run: Run, job: Job, metric: str) -> pl.DataFrame:
    """The job's rows of the table ``scores`` on one metric, with whose answers they are of."""
    scores = tables.read_part(run.folder.part("scores", job.id)).filter(pl.col("metric") == metric)
    participant = asdict(entrant(run, job)).items()
    return scores.with_columns(**{name: pl.lit(value, VOTES[name]) for name, value in participant})


def entrant(run: Run, job: Job) -> Entrant:
    """Return the entrant whose answers a job brings."""
    return Entrant(job.spec.name, job.spec.provider, run.manifest.hints_of(job.spec))


def marks(run: Run, metric: str) -> pl.DataFrame:
    """The rule's marks of the models that are done, a row an answer."""
    return pl.concat([pl.DataFrame(schema=MARKS), *(_marks(run, job, metric) for job in finished_jobs(run))])


def _marks(run: Run, job: Job, metric: str) -> pl.DataFrame:
    kinds = tables.read_part(run.folder.part("predictions", job.id), columns=["item_id", "kind"])
    rows = scores_of(run, job, metric).join(kinds, on="item_id", how="left", maintain_order="left")
    task = run.task
    strata = [task.stratum(run.item(item)) if isinstance(task, HasStrata) else "" for item in rows["item_id"]]
    failure, stratum = pl.col("flag").fill_null(""), pl.Series(strata, dtype=pl.String)
    rows = rows.with_columns(sample=pl.lit(job.spec.sample), mark="vote", failure=failure, stratum=stratum)
    return rows.select(pl.col(name).cast(dtype) for name, dtype in MARKS.items())


def _own_verdicts(run: Run, votes: pl.DataFrame, metric: str) -> pl.DataFrame:
    """Return answer, judge and verdict of the first round, for every readable verdict."""
    jobs, field = run.store.jobs(), METRIC_FIELDS.get(metric, metric)
    parts = [pl.DataFrame(schema={**_ANSWER, "judge": pl.String, "verdict": pl.Boolean})]
    for job in jobs_of_round(run, 1):
        mine = votes.filter(**asdict(entrant(run, job))).select(PREDICTION)
        for judge in (other for other in jobs if other.depends_on == job.id):
            given = tables.read_part(run.folder.part("verdicts", judge.id), columns=["item_id", "judge", field])
            given = given.rename({field: "verdict"}).drop_nulls("verdict")
            parts.append(mine.join(given, on="item_id", maintain_order="left"))
    return pl.concat(parts)
