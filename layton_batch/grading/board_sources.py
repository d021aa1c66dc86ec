"""Sources of a leaderboard's rows: runs, files of recorded predictions, per-item scores of other programs, or
several of these."""

from __future__ import annotations

import math
import shlex
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import astuple, dataclass, field, replace
from pathlib import Path

import polars as pl

from layton_batch.errors import DataError, ManifestError
from layton_batch.files.run_folder import RunFolder, Workspace
from layton_batch.grading.submissions import GradedModel, shared_marks
from layton_batch.interchange import score_forms, score_table
from layton_batch.interchange.judge_files import is_judge_file, read_judge_files
from layton_batch.interchange.score_file import ROUNDING, ItemOutcome, ScoreFile
from layton_batch.interchange.score_table import METRIC, USUAL, TableColumns
from layton_batch.scoring.annotations import JoinedLabels
from layton_batch.scoring.board import rank
from layton_batch.scoring.boards import JuryBoard, RuleBoard
from layton_batch.scoring.evidence import ENTRANT, JUDGED, LABELS, MARKS, VOTES, Entrant, rounds
from layton_batch.scoring.gold import GoldSet, judged_of, read_gold, rounds_of
from layton_batch.scoring.judge_quality import JudgeDrift, has_verdicts, is_drift
from layton_batch.scoring.leaderboard import (
    OTHER_JUDGE,
    OTHER_MODEL,
    PAPER,
    PAPER_LEVEL,
    ScoringRules,
    with_flag,
    with_incomplete,
)
from layton_batch.scoring.verdict_counts import VerdictCounts, count_verdicts
from layton_batch.scoring.vote_files import is_votes, metrics_of, read_votes, votes_of
from layton_batch.settings import Settings
from layton_batch.stats.distributions import MAX_LEVEL

METRICS = ("both_correct", "answer_correct", "justification_correct")


@dataclass(frozen=True, slots=True)
class BoardOptions:
    """Options of the command line; None: the value of the first run's manifest, else the default.

    ``level`` is a fraction, as in ``ScoringRules``.
    """

    method: str | None = None
    metric: str | None = None
    seed: int | None = None
    level: float | None = None
    max_score: float | None = None
    """The highest mark in the files of other programs, where it is not 1."""
    labels: tuple[str, ...] = ()
    """Files in layton-eval-ppi's form of which only people's labels are taken."""
    min_score: float = 0.0
    """The lowest mark in tables of scores and in the files of other programs."""
    columns: TableColumns = USUAL
    """The columns of tables, where they have names of their own."""

    def check(self) -> None:
        """Raise ManifestError for options that no board can use."""
        largest = self.max_score
        if largest is not None and not (math.isfinite(largest) and largest > 0):
            raise ManifestError(f"--max-score {largest:g}: must be a number above 0, such as 10")
        if self.level is not None and not 0 < self.level <= MAX_LEVEL:
            raise ManifestError(f"--level {self.level:g}: must be a number above 0 and below 1, such as 0.95")
        if self.seed is not None and self.seed < 0:
            raise ManifestError(f"--seed {self.seed}: must be 0 or more")
        if self.method not in (None, PAPER):
            raise ManifestError(f"--method {self.method!r}: only paper (the published table); leave it out otherwise")

    def rules(self, defaults: ScoringRules) -> ScoringRules:
        """Replace the sources' rules by the given options. Raises ManifestError as ``check``."""
        self.check()
        names = ("method", "metric", "seed", "level")
        chosen = {name: value for name in names if (value := getattr(self, name)) is not None}
        return replace(defaults, **chosen)


