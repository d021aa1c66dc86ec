"""One posterior from votes and labels together: what a vote means for whom, and how good each model is.

Model k has an ability x_k: the log odds of its accuracy less those of the reference, the scored models that have
labels. For an answer of model k with vote b

    log odds that a person says yes = a_b + slope x_k + u_kb,    u_kb ~ N(0, own^2)
    chance of vote b ~ v_b exp(kindness_f yes_b + (1 - slope) x_k t_b) [1 - p_b + p_b exp(slope x_k)]

with a_b rising with the share of yes, p_b the rate of a_b, v_b the votes of the reference, and kindness_f ~ N(0, spread
of kindness^2): by how much judges are kinder to maker f, in log odds of a judge's yes. Of a maker without labels the
spread is `UNKNOWN_KINDNESS`: the makers that people labelled say nothing sure of it. At slope 1 judges err alike on
everybody's answers, so that the same vote means more for a better model. At slope 0 a vote means the same for all, and
a better model gets more votes of yes. t_b is such that x_k moves the accuracy by as much in both. Votes are compared
with votes of as many seats only, for how many judges sat says nothing; but where a third judge is asked only if two
differ (`in_turn`), votes of two and of three are compared together. A model's votes count as an overdispersed
sample, worth `VOTE_SIZE` items at most, since no model's votes follow the formula exactly.

What all models share (a, slope, spreads) is represented by points: trials from a fixed stream, moved and stretched
until they fit the posterior (adaptive importance sampling), so that equal input gives equal digits. Given a point
everything is a sum over grids, of abilities by model and of kindness by maker. Only models with labels teach the points
anything.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from layton_batch.stats.counts import BoolArray, Counts, FloatArray, IntArray
from layton_batch.stats.distributions import two_sided_quantile

STEP, REACH = 0.3, 6.0
ABILITIES: FloatArray = np.arange(-REACH, REACH + STEP / 2, STEP)
ABILITY_SPREAD = 1.5
SLOPE_MEAN, SLOPE_SD = 0.5, 0.5
UNKNOWN_SLOPE = 1.0
"""Mean of the slope where labels on at most one model say nothing of it: judges may err alike on all answers."""
VOTE_SPREAD, LEAST_RATE, SEAT_SPREAD = 1.25, 0.03, 1.5
OWN_SPREAD, KINDNESS_SPREAD = 0.35, 0.4  # scales of half-normal priors
UNKNOWN_KINDNESS = 0.7
"""Deviation of the kindness to a maker of whose models no answer has a label."""
OTHER_JURY_SPREAD = 1.0
DRIFT_SPREAD = 1.0
"""Deviation of what a vote means by now, where judges do not judge as they did when people labelled."""
UNSURE_SPREAD = 1.0
"""Deviation of the half normal by which log odds are lower of answers that people are unsure about."""
VOTE_SIZE = 150.0
POINTS = 128
"""Equally weighted points of the posterior that all scores and draws are made of."""
_TEACHERS = 64
"""Most authors whose labels move the points: more would say little more of what all models share."""
_FIRST_TRIALS, _TRIALS, _ROUNDS, _TAILS = 128, 256, 12, 8
_CANDIDATES = 32  # for every trial: most are thrown away where many log odds have to rise and few labels say so
_CELLS = 400_000  # of an array worked on at once: what a processor has at hand
_MOST_TILT = 8.0
_FLOOR = 1e-300
_NO_CHANCE = -25.0  # log chance of an ability, against the likeliest, without which a model's states can do


def _normal_nodes(count: int) -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.hermite_e.hermegauss(count)
    return nodes, weights / weights.sum()


_OWN, _OWN_CHANCES = _normal_nodes(5)
_OWN_MANY, _OWN_MANY_CHANCES = _normal_nodes(15)
_KIND: FloatArray = np.linspace(-3, 3, 13)  # even steps: with 11 nodes of Gauss, spreads of newcomers were 3 to 6 % off
_KIND_CHANCES: FloatArray = np.exp(-0.5 * _KIND**2) / np.exp(-0.5 * _KIND**2).sum()
_ABILITY_LOGS: FloatArray = -0.5 * (ABILITIES / ABILITY_SPREAD) ** 2
_ABILITY_LOGS = _ABILITY_LOGS - np.log(np.exp(_ABILITY_LOGS).sum())


def _sigmoid(x: FloatArray) -> FloatArray:
    return np.asarray(1 / (1 + np.exp(-x)))


def _log_sum(logs: FloatArray, axis: int) -> FloatArray:
    top = logs.max(axis=axis, keepdims=True)
    return np.asarray(np.log(np.exp(logs - top).sum(axis=axis)) + np.squeeze(top, axis))


@dataclass(frozen=True, slots=True, eq=False)
class Parameters:
    """M values of what models share: `odds` [M, V] log odds a_b, `slope`, `own` and `kindness` (spreads) [M] each."""

    odds: FloatArray
    slope: FloatArray
    own: FloatArray
    kindness: FloatArray


@dataclass(frozen=True, eq=False)
class Evidence:
    """The counts of a board and their likelihood; `label_error`: the chance that a label is the opposite of what is
    right; `in_turn`: a third judge is asked only if two differ."""

    counts: Counts
    label_error: float = 0.0
    in_turn: bool = False

    @cached_property
    def labelled(self) -> IntArray:
        """[L] the authors that have labels."""
        return np.flatnonzero(self.counts.is_labelled)

    @cached_property
    def teachers(self) -> IntArray:
        """[T] the labelled authors whose labels move the points: all, or of many a random choice."""
        return np.sort(np.random.default_rng(0).permutation(self.labelled)[:_TEACHERS])

    @cached_property
    def has_known_maker(self) -> BoolArray:
        """[A] authors whose maker has labels."""
        return np.isin(self.counts.maker, self.counts.maker[self.labelled])

    @cached_property
    def worth(self) -> FloatArray:
        """[A, V] votes of every scored model, by what they are worth together."""
        items = self.counts.votes
        return np.asarray(items * ((1 + VOTE_SIZE) / (items.sum(axis=1) + VOTE_SIZE))[:, None])

    @cached_property
    def group(self) -> IntArray:
        """[V] number of the votes that a vote is compared with: the seats, and with `in_turn` 3 also for two."""
        total = self.counts.total
        return np.where(total == 2, 3, total) if self.in_turn else total

    @cached_property
    def groups(self) -> list[IntArray]:
        """The votes that are compared with each other."""
        return [np.flatnonzero(self.group == number) for number in np.unique(self.group)]

    @cached_property
    def reference(self) -> FloatArray:
        """[V] votes of the models by which ability 0 is set, each weighed by its labels."""
        items = self.counts.votes[: self.counts.models]
        weight = self.counts.labels[: self.counts.models].sum(axis=1)
        weight = weight if weight.any() else np.ones(len(items))
        size = np.maximum(items.sum(axis=1), 1)
        return np.asarray((weight[:, None] * items / size[:, None]).sum(axis=0) / max(weight.sum(), 1.0) * size.mean())

    # ---- votes

    def vote_logs(self, points: Parameters) -> FloatArray:
        """[M, kindness, abilities, V] log chance of every vote among those of as many seats."""
        logs = np.zeros((len(points.slope), len(_KIND), len(ABILITIES), len(self.counts.yes)))
        judged = [group for group in self.groups if self.counts.total[group[0]] > 0]
        with_reference = [group for group in judged if self.reference[group].sum() > 0.5] or judged
        rates = _sigmoid(points.odds)
        accuracy = _mean_rate(rates, self.reference + 1e-6, np.concatenate(with_reference)) if with_reference else None
        for group in judged:
            if len(group) > 1 and accuracy is not None:
                rate = rates[:, group]
                share = self._baseline(group, rate, accuracy)
                logs[..., group] = _vote_logs(points, rate, share, self.counts.yes[group], self.counts.total[group])
        return logs

    def _baseline(self, group: IntArray, rate: FloatArray, accuracy: FloatArray) -> FloatArray:
        """[M, votes] shares of the votes at ability 0. Where the reference has none of as many seats, they are those of
        the models that have, less what these votes say of their ability."""
        smooth = 0.5 / len(group)
        if self.reference[group].sum() > 0.5:
            share = self.reference[group] + smooth
            return np.broadcast_to(share / share.sum(), rate.shape)
        seen = self.counts.votes[:, group].sum(axis=0) + smooth
        seen = seen / seen.sum()
        odds = np.ones(len(rate))
        for _ in range(20):
            right = rate * odds[:, None] / (1 - rate + rate * odds[:, None])
            mean = np.clip(right @ seen, 1e-4, 1 - 1e-4)
            odds = np.clip(mean / (1 - mean) * (1 - accuracy) / accuracy, 0.01, 100)
        share = seen / (1 - rate + rate * odds[:, None])
        return np.asarray(share / share.sum(axis=1, keepdims=True))

    def vote_evidence(self, logs: FloatArray, authors: IntArray) -> FloatArray:
        """[M, kindness, abilities, authors]"""
        shape = logs.shape[:3]
        evidence = logs.reshape(math.prod(shape), logs.shape[3]) @ self.worth[authors].T
        return evidence.reshape(*shape, len(authors))

    # ---- labels

    def label_evidence(self, points: Parameters, authors: IntArray) -> FloatArray:
        """[M, abilities, authors] log likelihood of the authors' labels. Authors with equal labels are of one kind."""
        labels, positives = self.counts.labels[authors], self.counts.positives[authors]
        logs = np.zeros((len(points.slope), len(ABILITIES), len(authors)))
        for vote in np.flatnonzero(labels.any(axis=0)):
            whose = np.flatnonzero(labels[:, vote])
            given = np.stack([labels[whose, vote], positives[whose, vote]])
            kinds, kind = np.unique(given, axis=1, return_inverse=True)
            density, top = self.label_density(_log_odds(points, int(vote), ABILITIES, _OWN), *kinds)
            by_kind = np.log(density @ _OWN_CHANCES + _FLOOR) + top
            logs[..., whose] += by_kind.swapaxes(1, 2)[..., kind]
        return logs

    def label_density(self, at: FloatArray, labels: IntArray, positives: FloatArray) -> tuple[FloatArray, FloatArray]:
        """[M, kinds, abilities, own] likelihood of `labels` [kinds], of which `positives` are yes, over its greatest,
        where the log odds of yes are `at` [M, abilities, own]; and the log of the greatest [M, kinds, 1]."""
        if self.label_error:
            labelled_yes = self.label_error + (1 - 2 * self.label_error) * _sigmoid(at)
            lost = -np.log1p(-labelled_yes)
            at = np.log(labelled_yes) + lost
        else:
            lost = np.log1p(np.exp(-np.abs(at))) + np.maximum(at, 0)
        logs = positives[:, None, None] * at[:, None]
        logs -= labels[:, None, None] * lost[:, None]
        top = logs.max(axis=(2, 3), keepdims=True)
        logs -= top
        return np.exp(logs, out=logs), top[..., 0]

    # ---- together

    def by_maker(self, points: Parameters) -> FloatArray:
        """[M] log likelihood of the teachers' labels and votes."""
        authors = self.teachers
        if not len(authors):
            return np.zeros(len(points.slope))
        logs = self.author_evidence(points, self.vote_logs(points), authors)
        return np.asarray(_log_sum(self.maker_evidence(logs, authors), 1).sum(axis=1))

    def author_evidence(self, points: Parameters, vote_logs: FloatArray, authors: IntArray) -> FloatArray:
        """[M, kindness, authors] log likelihood of an author's votes and labels, its ability summed over."""
        return _log_sum(self.ability_logs(points, vote_logs, authors), 2)

    def ability_logs(self, points: Parameters, vote_logs: FloatArray, authors: IntArray) -> FloatArray:
        """[M, kindness, abilities, authors] the same by ability, with the prior of the ability."""
        logs = self.vote_evidence(vote_logs, authors)
        logs += (_ABILITY_LOGS[:, None] + self.label_evidence(points, authors))[:, None]
        return logs

    def maker_evidence(self, logs: FloatArray, authors: IntArray) -> FloatArray:
        """[M, kindness, makers] of [M, kindness, authors], with the prior of the kindness; makers without one of the
        authors have the prior only."""
        by_maker = np.zeros((*logs.shape[:2], int(self.counts.maker.max(initial=0)) + 1))
        for at, maker in enumerate(self.counts.maker[authors].tolist()):
            by_maker[..., maker] += logs[..., at]
        return by_maker + np.log(_KIND_CHANCES)[:, None]


