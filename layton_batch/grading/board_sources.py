"""Sources of a leaderboard's rows: runs, files of recorded predictions, per-item scores of other programs, or
several of these."""

from __future__ import annotations

import math
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl

from layton_batch.errors import DataError, ManifestError
from layton_batch.files.run_folder import RunFolder, Workspace
from layton_batch.grading.ranking import GradedModel, marked, shared_marks
from layton_batch.interchange import score_forms, score_table
from layton_batch.interchange.judge_files import is_judge_file, read_judge_files
from layton_batch.interchange.score_file import ScoreFile
from layton_batch.interchange.score_table import USUAL, TableColumns
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

    rules: ScoringRules
    rounds: list[JuryBoard] = field(default_factory=list)
    """The jury's board of each round of samples."""
    rule_marks: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=MARKS))
    """The frame of marks by a rule."""
    span: tuple[float, float] = (0.0, 1.0)
    """The least and the greatest mark that the rules can give."""
    samples: dict[str, int] = field(default_factory=dict)
    """Number of samples of each model."""
    judged: pl.DataFrame = field(default_factory=lambda: pl.DataFrame(schema=JUDGED))
    jury: frozenset[str] = frozenset()
    drift: Sequence[JudgeDrift] = ()
    """Drift of the runs' judges that were asked once more about labelled answers."""
    other_models: frozenset[str] = frozenset()
    """Models of whom another model gave some of the answers."""
    other_judges: bool = False
    """Another model than a judge gave some of its verdicts."""
    incomplete: list[tuple[Entrant, str]] = field(default_factory=list)
    """Models that are not complete, each with its progress."""
    verdicts: list[VerdictCounts] = field(default_factory=list)
    """Outcomes of the verdicts of the runs' judges."""
    is_run: bool = False
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
    metric = options.metric
    sources = [file for source in _or_only_run(sources, runs) for file in _files_in(source, runs)]
    judge_files = [source for source in sources if is_judge_file(source)]
    parts = [_of_gold(read_judge_files(judge_files, settings), metric, verdicts=verdicts)] if judge_files else []
    for source in sources:
        if source in judge_files:
            continue
        if is_votes(source):
            parts.append(_of_votes(source, metric, verdicts=verdicts))
        elif _is_file(source) or _named(source):
            parts.append(_of_file(source, settings, replace(options, metric=metric), verdicts=verdicts))
        else:
            parts.append(_of_run(source, runs, settings, metric, verdicts=verdicts))
        if not parts[0].files:
            metric = parts[0].rules.metric  # a board has one metric: what is asked for, else the first source's
    if any(part.marks or part.files for part in parts):
        _refuse_jury_options(options)
    if options.max_score is not None and not any(part.files for part in parts):
        raise ManifestError("--max-score is for scores of other programs, and these sources have none: leave it out")
    parts += [of_labels(path, settings, parts[0].rules.metric) for path in options.labels]
    combined = _combined(parts, options)
    if (combined.marks or combined.files) and combined.rounds[0].votes.height:
        raise ManifestError("some sources are graded by rule and some by a jury: rank them separately")
    if combined.files:
        _bring_together(combined, options)
    return combined


def _combined(parts: Sequence[Sources], options: BoardOptions) -> Sources:
    """Put all sources together. A label that several sources carry is one label."""
    rounds = [_round(parts, number) for number in range(max(1, *(len(part.rounds) for part in parts)))]
    juries = [part.jury for part in parts if part.jury]
    mixed = any(not (jury <= other or other <= jury) for jury in juries for other in juries)
    drift = [judge for part in parts for judge in part.drift]
    spans = [part.span for part in parts if part.marks] or [(0.0, 1.0)]
    rules = replace(
        options.rules(next((part.rules for part in parts if part.is_run), parts[0].rules)),
        metric=parts[0].rules.metric,
        other_jury=any(part.rules.other_jury for part in parts) or (mixed and bool(rounds[0][1].height)),
        drifted=is_drift(drift),
        unsure=max(part.rules.unsure for part in parts),
        in_turn=any(part.rules.in_turn for part in parts),
    )
    return Sources(
        rules,
        rounds=[JuryBoard(votes, labels, rules) for votes, labels in rounds],
        rule_marks=pl.concat([part.rule_marks for part in parts]),
        span=(min(least for least, _ in spans), max(most for _, most in spans)),
        samples={model: count for part in parts for model, count in part.samples.items()},
        judged=pl.concat([part.judged for part in parts]),
        drift=drift,
        other_models=frozenset(model for part in parts for model in part.other_models),
        other_judges=any(part.other_judges for part in parts),
        incomplete=[model for part in parts for model in part.incomplete],
        verdicts=[counts for part in parts for counts in part.verdicts],
        files=[file for part in parts for file in part.files],
        annotated=JoinedLabels({key: people for part in parts for key, people in part.annotated.by_prediction.items()}),
        notes=list(dict.fromkeys(note for part in parts for note in part.notes)),
    )


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


