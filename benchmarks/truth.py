"""The gate: worlds that draw the truth first, played through the program's own functions and counted board by board.

A board's numbers hang on the seed, its world and its number only, so a table is made of as many short runs as it takes:
``--keep FILE`` adds the boards of a run to a file, ``--table FILE...`` prints what files hold.
"""

from __future__ import annotations

import json
import time
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from scipy.stats import rankdata

from layton_batch.scoring.boards import JuryBoard
from layton_batch.scoring.judge_quality import JudgeDrift, is_drift
from layton_batch.scoring.leaderboard import ScoringRules
from layton_batch.stats.counts import Counts, FloatArray
from layton_batch.stats.distributions import beta_binomial_pmf, beta_interval, shortest_set
from layton_batch.stats.ranks import Estimates, rank_ranges, score_ranks
from tests.stats.truth_worlds import WORLDS, draw, named
from tests.stats.worlds import Board

SEED = 20_261_125
COVERED, WORST, JOINT = 0.945, 0.88, 0.94
_Z = 1.96


@dataclass(frozen=True, slots=True)
class Played:
    """One board. Per model, in order: whether the interval on these items and the one for new items hold
    the truth, their half widths in points, and the half widths that the model's own labels alone give (None without
    labels). ``own``: the models that have labels; ``pairs``: shares of differences held; ``ranks``: whether all ranks
    are (both on these items and on new ones, None where nothing was drawn); ``seconds``: of the processor; ``warned``:
    whether answers that were judged again show drift."""

    world: str
    board: int
    own: list[bool]
    held: list[bool]
    width: list[float]
    held_new: list[bool]
    width_new: list[float]
    alone: list[float | None]
    alone_new: list[float | None]
    pairs: tuple[float, float] | None
    ranks: tuple[bool, bool] | None
    seconds: float
    warned: bool = False


def play(world: str, number: int, *, drawn: bool) -> Played:
    """Score board ``number`` of a world; ``drawn``: its differences and ranks as well."""
    rng = np.random.default_rng([SEED, zlib.crc32(world.encode()), number])
    board, declared = draw(WORLDS[world], rng), getattr(WORLDS[world], "wrong_labels", 0.0)
    warned, in_turn = _is_warned(board), getattr(WORLDS[world], "in_turn", False)
    rules = ScoringRules(label_error=declared, drifted=warned, unsure=board.unsure, in_turn=in_turn)
    jury_board = JuryBoard(*named(board), rules)
    begun = time.process_time()
    counts, posterior = jury_board.counts, jury_board.posterior
    on_these, on_new = posterior.here, posterior.new
    spent = time.process_time() - begun
    here, new = (board.here, board.new)
    alone, alone_new = _labels_alone(counts)
    return Played(
        world=world,
        board=number,
        own=(counts.own_labels.sum(axis=1) > 0).tolist(),
        held=_held(on_these, here),
        width=(100 * on_these.half_width).round(3).tolist(),
        held_new=_held(on_new, new),
        width_new=(100 * on_new.half_width).round(3).tolist(),
        alone=alone,
        alone_new=alone_new,
        pairs=(_pairs(on_these.draws, here), _pairs(on_new.draws, new)) if drawn and len(here) > 1 else None,
        ranks=(_ranks(on_these, here), _ranks(on_new, new)) if drawn else None,
        seconds=round(spent, 3),
        warned=warned,
    )


def _is_warned(board: Board) -> bool:
    """Return whether the verdicts on labelled answers that were judged again show that the judges drifted."""
    if board.anchors is None:
        return False
    before, now, right = board.anchors
    is_right, was_right = now == right[:, None], before == right[:, None]
    changes = (now & ~before, before & ~now, is_right & ~was_right, was_right & ~is_right)
    return is_drift([JudgeDrift("all", now.size, *(int(change.sum()) for change in changes), 1.0, 1.0)])