def _log_odds(points: Parameters, vote: int, abilities: FloatArray, nodes: FloatArray) -> FloatArray:
    """[M, abilities, own] log odds that a person says yes to an answer with this vote."""
    at = points.odds[:, vote, None] + points.slope[:, None] * abilities
    return np.asarray(at[..., None] + points.own[:, None, None] * nodes)


def _mean_rate(rates: FloatArray, weight: FloatArray, votes: IntArray) -> FloatArray:
    mean = rates[:, votes] @ weight[votes] / weight[votes].sum()
    return np.asarray(np.clip(mean, 1e-4, 1 - 1e-4))


def _vote_logs(points: Parameters, rate: FloatArray, share: FloatArray, yes: IntArray, total: IntArray) -> FloatArray:
    """[M, kindness, abilities, votes] of votes that are compared; `rate`, `share` [M, votes]."""
    mean = np.clip((share * rate).sum(axis=1, keepdims=True), 1e-4, 1 - 1e-4)
    variance = (share * (rate - mean) ** 2).sum(axis=1, keepdims=True)
    tilt = (rate - mean) * np.minimum(mean * (1 - mean) / np.maximum(variance, 1e-9), _MOST_TILT)
    kinder = yes - total * (share * yes).sum(axis=1, keepdims=True) / (share * total).sum(axis=1, keepdims=True)
    sloped = np.minimum(points.slope, 1)[:, None] * ABILITIES  # beyond 1 better models would get fewer votes of yes
    flat = ABILITIES - sloped
    ability = np.log((1 - rate)[:, None] + rate[:, None] * np.exp(sloped)[..., None]) + flat[..., None] * tilt[:, None]
    kindness = (points.kindness[:, None] * _KIND)[..., None] * kinder[:, None]
    logs = (np.log(share)[:, None] + ability)[:, None] + kindness[:, :, None]
    return np.asarray(logs - _log_sum(logs, -1)[..., None])


