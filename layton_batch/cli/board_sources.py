"""Where a leaderboard's rows come from: runs, files of recorded predictions, or several of both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from layton_batch.errors import ManifestError
from layton_batch.leaderboard import METHODS, Ballot, Label, Row, Rules, rank_board
from layton_batch.settings import Settings

METRICS = ("both_correct", "answer_correct", "justification_correct")


def board_of(
    sources: Sequence[str], runs: Path, settings: Settings, method: str | None, metric: str | None, seed: int | None
) -> list[Row]:
    """One board over all sources. What is not asked for comes from the first run's manifest, else from the defaults.

    Raises ManifestError (unknown method or metric), DataError (bad file), StoreError (no such run).
    """
    ballots: list[Ballot] = []
    labels: dict[Label, None] = {}
    rules: Rules | None = None
    for source in sources:
        # a label that several sources carry is one label
        found = (
            _of_file(source, settings, metric) if Path(source).is_file() else _of_run(source, runs, settings, metric)
        )
        ballots += found[0]
        labels.update(dict.fromkeys(found[1]))
        rules = rules or found[2]
    asked = {"method": _known("method", method, METHODS), "metric": metric, "seed": seed}
    chosen = replace(rules or Rules(), **{key: value for key, value in asked.items() if value is not None})  # type: ignore[arg-type]
    return rank_board(ballots, list(labels), chosen)


_Found = tuple[list[Ballot], list[Label], Rules | None]


def _known(name: str, value: str | None, values: Sequence[str]) -> str | None:
    if value is not None and value not in values:
        raise ManifestError(f"--{name} {value!r}: one of {', '.join(values)}")
    return value


def _of_file(source: str, settings: Settings, metric: str | None) -> _Found:
    from layton_batch.gold import read_gold
    from layton_batch.gold_votes import ballots_of, labels_of

    wanted = _known("metric", metric, METRICS) or METRICS[0]
    gold = read_gold(source, settings.cwd, settings)
    return ballots_of(gold, wanted), labels_of(gold, wanted), None


def _of_run(source: str, runs: Path, settings: Settings, metric: str | None) -> _Found:
    from layton_batch.runs import find_run, read_run
    from layton_batch.stages.rank import evidence

    with read_run(find_run(source, runs), settings) as run:
        _known("metric", metric, tuple(run.task.metrics))
        rules = run.rules
        ballots, labels = evidence(run, metric or rules.metric)
    return ballots, labels, rules