@dataclass(slots=True)
class Sources:
    """Everything several sources hold on one metric: a jury's votes and people's labels, or a rule's marks.

    ``rules.other_jury``: some labels stand beside votes of another jury than the votes on the models that are ranked.
    """

    rules: ScoringRules = field(default_factory=ScoringRules)
    rounds: list[JuryBoard] = field(default_factory=list)
    """The jury's board of each round of samples."""
    rule_marks: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=MARKS))
    """The frame of marks by a rule."""
    span: tuple[float, float] = (0.0, 1.0)
    """The least and the greatest mark that the rules can give."""
    samples: dict[str, int] = field(default_factory=dict)
    """Number of samples of each model."""
    judged: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=JUDGED))
    drift: list[JudgeDrift] = field(default_factory=list)
    """Drift of the runs' judges that were asked once more about labelled answers."""
    other_models: set[str] = field(default_factory=set)
    """Models of whom another model gave some of the answers."""
    other_judges: bool = False
    """Another model than a judge gave some of its verdicts."""
    incomplete: list[tuple[Entrant, str]] = field(default_factory=list)
    """Models that are not complete, each with its progress."""
    verdicts: list[VerdictCounts] = field(default_factory=list)
    """Outcomes of the verdicts of the runs' judges."""
    files: list[ScoreFile] = field(default_factory=list)
    """Per-item scores of other programs, not yet brought together."""
    annotated: JoinedLabels = field(default_factory=lambda: JoinedLabels({}))
    """The labels of the runs' annotators, each by name."""
    notes: list[str] = field(default_factory=list)
    """Facts on these sources and the labels that a reader of a board has to know."""

    @property
    def marks(self) -> RuleBoard | None:
        """Return the board of the rule's marks; None where a jury votes."""
        return RuleBoard(self.rule_marks, self.rules, self.span) if self.rule_marks.height else None


@dataclass(frozen=True, slots=True)
class _Part:
    """Rules of one source, and its jury's board of each round."""

    rules: ScoringRules
    rounds: Sequence[JuryBoard] = ()
    jury: frozenset[str] = frozenset()
    is_run: bool = False


def board_of(sources: Sources) -> pl.DataFrame:
    """Rank the sources. Raises ManifestError for a level that the paper's method does not have."""
    if sources.rules.method == PAPER and sources.rules.level != PAPER_LEVEL:
        raise ManifestError(f"--level: the paper's method has its own, {PAPER_LEVEL:g}; leave out the one or the other")
    rows = rank(sources.marks or sources.rounds, sources.samples)
    rows = with_flag(rows, OTHER_JUDGE) if sources.other_judges else rows
    return with_incomplete(with_flag(rows, OTHER_MODEL, sources.other_models), sources.incomplete)


def read_sources(
    sources: Sequence[str], runs: Path, settings: Settings, options: BoardOptions, *, verdicts: bool = False
) -> Sources:
    """Read and combine all sources, by default the only run; with ``verdicts`` also every judge's verdicts by name.

    Raises ManifestError (unknown method or metric), DataError (bad file), StoreError (no such run).
    """
    options.check()
    combined = Sources()
    names = [file for source in _or_only_run(sources, runs) for file in _files_in(source, runs)]
    parts = _read_parts(combined, names, runs, settings, options, verdicts=verdicts)
    if combined.files or combined.rule_marks.height:
        _refuse_jury_options(options)
    if options.max_score is not None and not combined.files:
        raise ManifestError("--max-score is for scores of other programs, and these sources have none: leave it out")
    parts += [_of_labels(path, settings, parts[0].rules.metric) for path in options.labels]
    _combine(combined, parts, options)
    if (combined.marks or combined.files) and combined.rounds[0].votes.height:
        raise ManifestError("some sources are graded by rule and some by a jury: rank them separately")
    if combined.files:
        _bring_together(combined, options)
    return combined


def _read_parts(
    combined: Sources, names: Sequence[str], runs: Path, settings: Settings, options: BoardOptions, *, verdicts: bool
) -> list[_Part]:
    """Add every source; return the parts of runs, gold sets and votes."""
    judge_files, parts, metric = [source for source in names if is_judge_file(source)], list[_Part](), options.metric
    if judge_files:
        parts.append(_add_gold(combined, read_judge_files(judge_files, settings), metric, verdicts=verdicts))
    for source in (name for name in names if name not in judge_files):
        if parts:
            metric = parts[0].rules.metric  # a board has one metric: what is asked for, else the first source's
        if is_votes(source):
            parts.append(_add_votes(combined, source, metric, verdicts=verdicts))
        elif _is_file(source) or _named(source):
            parts += _add_file(combined, source, settings, replace(options, metric=metric), verdicts=verdicts)
        else:
            parts.append(_add_run(combined, source, runs, settings, metric, verdicts=verdicts))
    return parts or [_Part(ScoringRules())]


def _combine(combined: Sources, parts: Sequence[_Part], options: BoardOptions) -> None:
    """Put the rules and the rounds of all sources together."""
    rounds = [_round(parts, number) for number in range(max(1, *(len(part.rounds) for part in parts)))]
    juries = [part.jury for part in parts if part.jury]
    mixed = any(not (jury <= other or other <= jury) for jury in juries for other in juries)
    combined.rules = replace(
        options.rules(next((part.rules for part in parts if part.is_run), parts[0].rules)),
        metric=parts[0].rules.metric,
        other_jury=any(part.rules.other_jury for part in parts) or (mixed and bool(rounds[0][1].height)),
        drifted=is_drift(combined.drift),
        unsure=max(part.rules.unsure for part in parts),
        in_turn=any(part.rules.in_turn for part in parts),
    )
    combined.rounds = [JuryBoard(votes, labels, combined.rules) for votes, labels in rounds]
    combined.notes = list(dict.fromkeys(combined.notes))


