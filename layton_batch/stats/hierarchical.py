"""One posterior for everything a jury board says: what a vote means for whom.

For an answer of model k whose jury gave vote b, log odds that a person says yes = a_b + slope (x_k - mean x) + g_fb +
m_kb. a_b: by vote, with a weak prior and rising with the share of yes; x_k: log odds of the accuracy that fits
the votes, for judges whose errors hang on the truth are fooled by weak models, slope ~ N(.5, .5^2); g_fb ~ N(0,
spread^2): the maker's own, the spread learnt; m_kb ~ N(0, .3^2): the model's own. Votes of other numbers of seats at
one share deviate by N(0, 1.5^2) from each other.

Given slope and spread this is a tree: vote, maker, model, labels. All log odds lie on one grid, messages go up and down
it, and every marginal is exact but for the grid; slope and spread are summed over. There are no draws in the fit. Given
the slope, a model's rates in different votes are taken as independent and each as the Beta distribution with its mean
and variance, so that the number of right answers has the exact law that the calibrated method has, summed over slopes.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from layton_batch.stats.label_table import LabelTable
from layton_batch.stats.strata import FloatArray, IntArray

STEP, REACH = 0.2, 10.0
GRID: FloatArray = np.arange(-REACH, REACH + STEP / 2, STEP)
SLOPE_MEAN, SLOPE_SD = 0.5, 0.5
SLOPES: FloatArray = np.arange(-0.75, 1.76, 0.25)
SPREADS: FloatArray = np.array([0.0, 0.15, 0.3, 0.6, 1.2, 2.4])
SPREAD_CHANCES: FloatArray = np.array([0.15, 0.27, 0.33, 0.2, 0.04, 0.01])  # about half normal with deviation .4
PRIOR_SPREAD, LEAST_RATE = 1.25, 0.03
OWN_SPREAD, SEAT_SPREAD, OTHER_JURY_SPREAD = 0.3, 1.5, 1.0
_NEGLIGIBLE = 1e-4  # weight of a cell of slope and spread that is left out
_FLOOR = 1e-300
_BLOCK = 256  # models at a time, so that thousands stay within memory
_LEAST_RELIABILITY = 0.3


def _softplus(x: FloatArray) -> FloatArray:
    return np.asarray(np.logaddexp(0.0, x), dtype=np.float64)


def kernel(spread: float) -> FloatArray:
    """[G, G] chance of column given row, for a normal deviation on the grid."""
    if spread <= 0:
        return np.eye(len(GRID))
    k = np.exp(-0.5 * ((GRID[None, :] - GRID[:, None]) / spread) ** 2)
    return np.asarray(k / k.sum(axis=1, keepdims=True))


OWN, SEAT, _OTHER_JURY = kernel(OWN_SPREAD), kernel(SEAT_SPREAD), kernel(OTHER_JURY_SPREAD)
MAKERS: FloatArray = np.stack([kernel(float(s)) for s in SPREADS])
_OWN_UP, _SEAT_UP = (np.ascontiguousarray(one.T) for one in (OWN, SEAT))
_MAKERS_UP = np.ascontiguousarray(MAKERS.transpose(0, 2, 1))


def _through(logs: FloatArray, kernel: FloatArray) -> FloatArray:
    """log of exp(logs) @ kernel; the last axis is the grid, or the last two with a stack of kernels."""
    top = logs.max(axis=-1, keepdims=True)
    found: FloatArray = np.exp(logs - top) @ kernel
    found += _FLOOR
    np.log(found, out=found)
    found += top
    return found


@dataclass(frozen=True, slots=True, eq=False)
class Upward:
    """What the labels say, for one slope: `own` [R, G] of rows (author, vote) as a function of the maker's log odds,
    `made` [M, G] of cells (maker, vote), and `likelihood` [R, G] of the rows' own log odds."""

    likelihood: FloatArray
    own: FloatArray
    made: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """The rows that have labels: `author`, `vote`, and `cell`: which (maker, vote) each belongs to; `of_row` [A, B']
    and `of_cell` [F, B'] find them again, -1 where there are none."""

    author: IntArray
    vote: IntArray
    cell: IntArray
    cell_vote: IntArray
    of_row: IntArray
    of_cell: IntArray

    @classmethod
    def of(cls, table: LabelTable) -> Rows:
        author, vote = np.nonzero(table.labels > 0)
        makers, votes = int(table.maker.max(initial=0)) + 1, len(table.yes)
        cells, cell = np.unique(table.maker[author] * votes + vote, return_inverse=True)
        of_row = np.full(table.labels.shape, -1, dtype=np.int64)
        of_row[author, vote] = np.arange(len(author))
        of_cell = np.full(makers * votes, -1, dtype=np.int64)
        of_cell[cells] = np.arange(len(cells))
        return cls(author, vote, cell, cells % votes, of_row, of_cell.reshape(makers, votes))


