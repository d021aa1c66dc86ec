"""Rank: from votes and human labels to the leaderboard. Recomputed whenever another model is done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

import polars as pl

from layton_batch import tables
from layton_batch.gold_votes import labels_of
from layton_batch.leaderboard import Ballot, Entrant, Label, Row, Rules, content_key, rank_board
from layton_batch.records import Job
from layton_batch.run import Run
from layton_batch.stages.readiness import finished
from layton_batch.states import PredictionKind


def rank(run: Run) -> bool:
    """Write ``tables/leaderboard`` when the set of scored models has changed."""
    done = [job for job in finished(run.store.jobs()) if run.folder.part("scores", job.id).exists()]
    path = run.folder.part("leaderboard", "leaderboard")
    if not done or (path.exists() and _models(path) == {job.spec.name for job in done}):
        return False
    write_board(run, board(run, run.rules))
    return True


def _models(path: Path) -> set[str]:
    return set(pl.read_parquet(path, columns=["model"])["model"])


def board(run: Run, rules: Rules) -> list[Row]:
    """The leaderboard of the models that are done, by these rules."""
    ballots, labels = evidence(run, rules.metric)
    return rank_board(ballots, labels, rules)


def evidence(run: Run, metric: str) -> tuple[list[Ballot], list[Label]]:
    """The votes on the models that are done, and the gold set's labels."""
    done = [job for job in finished(run.store.jobs()) if run.folder.part("scores", job.id).exists()]
    gold = run.load_gold()
    ballots = [ballot for job in done for ballot in _ballots(run, job, metric)]
    return ballots, labels_of(gold, metric) if gold else []


def write_board(run: Run, rows: Sequence[Row]) -> None:
    """Replace the run's leaderboard table."""
    table = tables.frame("leaderboard", [asdict(row) for row in rows])
    tables.write(run.folder.part("leaderboard", "leaderboard"), table)


def _ballots(run: Run, job: Job, metric: str) -> list[Ballot]:
    votes = pl.read_parquet(run.folder.part("scores", job.id)).filter(pl.col("metric") == metric)
    columns = ["item_id", "kind", "answer", "justification"]
    said = pl.read_parquet(run.folder.part("predictions", job.id), columns=columns)
    entrant = Entrant(job.spec.name, job.spec.provider, run.manifest.items.hints)
    joined = votes.join(said, on="item_id", how="left", maintain_order="left")
    return [_ballot(entrant, row) for row in joined.iter_rows(named=True)]


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