# ---- what all models share -----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class _Prior:
    """The prior of the points, as one vector each: log odds by share of yes, deviations of votes of other numbers of
    seats at one share, log odds of answers nobody judged, slope, and both spreads, whose signs say nothing."""

    counts: Counts

    @cached_property
    def _shares(self) -> tuple[FloatArray, IntArray]:
        values, of_vote = np.unique(np.round(self.counts.share, 12), return_inverse=True)
        return np.asarray(values[values < 2], dtype=np.float64), of_vote.astype(np.int64)

    @cached_property
    def centre(self) -> FloatArray:
        """[shares] a rate of .03 to .97 for a share of 0 to 1."""
        rate = LEAST_RATE + (1 - 2 * LEAST_RATE) * self._shares[0]
        return np.asarray(np.log(rate / (1 - rate)))

    @property
    def slope(self) -> float:
        return SLOPE_MEAN if self.counts.is_labelled.sum() > 1 else UNKNOWN_SLOPE

    @cached_property
    def _seated(self) -> IntArray:
        """Votes whose share other votes have too."""
        of_vote = self._shares[1]
        return np.flatnonzero((np.bincount(of_vote)[of_vote] > 1) & (self.counts.total > 0))

    @property
    def size(self) -> int:
        return len(self.centre) + len(self._seated) + int((self.counts.total == 0).sum()) + 3

    def _parts(self, vectors: FloatArray) -> list[FloatArray]:
        """Log odds by share, deviations by seats, log odds of answers nobody judged, slope, spreads."""
        shares = len(self.centre)
        return np.split(vectors, [shares, shares + len(self._seated), self.size - 3, self.size - 2], axis=1)

    def points(self, vectors: FloatArray) -> Parameters:
        by_share, by_seats, unjudged, slope, spreads = self._parts(vectors)
        judged = self.counts.total > 0
        odds = np.zeros((len(vectors), len(judged)))
        odds[:, judged] = by_share[:, self._shares[1][judged]]
        odds[:, self._seated] += SEAT_SPREAD * by_seats
        odds[:, ~judged] = unjudged
        own, kindness = OWN_SPREAD * np.abs(spreads[:, 0]), KINDNESS_SPREAD * np.abs(spreads[:, 1])
        return Parameters(np.clip(odds, -25, 25), slope[:, 0], own, kindness)

    def logs(self, vectors: FloatArray) -> FloatArray:
        """[M] log density, minus infinity where the log odds do not rise with the share."""
        by_share, by_seats, unjudged, slope, spreads = self._parts(vectors)
        logs = -0.5 * (((by_share - self.centre) / VOTE_SPREAD) ** 2).sum(axis=1) - 0.5 * (by_seats**2).sum(axis=1)
        logs -= 0.5 * (np.logaddexp(0, unjudged) + np.logaddexp(0, -unjudged)).sum(axis=1)  # Jeffreys
        logs -= 0.5 * ((slope[:, 0] - self.slope) / SLOPE_SD) ** 2 + 0.5 * (spreads**2).sum(axis=1)
        return np.where((np.diff(by_share, axis=1) < 0).any(axis=1), -np.inf, logs)

    def guess(self) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviations of the first trials, by all labels alike."""
        labels, positives = self.counts.labels.sum(axis=0), self.counts.positives.sum(axis=0)
        shares = len(self.centre)
        mean, deviation = np.zeros(self.size), np.ones(self.size)
        for at in range(shares):
            votes = np.flatnonzero(self._shares[1] == at)
            count = labels[votes].sum()
            rate = (positives[votes].sum() + 2 * _sigmoid(self.centre[at])) / (count + 2)
            mean[at] = np.log(rate / (1 - rate))
            deviation[at] = (1 / (0.5 * count * rate * (1 - rate) + 1 / VOTE_SPREAD**2) + 0.01) ** 0.5
        mean[:shares] = np.maximum.accumulate(mean[:shares]) + 0.05 * np.arange(shares)
        mean[-3], deviation[-3] = self.slope, SLOPE_SD
        return mean, deviation


def _sampled(evidence: Evidence, points: int) -> Parameters:
    """Return so many points of equal weight, by rising slope.

    Each round makes trials of a t distribution, weighs them by the posterior over its density, and fits the next one to
    them. Weights are flattened while too few trials would carry all of it.
    """
    prior = _Prior(evidence.counts)
    mean, deviation = prior.guess()
    spread = np.diag(deviation**2)
    count = _FIRST_TRIALS
    for turn in range(_ROUNDS):
        trials, density = _trials(prior, mean, spread, count, turn)
        logs = prior.logs(trials) + _likelihood(evidence, prior, trials) - density
        weight, is_plain = _flattened(logs, max(0.1 * len(logs), 1.5 * prior.size))
        worth = 1 / (weight**2).sum()
        if is_plain and count == _TRIALS and worth > 0.4 * len(logs):
            break
        mean = weight @ trials
        around = (trials - mean).T @ ((trials - mean) * weight[:, None])
        spread = 1.2 * around + 0.02 * np.diag(np.diag(around))
        if is_plain:
            count = _TRIALS
    weight = np.minimum(weight, weight.mean() * len(weight) ** 0.5)
    order = np.argsort(trials[:, -3], kind="stable")
    reached = np.cumsum(weight[order])
    wanted = (np.arange(points) + 0.5) / points * reached[-1]
    return prior.points(trials[order[np.minimum(np.searchsorted(reached, wanted), len(order) - 1)]])


def _trials(
    prior: _Prior, mean: FloatArray, spread: FloatArray, count: int, turn: int
) -> tuple[FloatArray, FloatArray]:
    """`count` trials of a t distribution whose log odds rise with the share; their log density without its constant.

    Fewer where so few of many rise; `mean` does, so that closer to it some do.
    """
    root = np.linalg.cholesky(spread + 1e-6 * np.eye(prior.size))
    for nearer, many in ((1.0, 2), *((0.5**n, _CANDIDATES) for n in range(40))):
        steps = _steps(many * count, prior.size, turn)
        trials = mean + nearer * steps @ root.T
        rising = np.flatnonzero(np.isfinite(prior.logs(trials)))[:count]
        if len(rising) == count or (many > 2 and len(rising) >= 4 * prior.size):
            break
    square = (steps[rising] ** 2).sum(axis=1)
    return trials[rising], -(_TAILS + prior.size) / 2 * np.log1p(square / _TAILS)


def _steps(count: int, size: int, turn: int) -> FloatArray:
    """[count, size] draws of a standard t distribution, each beside its opposite, from a fixed stream of every turn."""
    rng = np.random.default_rng(turn)
    half = rng.standard_normal((count // 2, size)) * np.sqrt(_TAILS / rng.chisquare(_TAILS, (count // 2, 1)))
    return np.stack([half, -half], axis=1).reshape(-1, size)


def _likelihood(evidence: Evidence, prior: _Prior, trials: FloatArray) -> FloatArray:
    """[M] log likelihood of trials, some at a time."""
    block = max(1, _CELLS // max(1, len(evidence.teachers) * len(ABILITIES) * len(_KIND)))
    parts = (trials[at : at + block] for at in range(0, len(trials), block))
    return np.concatenate([evidence.by_maker(prior.points(part)) for part in parts])


def _flattened(logs: FloatArray, enough: float) -> tuple[FloatArray, bool]:
    """[M] weights exp(power x logs) that add up to 1, and whether the power is 1: it is the greatest, up to 1, at which
    they are worth `enough` equal ones."""
    logs = logs - logs.max()

    def weights(power: float) -> FloatArray:
        densities = np.exp(power * logs)
        return np.asarray(densities / densities.sum())

    low, high = 0.0, 1.0
    if 1 / (weights(1.0) ** 2).sum() >= enough:
        return weights(1.0), True
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if 1 / (weights(middle) ** 2).sum() >= enough else (low, middle)
    return weights(low), False


# ---- every model, given what all share -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class ModelStates:
    """States of one model: point, kindness, ability; only the abilities that have a chance.

    `chance` [D, kindness, abilities] adds up to 1. `mean`, `square` [D, abilities, B]: of the model's rates.
    `mix` [D, kindness, abilities, B]: the share of every vote among those that it is compared with. `has_known_maker`:
    whether the model's maker has labels.
    """

    model: int
    has_known_maker: bool
    chance: FloatArray
    mean: FloatArray
    square: FloatArray
    mix: FloatArray

    @property
    def by_ability(self) -> FloatArray:
        """[D, abilities] chances."""
        return np.asarray(self.chance.sum(axis=1))


@dataclass(frozen=True, eq=False)
class Fit:
    """The posterior: `points` of equal weight, and `kindness` [D, kindness, makers], the chances of how kind judges are
    to every maker. `vote_logs`: of makers without labels, and of those with labels."""

    evidence: Evidence
    points: Parameters
    vote_logs: tuple[FloatArray, FloatArray]
    kindness: FloatArray
    other_jury: bool
    drifted: bool
    unsure: float

    @property
    def counts(self) -> Counts:
        return self.evidence.counts

    @cached_property
    def seat_shares(self) -> FloatArray:
        """[K, B] the share of a model's judged answers whose votes are compared with the bin's."""
        n, group = self.counts.n, self.evidence.group[self.counts.bins]
        return np.asarray((n @ (group[:, None] == group)) / np.maximum(n.sum(axis=1), 1)[:, None])

    def states(self) -> Iterator[ModelStates]:
        """Yield the states of every scored model; models whose makers have labels come first."""
        is_known = self.evidence.has_known_maker[: self.counts.models]
        mixes = [np.exp(logs[..., self.counts.bins]) for logs in self.vote_logs]
        for model in np.argsort(~is_known, kind="stable").tolist():
            number = int(is_known[model])
            logs = self.evidence.ability_logs(self.points, self.vote_logs[number], np.array([model]))[..., 0]
            logs -= logs.max(axis=2, keepdims=True)
            has_chance = np.flatnonzero((logs > _NO_CHANCE).any(axis=(0, 1)))
            window = slice(has_chance[0], has_chance[-1] + 1)
            chance = np.exp(logs[..., window])
            kindness = self.kindness[..., self.counts.maker[model]] / len(logs)
            chance *= (kindness / chance.sum(axis=2))[..., None]
            mean, square = self._rates(model, window)
            yield ModelStates(model, bool(is_known[model]), chance, mean, square, mixes[number][:, :, window])

    def _rates(self, model: int, window: slice) -> tuple[FloatArray, FloatArray]:
        """[D, abilities, B] mean and mean square of a model's rates at the strata's votes, given all labels."""
        counts, (points, nodes, chances) = self.counts, self._own
        mean, square = (moment[:, window].copy() for moment in self._rates_without_labels)
        for b in np.flatnonzero(counts.labels[model, counts.bins]):
            vote = int(counts.bins[b])
            at = _log_odds(points, vote, ABILITIES[window], nodes)
            labels, positives = counts.labels[[model], vote], counts.positives[[model], vote]
            density = self.evidence.label_density(at, labels, positives)[0][:, 0]
            mass = density @ chances + _FLOOR
            for moment, power in zip((mean, square), self._rate_powers(at), strict=True):
                moment[..., b] = (density * power) @ chances / mass
        return mean, square

    @cached_property
    def _rates_without_labels(self) -> FloatArray:
        """[2, D, abilities, B] mean and mean square of the rates of a model without labels."""
        points, nodes, chances = self._own
        by_vote = [
            [power @ chances for power in self._rate_powers(_log_odds(points, vote, ABILITIES, nodes))]
            for vote in self.counts.bins.tolist()
        ]
        shape = (len(by_vote), 2, len(points.slope), len(ABILITIES))
        return np.ascontiguousarray(np.moveaxis(np.array(by_vote).reshape(shape), 0, -1))

    @cached_property
    def _own(self) -> tuple[Parameters, FloatArray, FloatArray]:
        """Points, nodes and chances of a model's own deviations, larger where another jury was labelled."""
        if not self.other_jury:
            return self.points, _OWN, _OWN_CHANCES
        points = replace(self.points, own=np.hypot(self.points.own, OTHER_JURY_SPREAD))
        return points, _OWN_MANY, _OWN_MANY_CHANCES

    @cached_property
    def _lower(self) -> FloatArray:
        """[D] by how much lower log odds are where people left answers without a label because they are unsure."""
        count = len(self.points.slope)
        half_normal = np.array([two_sided_quantile((step + 0.5) / count) for step in range(count)])
        return np.asarray(self.unsure * UNSURE_SPREAD * np.random.default_rng(0).permutation(half_normal))

    def _rate_powers(self, at: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Mean and mean square of rates with these log odds among labelled answers, when people labelled, of answers
        without a label, as judges judge now."""
        at = at - self._lower[:, None, None]
        if not self.drifted:
            return _sigmoid(at), _sigmoid(at) ** 2
        rate = _sigmoid(at[..., None] + DRIFT_SPREAD * _OWN)
        return rate @ _OWN_CHANCES, rate**2 @ _OWN_CHANCES


def fit(
    counts: Counts,
    *,
    other_jury: bool = False,
    label_error: float = 0.0,
    in_turn: bool = False,
    drifted: bool = False,
    unsure: float = 0.0,
    points: int = POINTS,
) -> Fit:
    """Return the posterior of the scored models.

    `other_jury`: the labels stand beside votes of another jury than theirs, so that every vote of a model may mean
    something else by N(0, 1). `label_error`: the chance that a label is wrong. `in_turn`: a third judge is asked only
    if two differ. `drifted`: judges changed since people labelled, so that what a vote means by now may differ by
    N(0, 1) from what labels say. `unsure`: the share of the answers that people saw and left without a label because
    they are unsure: answers without one may be harder. `points`: fewer than `POINTS` do for a forecast.
    """
    evidence = Evidence(counts, label_error, in_turn)
    shared = _sampled(evidence, points)
    unknown = replace(shared, kindness=np.full_like(shared.kindness, UNKNOWN_KINDNESS))
    vote_logs = evidence.vote_logs(unknown), evidence.vote_logs(shared)
    authors = np.union1d(np.arange(counts.models), evidence.labelled)
    by_author = [
        evidence.author_evidence(shared, vote_logs[int(evidence.has_known_maker[author])], np.array([author]))
        for author in authors
    ]
    by_maker = evidence.maker_evidence(np.concatenate([np.zeros((points, len(_KIND), 0)), *by_author], axis=2), authors)
    kindness = np.exp(by_maker - _log_sum(by_maker, 1)[:, None])
    unsure = unsure if counts.is_labelled.any() else 0.0  # without labels none is missing
    return Fit(evidence, shared, vote_logs, kindness, other_jury, drifted, unsure)
