"""Where a leaderboard's rows come from: runs, files of recorded predictions, or several of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from layton_batch.errors import ManifestError
from layton_batch.scoring.board import (
    OTHER_JURY,
    OTHER_MODEL,
    BoardRow,
    rank_board,
    rank_marks,
    with_flag,
)
from layton_batch.scoring.evidence import Ballot, ItemScores, Judged, Label
from layton_batch.scoring.rules import HIERARCHICAL, METHODS, Rules
from layton_batch.settings import Settings
from layton_batch.stats.distributions import MAX_LEVEL

METRICS = ("both_correct", "answer_correct", "justification_correct")


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for; None: as the first run's manifest has it, else the default.

    ``level`` and ``provider_shift`` are fractions and standard deviations of log odds, as in ``Rules``.
    """

    method: str | None = None
    metric: str | None = None
    seed: int | None = None
    level: float | None = None
    provider_shift: float | None = None

    def check(self) -> None:
        """Raises ManifestError for what no board can be scored by."""
        if self.level is not None and not 0 < self.level <= MAX_LEVEL:
            raise ManifestError(f"--level {self.level:g}: a number above 0 and below 1, such as 0.95")
        shift = self.provider_shift
        if shift is not None and not (math.isfinite(shift) and shift >= 0):
            raise ManifestError(f"--provider-shift {shift:g}: 0 (providers are alike) or more, such as 0.25")
        if self.seed is not None and self.seed < 0:
            raise ManifestError(f"--seed {self.seed}: 0 or more")
        _known("method", self.method, METHODS)

    def rules(self, found: Rules) -> Rules:
        """The rules of the sources with what was asked for in their place. Raises ManifestError as ``check``."""
        self.check()
        names = ("method", "metric", "seed", "level", "provider_shift")
        chosen = {name: value for name in names if (value := getattr(self, name)) is not None}
        rules = replace(found, **chosen)
        if rules.method == "paper" and (self.level not in (None, 0.95) or self.provider_shift is not None):
            raise ManifestError("--level and --provider-shift: the paper's method has its own; use --method calibrated")
        if rules.method == HIERARCHICAL and self.provider_shift is not None:
            raise ManifestError("--provider-shift: the hierarchical method learns it; use --method calibrated")
        return rules


@dataclass(slots=True)
class Sources:
    """Everything several sources hold on one metric: a jury's votes and people's labels, or a rule's marks."""

    rules: Rules
    ballots: list[Ballot] = field(default_factory=list)
    labels: list[Label] = field(default_factory=list)
    sheets: list[ItemScores] = field(default_factory=list)
    judged: list[Judged] = field(default_factory=list)
    judge_families: dict[str, str] = field(default_factory=dict)
    jury: frozenset[str] = frozenset()
    other_jury: bool = False
    """Some of the labels stand beside votes of another jury than the votes on the models that are ranked."""
    other_models: frozenset[str] = frozenset()
    """Models of whom another model gave some of the answers."""


def board_of(
    sources: Sequence[str],
    runs: Path,
    settings: Settings,
    method: str | None = None,
    metric: str | None = None,
    seed: int | None = None,
    level: float | None = None,
    provider_shift: float | None = None,
) -> list[BoardRow]:
    """One board over all sources. What is not asked for comes from the first run's manifest, else from the defaults.

    Raises ManifestError (unknown method or metric), DataError (bad file), StoreError (no such run).
    """
    found = read_sources(sources, runs, settings, Asked(method, metric, seed, level, provider_shift))
    if found.sheets:
        rows = rank_marks(found.sheets, found.rules)
    else:
        rows = rank_board(found.ballots, found.labels, found.rules)
    rows = with_flag(rows, OTHER_JURY) if found.other_jury else rows
    return with_flag(rows, OTHER_MODEL, found.other_models)


def read_sources(
    sources: Sequence[str], runs: Path, settings: Settings, asked: Asked, *, verdicts: bool = False
) -> Sources:
    """All sources together; with ``verdicts`` also every judge's by name. Raises as ``board_of``."""
    asked.check()
    metric = asked.metric
    parts: list[Sources] = []
    for source in sources:
        read = _of_file if _is_file(source) else _of_run
        parts.append(read(source, runs, settings, metric, verdicts))
        metric = parts[0].rules.metric  # a board has one metric: what is asked for, else the first source's
    of_runs = [part.rules for part, source in zip(parts, sources, strict=True) if not _is_file(source)]
    found = Sources(replace(asked.rules((of_runs or [parts[0].rules])[0]), metric=parts[0].rules.metric))
    for part in parts:
        found.ballots += part.ballots
        found.sheets += part.sheets
        found.judged += part.judged
        found.judge_families |= part.judge_families
        found.other_models |= part.other_models
    # a label that several sources carry is one label
    found.labels = list(dict.fromkeys(label for part in parts for label in part.labels))
    juries = [part.jury for part in parts if part.jury]
    mixed = any(not (one <= other or other <= one) for one in juries for other in juries)
    found.other_jury = any(part.other_jury for part in parts) or (mixed and bool(found.labels))
    found.rules = replace(found.rules, other_jury=found.other_jury)
    if found.sheets and found.ballots:
        raise ManifestError("some sources are graded by rule and some by a jury: rank them separately")
    return found


def _is_file(source: str) -> bool:
    return "://" in source or Path(source).is_file()


def _known(name: str, value: str | None, values: Sequence[str]) -> str | None:
    if value is not None and value not in values:
        raise ManifestError(f"--{name} {value!r}: one of {', '.join(values)}")
    return value


def _of_file(source: str, runs: Path, settings: Settings, metric: str | None, verdicts: bool) -> Sources:
    from layton_batch.scoring.gold import ballots_of, judged_of, labels_of, read_gold

    wanted = _known("metric", metric, METRICS) or METRICS[0]
    gold = read_gold(source, settings.cwd, settings)
    judged = judged_of(gold, wanted) if verdicts else []
    jury = frozenset(gold.judges)
    return Sources(Rules(metric=wanted), ballots_of(gold, wanted), labels_of(gold, wanted), judged=judged, jury=jury)


def _of_run(source: str, runs: Path, settings: Settings, metric: str | None, verdicts: bool) -> Sources:
    from layton_batch.run.open import find_run, read_run
    from layton_batch.stages.rank import answered_by_others, evidence, has_labels_of_another_jury, item_scores, judged

    with read_run(find_run(source, runs), settings) as run:
        _known("metric", metric, tuple(run.task.metrics))
        found = Sources(replace(run.rules, metric=metric or run.rules.metric))
        found.other_models = answered_by_others(run)
        if not run.task.uses_jury:
            found.sheets = item_scores(run, found.rules.metric)
            return found
        found.ballots, found.labels = evidence(run, found.rules.metric)
        found.jury = frozenset(judge.model.name for judge in run.manifest.panel())
        found.other_jury = has_labels_of_another_jury(run)
        if verdicts:
            found.judged = judged(run, found.rules.metric)
            found.judge_families = {judge.model.name: judge.model.family for judge in run.manifest.panel()}
    return found