def upward(table: LabelTable, rows: Rows, shift: FloatArray) -> Upward:
    """Labels to makers; `shift` [A]: slope times ability, what is added to the grid for each author."""
    at = GRID + shift[rows.author, None]
    labels = table.labels[rows.author, rows.vote][:, None]
    positives = table.positives[rows.author, rows.vote][:, None]
    likelihood = positives * at - labels * _softplus(at)
    own = _through(likelihood, _OWN_UP)
    made = np.zeros((len(rows.cell_vote), len(GRID)))
    np.add.at(made, rows.cell, own)
    return Upward(likelihood, own, made)


@dataclass(frozen=True, slots=True, eq=False)
class Votes:
    """The log odds of the votes for one slope and every spread: `logs` [S, B', G] posteriors, `said` [S, M, G] what
    each (maker, vote) says of its vote, `heard` [S, B', G] what all of them say, `forward` [S, shares, G] for drawing,
    and `evidence` [S]."""

    logs: FloatArray
    said: FloatArray
    forward: FloatArray
    heard: FloatArray
    evidence: FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Shares:
    """Votes by share of yes: `of_vote` [B'], `alone` [B'] whether no other vote has its share, `judged` [shares]."""

    of_vote: IntArray
    alone: IntArray
    judged: IntArray
    value: FloatArray

    @classmethod
    def of(cls, table: LabelTable) -> Shares:
        share = np.where(table.total > 0, table.yes / np.maximum(table.total, 1), 2.0)
        values, of_vote, count = np.unique(np.round(share, 12), return_inverse=True, return_counts=True)
        alone, judged = (count[of_vote] == 1).astype(np.int64), (values < 2).astype(np.int64)
        return cls(of_vote, alone, judged, values.astype(np.float64))

    def prior(self) -> FloatArray:
        """[shares, G]: a rate of .03 to .97 for a share of 0 to 1, give or take what 95 % of juries surely lie within;
        of answers that nobody judged Jeffreys' prior."""
        rate = LEAST_RATE + (1 - 2 * LEAST_RATE) * np.minimum(self.value, 1)
        centre = np.log(rate / (1 - rate))
        weak = -0.5 * ((GRID - centre[:, None]) / PRIOR_SPREAD) ** 2
        return np.where(self.judged[:, None] > 0, weak, -0.5 * (_softplus(GRID) + _softplus(-GRID)))


def votes(rows: Rows, shares: Shares, up: Upward) -> Votes:
    """Makers to votes, votes to shares, up and down the rising shares, and back to votes."""
    count = len(shares.of_vote)
    said = _through(up.made[None], _MAKERS_UP)
    heard = np.zeros((len(SPREADS), count, len(GRID)))
    for cell, vote in enumerate(rows.cell_vote):
        heard[:, vote] += said[:, cell]
    node = np.zeros((len(SPREADS), len(shares.judged), len(GRID))) + shares.prior()
    shared = np.flatnonzero(shares.alone == 0)
    to_share = heard.copy()
    to_share[:, shared] = _through(heard[:, shared], _SEAT_UP)
    for vote, share in enumerate(shares.of_vote):
        node[:, share] += to_share[:, vote]
    forward, evidence, posterior = _rising(node, shares)
    logs = posterior[:, shares.of_vote]
    logs[:, shared] = _through(logs[:, shared] - to_share[:, shared], SEAT) + heard[:, shared]
    return Votes(logs, said, forward, heard, evidence)


