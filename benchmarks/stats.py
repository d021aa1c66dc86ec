"""The statistics alone: a published table, 5,000 and 100,000 models, and the paper's own bootstrap beside them."""

from __future__ import annotations

import resource
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from benchmarks.measure import DATA, told
from benchmarks.measure import best as quickest
from layton_batch.stats.hierarchical import fit
from layton_batch.stats.hierarchical_scores import hierarchical_scores
from layton_batch.stats.label_table import label_table
from layton_batch.stats.paper import paper_scores
from layton_batch.stats.ranks import paper_ranks
from layton_batch.stats.strata import GoldPredictions, Strata, TargetPredictions, build_strata
from tests.stats.boards import Board, read_lines

ITEMS, SEATS, GOLD_MODELS, PROVIDERS = 186, 3, 7, 5
LARGER, MANY = 1_000, ((5_000, 1.0, 2), (100_000, 5.0, 1))
"""Models of the larger boards; of the largest also the limit in seconds, and how often each is scored."""
ITERATIONS, PUBLISHED_ITERATIONS = 40, 10_000
REFERENCE_SECONDS = (15.9, 32.7)  # a model, 10,000 iterations of the published code, measured elsewhere


@dataclass(frozen=True)
class Rows:
    """A made-up board in narrow types."""

    target: TargetPredictions
    gold: GoldPredictions


def main() -> None:
    board = made_up(9)
    strata = build_strata(board.target, board.gold)
    told("table of 9 models, paper: scores and ranks", 1000 * best(lambda: paper_table(strata), 20), "ms", 5)
    larger = made_up(LARGER)
    counted = build_strata(larger.target, larger.gold)
    told(f"{LARGER:,} models x 186 items, hierarchical", best(lambda: hierarchical_table(larger, counted), 1), "s", 15)
    for models, limit, rounds in MANY:
        _many(models, limit=limit, rounds=rounds)
    told("peak memory of all this", resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, "MiB", 1024)
    _reference(board, strata)
    if (source := DATA / "ppi_llm.jsonl").exists():
        real = Board(read_lines(source.name), "both_correct")
        told("published table, hierarchical", 1000 * best(lambda: hierarchical_table(real, real.strata), 10), "ms", 200)
        told("table from ppi file, CPU", quickest(["leaderboard", str(source)]).cpu, "s", 1.5)


def hierarchical_table(board: Rows | Board, strata: Strata) -> object:
    """Both intervals by the hierarchical method."""
    table = label_table(board.target, board.gold, strata)
    return hierarchical_scores(strata, fit(table, len(strata.items)))


def made_up(models: int) -> Rows:
    """`models` x 186 predictions voted on by three judges; the first seven models have labels on 43 % of theirs."""
    rng = np.random.default_rng(20)
    strength = rng.uniform(0.1, 0.97, models).astype(np.float32)
    rows = models * ITEMS
    model = np.repeat(np.arange(models, dtype=np.int32), ITEMS)
    right = np.concatenate([rng.random(ITEMS, dtype=np.float32) < one for one in strength])
    contested = np.concatenate([rng.random(ITEMS, dtype=np.float32) < 0.05 for _ in strength])
    yes = right.astype(np.int8) * np.int8(SEATS)
    yes[contested] = np.where(right[contested], SEATS - 1, 1)
    target = TargetPredictions(
        model=model,
        item=np.tile(np.arange(ITEMS, dtype=np.int16), models),
        yes=yes,
        total=np.full(rows, SEATS, dtype=np.int8),
        known_zero=np.zeros(rows, dtype=np.bool_),
        provider=np.arange(models, dtype=np.int32) % PROVIDERS,
    )
    at = np.flatnonzero(rng.random(min(models, GOLD_MODELS) * ITEMS) < 0.43)
    label = right[at] ^ (rng.random(len(at)) < np.where(contested[at], 0.2, 0.004))
    gold = GoldPredictions(model[at], target.provider[model[at]], yes[at], target.total[at], label.astype(np.int8), at)
    return Rows(target, gold)


def paper_table(strata: Strata) -> None:
    rows = paper_scores(strata)
    paper_ranks([row.score for row in rows], [row.half_width for row in rows])


def best(work: Callable[[], object], rounds: int) -> float:
    """CPU seconds of the quickest round."""
    times = []
    for _ in range(rounds):
        begun = time.process_time()
        work()
        times.append(time.process_time() - begun)
    return min(times)


def held(work: Callable[[], object]) -> float:
    """MiB at most, besides what there was before."""
    tracemalloc.start()
    work()
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return most / 2**20


def _many(models: int, limit: float, rounds: int) -> None:
    board = made_up(models)
    strata = build_strata(board.target, board.gold)
    name = f"{models:,} models x {ITEMS} items"
    told(f"{name}, counting", best(lambda: build_strata(board.target, board.gold), rounds), "s", limit)
    told(f"{name}, paper and ranks", best(lambda: paper_table(strata), rounds), "s", limit)

    told(f"{name}, memory of both", held(lambda: paper_scores(build_strata(board.target, board.gold))), "MiB", 250)


def _reference(board: Rows, strata: Strata) -> None:
    """The paper's procedure as published, with polars doing the sampling, in this very process."""
    provider = board.gold.provider
    seconds = []
    for model in range(len(strata.items)):
        keep = provider != board.target.provider[model]
        gold = pl.DataFrame({"vote": board.gold.yes[keep] / SEATS, "label": board.gold.label[keep].astype(np.float64)})
        votes = board.target.yes[board.target.model == model] / SEATS
        begun = time.process_time()
        _bootstrap(gold, votes, ITERATIONS)
        seconds.append((time.process_time() - begun) / ITERATIONS * PUBLISHED_ITERATIONS)
    ours = best(lambda: paper_scores(strata), 20) / len(strata.items)
    _ratio(seconds, ours)


def _bootstrap(gold: pl.DataFrame, votes: npt.NDArray[np.float64], iterations: int) -> tuple[float, float]:
    """Per iteration: as many labelled rows of every vote as the model has, with replacement, into PPI++."""
    counts = dict(zip(*np.unique(votes, return_counts=True), strict=True))
    estimates = []
    for seed in range(iterations):
        parts = [
            gold.filter(pl.col("vote") == vote).sample(int(count), with_replacement=True, seed=seed)
            for vote, count in counts.items()
        ]
        drawn = pl.concat(parts)
        estimates.append(_ppi_plus_plus(drawn["label"].to_numpy(), drawn["vote"].to_numpy(), votes))
    low, high = np.quantile(estimates, (0.025, 0.975))
    return float(low), float(high)


def _ppi_plus_plus(
    label: npt.NDArray[np.float64], vote: npt.NDArray[np.float64], votes: npt.NDArray[np.float64]
) -> float:
    spread = (1 + len(vote) / len(votes)) * np.concatenate([vote, votes]).var(ddof=1)
    covariance = ((label - label.mean()) * (vote - vote.mean())).mean()
    weight = np.clip(covariance / spread, 0, 1) if spread > 0 else 0.0
    return float(weight * votes.mean() + (label - weight * vote).mean())


def _ratio(seconds: Sequence[float], ours: float) -> None:
    mean = sum(seconds) / len(seconds)
    print(f"{'the paper by sampling with polars, a model':44} {mean:9.2f} s    ({PUBLISHED_ITERATIONS:,} iterations, "
          f"from {ITERATIONS}; the published code took {REFERENCE_SECONDS[0]}-{REFERENCE_SECONDS[1]} s)")  # fmt: skip
    print(f"{'the same law exactly, a model':44} {1000 * ours:9.3f} ms   {mean / ours:,.0f} times faster")