def _held(estimates: Estimates, truth: FloatArray) -> list[bool]:
    return ((estimates.lower - 1e-9 <= truth) & (truth <= estimates.upper + 1e-9)).tolist()


def _labels_alone(counts: Counts) -> tuple[list[float | None], list[float | None]]:
    """Half widths, in points, of the intervals that Jeffreys' prior and the model's own labels give without a jury, on
    these items (the labelled ones known) and for new ones."""
    labels, yes = counts.own_labels.sum(axis=1), counts.own_positives.sum(axis=1)
    alpha, beta = yes + 0.5, labels - yes + 0.5
    laws = beta_binomial_pmf(counts.items - labels, alpha, beta)
    first, last = np.array([shortest_set(law, 0.95) for law in laws]).T
    low, high = beta_interval(0.95, alpha, beta)
    here, new = 50 * (last - first) / counts.items, 50 * (high - low)
    return tuple(
        [round(float(w), 3) if count else None for w, count in zip(one, labels, strict=True)] for one in (here, new)
    )  # type: ignore[return-value]


def _pairs(draws: FloatArray, truth: FloatArray) -> float:
    first, second = np.triu_indices(len(truth), 1)
    low, high = np.quantile(draws[:, first] - draws[:, second], [0.025, 0.975], axis=0)
    gap = truth[first] - truth[second]
    return float(((low <= gap + 1e-9) & (gap <= high + 1e-9)).mean())


def _ranks(estimates: Estimates, truth: FloatArray) -> bool:
    ranks, rank = rank_ranges(estimates.draws, rank=score_ranks(estimates.score)), rankdata(-truth, method="min")
    return bool(((ranks.best <= rank) & (rank <= ranks.worst)).all())


# ---- the table -----------------------------------------------------------------------------------------------------


MOST = 4
"""Newcomers that stand in a cell one by one."""
COLUMNS = ("world", "boards", "own", "newcomers", "worst", "new: own", "new: newcomers", "± own",
           "± newcomers", "± new: own", "± new: newcomers", "/ labels",
           "/ labels, new", "pairs", "pairs, new", "ranks", "ranks, new", "s", "warned")  # fmt: skip


def table(played: Iterable[Played]) -> list[str]:
    """Lines of a Markdown table, one a world, and what falls short below it.

    Coverage has its Monte Carlo error (boards are independent, the models of a board are not); a cell falls short where
    even two errors more would not reach what is required. Newcomers stand model by model, of more than ``MOST`` the
    least; a mean would hide the one whom judges favour. ``/ labels``: the mean of an own model's half width over that
    of its labels alone.
    """
    cells: dict[str, dict[int, Played]] = {}
    for one in played:
        cells.setdefault(one.world, {})[one.board] = one
    order = {name: at for at, name in enumerate(WORLDS)}
    lines = [f"| {' | '.join(COLUMNS)} |", f"|---|{'---:|' * (len(COLUMNS) - 1)}"]
    short = []
    for world, boards in sorted(cells.items(), key=lambda cell: order.get(cell[0], 999)):
        values, missed = _cell(list(boards.values()))
        lines.append(f"| {world} | {len(boards)} | {' | '.join(values)} |")
        if missed:
            short.append(f"- {world}: {', '.join(missed)}")
    return [*lines, "", "what falls short, with two Monte Carlo errors allowed:", *short]