def _rising(node: FloatArray, shares: Shares) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Forward messages, log evidence and posteriors of the shares' log odds, which rise with the share; that of answers
    nobody judged has no place in the order."""
    forward, backward = node.copy(), node.copy()
    posterior = node.copy()
    ordered = np.flatnonzero(shares.judged)
    for below, share in pairwise(ordered):
        forward[:, share] += np.logaddexp.accumulate(forward[:, below], axis=1)
    for above, share in pairwise(ordered[::-1]):
        backward[:, share] += np.logaddexp.accumulate(backward[:, above, ::-1], axis=1)[:, ::-1]
    for share in ordered:
        posterior[:, share] = forward[:, share] + backward[:, share] - node[:, share]
    ends = [*ordered[-1:], *np.flatnonzero(shares.judged == 0)]
    evidence = np.zeros(len(node))
    for share in ends:
        evidence = evidence + np.logaddexp.reduce(forward[:, share], axis=1)
    return forward, evidence, posterior


@dataclass(frozen=True, slots=True, eq=False)
class Fit:
    """`slopes` [L] that matter, `chances` [L, S] of slope and spread together; `parts` [L, N, K]: how likely each slope
    is with the model's ability by each of the `DOUBTS` off what its votes fit; `alpha`, `beta` [L, N, K, B]: the Beta
    distribution of each rate given both. `ability` [A]: less that of the labels' mean author; `learnt`
    [A]: that from which the slope is learnt."""

    table: LabelTable
    models: int
    ability: FloatArray
    learnt: FloatArray
    slopes: FloatArray
    chances: FloatArray
    parts: FloatArray
    alpha: FloatArray
    beta: FloatArray
    other_jury: bool

    @property
    def weights(self) -> FloatArray:
        """[L]"""
        return np.asarray(self.chances.sum(axis=1))

    def mean(self, values: FloatArray) -> FloatArray:
        """[K, ...] of values [L, N, K, ...] over slopes and abilities."""
        parts = self.parts.reshape(*self.parts.shape, *[1] * (values.ndim - 3))
        return np.asarray((parts * values).sum(axis=(0, 1)))


def fit(table: LabelTable, models: int, *, other_jury: bool = False) -> Fit:
    """The posterior of all rates of the first `models` authors; `other_jury`: the labels stand beside votes of another
    jury than theirs, so that every vote may mean something else by N(0, 1)."""
    rows, shares = Rows.of(table), Shares.of(table)
    weight = table.labels.sum(axis=1)
    scored = table.ability[:models]
    centre = float(np.average(table.ability, weights=weight)) if weight.any() else float(scored.sum() / max(models, 1))
    ability = table.ability - centre
    learnt = ability * _reliability(table, ability)
    ups = [upward(table, rows, slope * learnt) for slope in SLOPES]
    founds = [votes(rows, shares, up) for up in ups]
    evidence = np.stack([found.evidence for found in founds])
    prior = -0.5 * ((SLOPES - SLOPE_MEAN) / SLOPE_SD) ** 2
    logs = evidence + prior[:, None] + np.log(SPREAD_CHANCES)
    chance = np.exp(logs - logs.max())
    chance = np.where(chance / chance.sum() < _NEGLIGIBLE, 0.0, chance)
    kept = np.flatnonzero(chance.sum(axis=1) > 0)
    chance = chance[kept] / chance[kept].sum()
    found = []
    for at, likely in zip(kept, chance, strict=True):
        spreads = np.flatnonzero(likely)
        makers = _makers(table, rows, founds[at], spreads, other_jury)
        blocks = []
        for start in range(0, models, _BLOCK):
            part = np.arange(start, min(start + _BLOCK, models))
            message = _before(table, rows, part, ups[at], makers)
            blocks.append(_moments(table, part, SLOPES[at], ability[part], message, likely[spreads]))
        found.append([np.concatenate(one, axis=1) for one in zip(*blocks, strict=True)])
    parts, mean, square = (np.stack(part) for part in zip(*found, strict=True))
    size = np.maximum(mean * (1 - mean) / np.maximum(square - mean**2, 1e-15) - 1, 1e-3)
    return Fit(table, models, ability, learnt, SLOPES[kept], chance, parts, mean * size, (1 - mean) * size, other_jury)


def _reliability(table: LabelTable, ability: FloatArray) -> float:
    """The share of the spread of the labels' authors' abilities that is no error of theirs. Errors in what is regressed
    on make a slope too flat, and the more so the poorer the judges; so the slope is learnt from abilities that are
    drawn towards their mean by as much."""
    weight = table.labels.sum(axis=1)
    if not weight.any():
        return 1.0
    spread, error = (float(np.average(part**2, weights=weight)) for part in (ability, table.doubt))
    return float(np.clip(1 - error / max(spread, 1e-9), _LEAST_RELIABILITY, 1.0))


DOUBTS: FloatArray = np.array([-2.2, -1.1, 0.0, 1.1, 2.2])
DOUBT_CHANCES: FloatArray = np.array([0.0392, 0.2405, 0.4406, 0.2405, 0.0392])
"""Standard errors by which a model's ability may be off what its votes fit: a normal law. Two points, one above and one
below, would have the same variance, but where the judges are poor they leave out what a third of models are."""


def _moments(
    table: LabelTable,
    part: IntArray,
    slope: float,
    ability: FloatArray,
    message: FloatArray,
    chance: FloatArray,
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """For one slope and the models in `part`: its chance [N, K] with each of the `DOUBTS`, and the first and second
    moment [N, K, B] of every rate; by spread `message` [S, K, B, G], what all others say of it, and `chance` [S], the
    slope's with it."""
    before = _log_mass(message)
    weight = np.zeros((len(DOUBTS), len(part)))
    total = np.zeros((len(DOUBTS), len(part), len(table.place), 2))
    tops: FloatArray | None = None
    for side, off in enumerate(DOUBTS):
        shift = slope * (ability + off * table.doubt[part])
        logs = message + own_likelihood(table, part, shift)
        peak = logs.max(axis=-1, keepdims=True)
        density = np.exp(np.subtract(logs, peak, out=logs), out=logs)
        mass = density.sum(axis=-1)
        evidence = (np.log(mass) + peak[..., 0] - before).sum(axis=-1)
        tops = evidence[0] if tops is None else tops
        chances = chance[:, None] * DOUBT_CHANCES[side] * np.exp(np.clip(evidence - tops, -50, 50))
        rate = 1 / (1 + np.exp(-(GRID + shift[:, None])))
        weight[side] = chances.sum(axis=0)
        means = density @ np.stack([rate, rate**2], axis=-1) / mass[..., None]
        total[side] = (chances[..., None, None] * means).sum(axis=0)
    moments = total / weight[..., None, None]
    return chance.sum() * weight / weight.sum(axis=0), moments[..., 0], moments[..., 1]