def of_labels(path: str, settings: Settings, metric: str) -> Sources:
    """A file of which only the labels are taken. Raises DataError for one that is not in the form."""
    gold = read_gold(path, settings.cwd, settings, keep_texts=False)
    rules = ScoringRules(metric=metric, other_jury=gold.other_jury)
    parts, _ = rounds_of(gold, metric)
    return Sources(rules, [JuryBoard(votes.clear(), labels, rules) for votes, labels in parts])


def _round(parts: Sequence[Sources], number: int) -> tuple[pl.DataFrame, pl.DataFrame]:
    """All sources in one of the rounds, of which the first is 0; those with fewer begin again with their first. A label
    that several sources carry is one label."""
    boards = [part.rounds[number % len(part.rounds)] for part in parts if part.rounds]
    votes = pl.concat([pl.DataFrame(schema=VOTES), *(board.votes for board in boards)])
    labels = pl.concat([pl.DataFrame(schema=LABELS), *(board.labels for board in boards)])
    return votes, labels.unique(maintain_order=True)


def _bring_together(combined: Sources, options: BoardOptions) -> None:
    """Restrict the marks of other programs and of runs to the items that all models have."""
    read = marked(combined.files, options.metric, options.max_score)
    least = options.min_score / (options.max_score or 1.0) or read.least
    combined.span = combined.span if combined.marks else (least, 1.0)
    of_runs = [
        GradedModel(part["model"][0], "the run", part["provider"][0], marks=part)
        for part in combined.rule_marks.partition_by(*ENTRANT, "sample", maintain_order=True)
    ]
    combined.rule_marks, notes = shared_marks([*of_runs, *read.models])
    combined.notes += [*read.notes, *notes]
    combined.rules = replace(combined.rules, metric=read.metric)


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


def _of_file(source: str, settings: Settings, options: BoardOptions, *, verdicts: bool) -> Sources:
    is_named, is_address = not _is_file(source), "://" in source
    name, path = source.split("=", 1) if is_named else ("", source)
    gold = None if is_named or is_address else score_table.read_verdicts(Path(path), options.columns)
    if gold is None:
        files = None if is_address else score_forms.read(Path(path), options.columns)
        if files is not None:
            return Sources(ScoringRules(), files=score_forms.named(files, name.strip()) if name else files)
        if is_named:
            raise ManifestError(f"{source}: only files of other programs take a name ({score_forms.NAMES})")
        gold = read_gold(source, settings.cwd, settings, keep_texts=False)
    return _of_gold(gold, options.metric, verdicts=verdicts)


def _of_gold(gold: GoldSet, given: str | None, *, verdicts: bool) -> Sources:
    metric = _metric(given, filter(gold.has, METRICS))
    rules = ScoringRules(metric=metric, other_jury=gold.other_jury)
    parts, samples = rounds_of(gold, metric)
    sources = Sources(rules, [JuryBoard(*part, rules) for part in parts], samples=samples, jury=frozenset(gold.judges))
    if verdicts:
        sources.judged = judged_of(gold, metric)
    return sources


def _of_votes(source: str, metric: str | None, *, verdicts: bool) -> Sources:
    if verdicts:
        raise ManifestError(f"{source}: a file of votes does not say how each judge decided; give the run")
    wanted = _metric(metric, filter(metrics_of(source).__contains__, METRICS))
    frames, samples = rounds(read_votes(source, wanted))
    rules, nothing = ScoringRules(metric=wanted), pl.DataFrame(schema=LABELS)
    return Sources(rules, [JuryBoard(votes_of(frame), nothing, rules) for frame in frames], samples=samples)


def _of_run(source: str, runs: Path, settings: Settings, metric: str | None, *, verdicts: bool) -> Sources:
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
        sources = Sources(replace(run.rules, metric=metric or run.rules.metric), is_run=True)
        sources.other_models, sources.notes = answered_by_others(run), reader_notes(run)
        sources.incomplete = incomplete_of(run)
        if not run.task.uses_jury:
            board = rule_board(run, sources.rules)
            sources.rule_marks, sources.span = board.marks, board.span
            return sources
        sources.rounds, sources.samples = jury_boards(run, sources.rules), dict(samples(run))
        sources.rules = sources.rounds[0].rules
        sources.jury = frozenset(judge.model.name for judge in run.manifest.panel())
        sources.other_judges = has_judges_of_another_model(run)
        sources.drift = judge_drift(run, sources.rules.metric)
        if verdicts:
            sources.judged, sources.annotated = judged(run, sources.rules.metric), joined(run)
            sources.verdicts = count_verdicts(run.folder.tables)
    return sources