def _files_in(source: str, runs: Path) -> Sequence[str]:
    """Return the files of a folder of other programs' logs; else the source itself, also where a run has its name."""
    folder = Path(source)
    is_ours = Workspace(folder).database.exists() or any(
        RunFolder(root).manifest.exists() for root in (folder, runs / folder)
    )
    if "://" in source or is_ours or not folder.is_dir() or is_votes(source):
        return [source]
    return [str(path) for path in score_forms.files_in(folder)] or [source]


def _refuse_jury_options(options: BoardOptions) -> None:
    """Raise ManifestError for options that only votes of a jury have a use for."""
    if options.labels:
        raise ManifestError("--labels: these sources are graded by rule; people's labels are for a jury's votes")
    if options.method is not None:
        raise ManifestError(
            f"--method {options.method}: these sources are graded by rule; the method is for a jury's votes: leave it "
            "out"
        )


def _or_only_run(sources: Sequence[str] | None, runs: Path) -> Sequence[str]:
    from layton_batch.runs.folders import find_run

    return sources or [str(find_run(None, runs).root)]


def run_sources(sources: Sequence[str] | None, runs: Path) -> list[str]:
    """Return those of the sources that are runs, by default the only run. Raises StoreError."""
    given = _or_only_run(sources, runs)
    return [source for source in given if not (is_votes(source) or _is_file(source) or _named(source))]


def read_jury_sources(
    sources: Sequence[str], runs: Path, settings: Settings, options: BoardOptions, *, verdicts: bool = False
) -> Sources:
    """Read sources as ``read_sources`` does. Raises DataError where no jury judged, or not yet."""
    from layton_batch.runs.folders import DEFAULT_RUNS

    read = read_sources(sources, runs, settings, options, verdicts=verdicts)
    if read.marks:
        named = f" {shlex.join(sources)}" if sources else ""
        named += "" if runs == DEFAULT_RUNS else f" --runs {shlex.quote(str(runs))}"
        raise DataError(
            "these answers are graded by rule: there are no judges, and nothing for people to label; "
            f"`layton-batch leaderboard{named}` ranks the models"
        )
    if read.rounds[0].votes.is_empty():
        raise DataError("no model is done yet: there is nothing to examine. `layton-batch run` continues the run")
    if verdicts and not (read.verdicts or has_verdicts(read.judged)):
        raise DataError("these sources hold no verdict of any judge on this metric")
    return read


def _of_labels(path: str, settings: Settings, metric: str) -> _Part:
    """Read a file of which only the labels are taken. Raises DataError for one that is not in the form."""
    gold = read_gold(path, settings.cwd, settings, keep_texts=False)
    rules = ScoringRules(metric=metric, other_jury=gold.other_jury)
    parts, _ = rounds_of(gold, metric)
    return _Part(rules, [JuryBoard(votes.clear(), labels, rules) for votes, labels in parts])