def _log_mass(logs: FloatArray) -> FloatArray:
    """log of the sum of exp(logs) over the grid."""
    top = logs.max(axis=-1)
    return np.asarray(np.log(np.exp(logs - top[..., None]).sum(axis=-1)) + top)


def own_likelihood(table: LabelTable, models: IntArray, shift: FloatArray) -> FloatArray:
    """[K, B, G] of the models' own labels, at log odds less the shift [K]."""
    at = GRID + shift[:, None]
    labels, positives = (part[models][:, table.place] for part in (table.labels, table.positives))
    return np.asarray(positives[..., None] * at[:, None] - labels[..., None] * _softplus(at)[:, None])


def _makers(table: LabelTable, rows: Rows, found: Votes, spreads: IntArray, other_jury: bool) -> FloatArray:
    """[S, F, B, G] logs of what the votes and other makers say of every maker's rate, for one slope and by spread."""
    said = np.concatenate([found.said, np.zeros((len(found.said), 1, len(GRID)))], axis=1)[spreads]
    votes = found.logs[spreads][:, None, table.place]
    maker = _through(votes - said[:, rows.of_cell[:, table.place]], MAKERS[spreads][:, None])
    return _through(maker, _OTHER_JURY) if other_jury else maker


def _before(table: LabelTable, rows: Rows, part: IntArray, up: Upward, makers: FloatArray) -> FloatArray:
    """[S, K, B, G] logs of what all others say of every rate of the models in `part`, its log odds less its shift."""
    nothing = np.zeros((1, len(GRID)))
    made, own = (np.concatenate([one, nothing]) for one in (up.made, up.own))
    whose = table.maker[part]
    cell, row = rows.of_cell[whose][:, table.place], rows.of_row[part][:, table.place]
    return _through(makers[:, whose] + (made[cell] - own[row]), OWN)