def _cell(boards: Sequence[Played]) -> tuple[list[str], list[str]]:
    own = np.array([board.own for board in boards])
    held, held_new = (np.array([getattr(board, name) for board in boards]) * 1.0 for name in ("held", "held_new"))
    width, width_new = (np.array([getattr(board, name) for board in boards]) for name in ("width", "width_new"))
    values, missed = [], []
    for name, hits, group in (("own", held, own), ("newcomers", held, ~own), ("worst", held, None),
                              ("new: own", held_new, own), ("new: newcomers", held_new, ~own)):  # fmt: skip
        if group is None:
            by_model = hits.mean(axis=0)
            share, least = float(by_model.min()), WORST
            error = (share * (1 - share) / len(boards)) ** 0.5
            values.append(f"{share:.2f}")
        elif "newcomers" in name or not group.any():
            value, short = _by_newcomer(hits[:, group[0]])
            values.append(value)
            missed += [f"{name} {share:.2f}" for share in short]
            continue
        else:
            share, error = _share(hits, group)
            least = COVERED
            values.append(f"{share:.3f} ({error:.3f})")
        if share + _Z * max(error, 0.5 / len(boards)) < least:
            missed.append(f"{name} {share:.3f}")
    for widths in (width, width_new):
        values += [f"{widths[group].mean():.2f}" if group.any() else "–" for group in (own, ~own)]
    for widths, name in ((width, "alone"), (width_new, "alone_new")):
        alone = np.array([[np.nan if w is None else w for w in getattr(board, name)] for board in boards])
        ratio = widths[own & (alone > 0)] / alone[own & (alone > 0)]
        values.append(f"{ratio.mean():.2f}" if ratio.size else "–")
    for name in ("pairs", "ranks"):
        found = np.array([getattr(board, name) for board in boards if getattr(board, name) is not None]) * 1.0
        values += [f"{v:.3f}" for v in found.mean(axis=0)] if found.size else ["–", "–"]
        if found.size:
            errors = found.std(axis=0) / len(found) ** 0.5
            pairs = zip((name, f"{name}, new"), found.mean(axis=0), errors, strict=True)
            missed += [f"{what} {v:.3f}" for what, v, e in pairs if v + _Z * max(e, 0.5 / len(found)) < JOINT]
    values.append(f"{np.mean([board.seconds for board in boards]):.2f}")
    values.append(f"{np.mean([board.warned for board in boards]):.2f}")
    return values, missed


def _by_newcomer(hits: FloatArray) -> tuple[str, list[float]]:
    """The share of hits [boards, models] of each model, and the shares that fall short; of many models in short."""
    boards, models = hits.shape
    shares = hits.mean(axis=0)
    if models > MOST:  # the least of many is low by chance alone
        return f"{shares.mean():.3f}, least {shares.min():.2f}", []
    errors = np.maximum(np.sqrt(shares * (1 - shares) / boards), 0.5 / boards)
    text = " · ".join(f"{share:.2f}" for share in shares.tolist())
    return text or "–", shares[shares + _Z * errors < COVERED].tolist()


def _share(hits: FloatArray, group: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> tuple[float, float]:
    """The share of hits in a group and its Monte Carlo error, by board."""
    count = int(group.sum())
    share = float(hits[group].sum()) / count
    by_board = np.where(group, hits - share, 0.0).sum(axis=1)
    return share, float((by_board**2).sum() ** 0.5) / count


def read(paths: Iterable[Path]) -> list[Played]:
    """The boards that files hold."""
    lines = [line for path in paths for line in path.read_text(encoding="utf-8").splitlines() if line]
    return [Played(**json.loads(line)) for line in lines]


def run(worlds: Sequence[str], boards: range, *, every: int, keep: Path | None, seconds: float) -> list[Played]:
    """Play the boards of some worlds, one world's after another's; boards whose number is a multiple of ``every`` are
    drawn as well (0: none). Boards that the file to ``keep`` holds are not played again. Stop after ``seconds``."""
    begun, found = time.monotonic(), read([keep]) if keep is not None and keep.exists() else []
    there = {(one.world, one.board) for one in found}
    for number in boards:
        for world in worlds:
            if (world, number) in there:
                continue
            if time.monotonic() - begun > seconds:
                return found
            one = play(world, number, drawn=bool(every) and number % every == 0)
            found.append(one)
            if keep is not None:
                with keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(one)) + "\n")
    return found