def _round(parts: Sequence[_Part], number: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All sources in one of the rounds, of which the first is 0; those with fewer begin again with their first. A label
    that several sources carry is one label."""
    boards = [part.rounds[number % len(part.rounds)] for part in parts if part.rounds]
    votes = pl.concat([pl.DataFrame(schema=VOTES), *(board.votes for board in boards)])
    labels = pl.concat([pl.DataFrame(schema=LABELS), *(board.labels for board in boards)])
    return votes, labels.unique(maintain_order=True)


def _bring_together(combined: Sources, options: BoardOptions) -> None:
    """Restrict the marks of other programs and of runs to the items that all models have.

    The metric is the one asked for, else the first one that all files have, else each file's first. Files of several
    evaluations of one model are taken together: an item is then known by its evaluation too. Raises ManifestError for a
    metric that a file lacks, and DataError for marks that are no fractions and for an item that is there twice.
    """
    whole = {file.evaluation for file in combined.files if file.evaluation and not file.is_cut}
    repeated = [file for file in combined.files if file.is_cut and file.evaluation in whole]
    notes = [f"{file.where}: is left out: it was cut short, and another file has the whole of it" for file in repeated]
    files = [file for file in combined.files if file not in repeated]
    chosen = [(file, _chosen(file, options.metric, files)) for file in files]
    models, least = _marked(chosen, options.max_score)
    names = dict.fromkeys(name for _, name in chosen)
    common = next(iter(names)) if len(names) == 1 else METRIC
    notes += dict.fromkeys(note for file in files for note in file.notes)
    if len(names) > 1:
        by_metric = "; ".join(f"{file.model} by {name}" for file, name in chosen)
        notes.append(f"The files have no metric of one name: {by_metric}.")
    more = dict.fromkeys(name for file in files for name in file.metrics if name not in names)
    if options.metric is None and more:
        notes.append(f"Ranked by {common}; --metric takes {', '.join(more)} as well.")
    least = options.min_score / (options.max_score or 1.0) or least
    combined.span = combined.span if combined.marks else (least, 1.0)
    of_runs = [
        GradedModel(part["model"][0], "the run", part["provider"][0], marks=part)
        for part in combined.rule_marks.partition_by(*ENTRANT, "sample", maintain_order=True)
    ]
    combined.rule_marks, shared_notes = shared_marks([*of_runs, *models])
    combined.notes += [*notes, *shared_notes]
    combined.rules = replace(combined.rules, metric=common)


def _marked(chosen: Sequence[tuple[ScoreFile, str]], largest: float | None) -> tuple[list[GradedModel], float]:
    """Return the models of files, each sample of them, with their marks by the metric chosen of each file, and the
    least mark that there can be; the greatest is 1. ``largest``: the highest mark in the files, where it is not 1."""
    tasks = {(file.model, file.provider, file.n_hints, file.task) for file, _ in chosen}
    has_several_tasks = len(tasks) > len({entrant[:3] for entrant in tasks})
    models: dict[tuple[Entrant, int], GradedModel] = {}
    outcomes: dict[tuple[Entrant, int], dict[str, ItemOutcome]] = defaultdict(dict)
    least = []
    for file, name in chosen:
        key = Entrant(file.model, file.provider, file.n_hints), file.sample
        model = models.setdefault(key, GradedModel(file.model, file.where, file.provider))
        scale = largest or file.largest.get(name) or 1.0
        least.append(file.least.get(name, 0.0) / scale)
        for file_item, outcome in file.metrics[name].items():
            item = f"{file.task}:{file_item}" if has_several_tasks else file_item
            if item in outcomes[key]:
                raise DataError(
                    f"{file.where}: item {item!r} of model {file.model!r} is in {model.where} as well; give each "
                    "model's marks once, or another name to one of the files (NAME=FILE)"
                )
            outcomes[key][item] = _scaled(outcome, scale, f"{file.where}, item {file_item!r}, metric {name!r}")
            if file_item in file.questions:
                model.questions[item] = file.questions[file_item]
    for (entrant, sample), model in models.items():
        rows = [
            (*astuple(entrant), sample, item, outcome.mark, outcome.kind, outcome.failure or "", "")
            for item, outcome in outcomes[entrant, sample].items()
        ]
        model.marks = pl.DataFrame(rows, schema=MARKS, orient="row")
    return list(models.values()), min(least)


def _chosen(file: ScoreFile, metric: str | None, files: Sequence[ScoreFile]) -> str:
    names = [name for name in file.metrics if name not in file.lower_is_better]
    if not names:
        raise DataError(f"{file.where}: has no metric of which more is better")
    if metric is not None:
        if metric not in file.metrics:
            raise ManifestError(f"--metric {metric!r}: must be a metric of {file.where}: {', '.join(file.metrics)}")
        if metric in file.lower_is_better:
            raise ManifestError(f"--metric {metric!r}: less is better by it, says {file.where}; boards rank by more")
        return metric
    return next((name for name in names if all(name in other.metrics for other in files)), names[0])


def _scaled(outcome: ItemOutcome, scale: float, place: str) -> ItemOutcome:
    if outcome.mark is None:
        return outcome
    mark = outcome.mark / scale
    if 1 < abs(mark) <= 1 + ROUNDING:
        mark = math.copysign(1.0, mark)
    if not -1 <= mark <= 1:
        raise DataError(
            f"{place}: the mark is {outcome.mark:g}, and marks go up to {scale:g}; choose another metric with "
            "--metric, or say with --max-score what the best mark is"
        )
    return replace(outcome, mark=mark)


def _is_file(source: str) -> bool:
    """Tell whether a source is a file, or the address of one. A manifest's file stands for its run."""
    return "://" in source or (Path(source).is_file() and not source.endswith(".toml"))


def known_name(name: str, value: str | None, values: Sequence[str]) -> str | None:
    """The value of an option. Raises ManifestError where it is none of these."""
    if value is not None and value not in values:
        raise ManifestError(f"--{name} {value!r}: must be one of {', '.join(values)}")
    return value


def _metric(given: str | None, present: Iterable[str]) -> str:
    """Return the metric to rank on: the given one, else the first of those ``present`` in the source."""
    return known_name("metric", given, METRICS) or next(iter(present), METRICS[0])


def _named(source: str) -> bool:
    """Tell whether a source has the form NAME=FILE."""
    name, _, path = source.partition("=")
    return bool(name.strip()) and bool(path) and Path(path).is_file()


def _add_file(
    combined: Sources, source: str, settings: Settings, options: BoardOptions, *, verdicts: bool
) -> list[_Part]:
    """Add a file of another program, or a gold set, whose part is returned."""
    is_named, is_address = not _is_file(source), "://" in source
    name, path = source.split("=", 1) if is_named else ("", source)
    gold = None if is_named or is_address else score_table.read_verdicts(Path(path), options.columns)
    if gold is None:
        files = None if is_address else score_forms.read(Path(path), options.columns)
        if files is not None:
            combined.files += score_forms.named(files, name.strip()) if name else files
            return []
        if is_named:
            raise ManifestError(f"{source}: only files of other programs take a name ({score_forms.NAMES})")
        gold = read_gold(source, settings.cwd, settings, keep_texts=False)
    return [_add_gold(combined, gold, options.metric, verdicts=verdicts)]


def _add_gold(combined: Sources, gold: GoldSet, given: str | None, *, verdicts: bool) -> _Part:
    metric = _metric(given, filter(gold.has, METRICS))
    rules = ScoringRules(metric=metric, other_jury=gold.other_jury)
    parts, samples = rounds_of(gold, metric)
    combined.samples |= samples
    if verdicts:
        combined.judged = pl.concat([combined.judged, judged_of(gold, metric)])
    return _Part(rules, [JuryBoard(*part, rules) for part in parts], frozenset(gold.judges))


def _add_votes(combined: Sources, source: str, metric: str | None, *, verdicts: bool) -> _Part:
    if verdicts:
        raise ManifestError(f"{source}: a file of votes does not say how each judge decided; give the run")
    wanted = _metric(metric, filter(metrics_of(source).__contains__, METRICS))
    frames, samples = rounds(read_votes(source, wanted))
    combined.samples |= samples
    rules, nothing = ScoringRules(metric=wanted), pl.DataFrame(schema=LABELS)
    return _Part(rules, [JuryBoard(votes_of(frame), nothing, rules) for frame in frames])


def _add_run(
    combined: Sources, source: str, runs: Path, settings: Settings, metric: str | None, *, verdicts: bool
) -> _Part:
    from layton_batch.runs.folders import find_run
    from layton_batch.runs.open import read_run
    from layton_batch.stages.rank import (
        answered_by_others,
        has_judges_of_another_model,
        incomplete_of,
        joined,
        judge_drift,
        judged,
        jury_boards,
        reader_notes,
        rule_board,
        samples,
    )

    with read_run(find_run(source, runs), settings) as run:
        known_name("metric", metric, tuple(run.task.metrics))
        rules = replace(run.rules, metric=metric or run.rules.metric)
        combined.other_models |= answered_by_others(run)
        combined.notes += reader_notes(run)
        combined.incomplete += incomplete_of(run)
        if not run.task.uses_jury:
            board = rule_board(run, rules)
            combined.rule_marks = pl.concat([combined.rule_marks, board.marks])
            combined.span = min(combined.span[0], board.span[0]), max(combined.span[1], board.span[1])
            return _Part(rules, is_run=True)
        rounds = jury_boards(run, rules)
        combined.samples |= samples(run)
        combined.other_judges |= has_judges_of_another_model(run)
        combined.drift += judge_drift(run, rules.metric)
        if verdicts:
            combined.judged = pl.concat([combined.judged, judged(run, rules.metric)])
            people = {**combined.annotated.by_prediction, **joined(run).by_prediction}
            combined.annotated = JoinedLabels(people)
            combined.verdicts += count_verdicts(run.folder.tables)
        jury = frozenset(judge.model.name for judge in run.manifest.panel())
        return _Part(rounds[0].rules, rounds, jury, is_run=True)
