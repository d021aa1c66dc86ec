"""Joint draws from the hierarchical posterior: every model's rate in every vote, exactly as they hang together."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from layton_batch.stats.hierarchical import (
    DOUBTS,
    GRID,
    MAKERS,
    OTHER_JURY_SPREAD,
    OWN,
    OWN_SPREAD,
    SEAT,
    SPREADS,
    STEP,
    Fit,
    Rows,
    Shares,
    Upward,
    Votes,
    own_likelihood,
    upward,
    votes,
)
from layton_batch.stats.joint import JointDraws, bin_table, weigh_items
from layton_batch.stats.strata import FloatArray, IntArray, Strata, TargetPredictions


def rate_draws(fit: Fit, *, seed: int, draws: int) -> FloatArray:
    """[T, K, B] rates. Slope and spread take turns in the share of the draws that their chance is; then the log odds of
    the votes, of the makers and of the models are drawn from the top of the tree down."""
    rng = np.random.default_rng(seed)
    rows, shares = Rows.of(fit.table), Shares.of(fit.table)
    ends = np.rint(np.cumsum(fit.chances.ravel()) * draws).astype(np.int64).reshape(fit.chances.shape)
    starts = np.concatenate([[0], ends.ravel()[:-1]]).reshape(fit.chances.shape)
    rates = np.empty((draws, fit.models, len(fit.table.place)))
    for i, slope in enumerate(fit.slopes):
        up = upward(fit.table, rows, slope * fit.learnt)
        found = votes(rows, shares, up)
        doubt = np.cumsum(fit.parts[i] / fit.parts[i].sum(axis=0), axis=0)
        for spread in np.flatnonzero(ends[i] > starts[i]).tolist():
            part = slice(int(starts[i, spread]), int(ends[i, spread]))
            one = _Cell(fit, rows, shares, up, found, spread, float(slope), doubt, rng, part.stop - part.start)
            rates[part] = one.rates()
    return rates


def slope_ends(fit: Fit, draws: int) -> IntArray:
    """[L] where the draws of each slope end."""
    return np.rint(np.cumsum(fit.chances.ravel()) * draws).astype(np.int64).reshape(fit.chances.shape)[:, -1]


@dataclass(frozen=True, slots=True, eq=False)
class _Cell:
    """The draws of one slope and spread; `doubt` [N, K]: the chances, added up, of the
    `DOUBTS` about every model's ability."""

    fit: Fit
    rows: Rows
    shares: Shares
    up: Upward
    found: Votes
    spread: int
    slope: float
    doubt: FloatArray
    rng: np.random.Generator
    draws: int

    def rates(self) -> FloatArray:
        """[T, K, B]"""
        fit, size = self.fit, (self.draws, self.fit.models)
        out = np.empty((*size, len(fit.table.place)))
        by_vote = self._votes()
        shifts = [self.slope * (fit.ability + off * fit.table.doubt)[: fit.models] for off in DOUBTS]
        likelihoods = [own_likelihood(fit.table, np.arange(fit.models), shift) for shift in shifts]
        doubt = (self.rng.random(size)[None] > self.doubt[:-1, None]).sum(axis=0)
        for b, vote in enumerate(fit.table.place.tolist()):
            moved = OTHER_JURY_SPREAD * self.rng.standard_normal(self.draws) if fit.other_jury else np.zeros(self.draws)
            makers = self._makers(by_vote[:, vote], vote)
            base = makers[:, fit.table.maker[: fit.models]]
            odds = base + moved[:, None] + OWN_SPREAD * self.rng.standard_normal(size)
            for k in np.flatnonzero(self.rows.of_row[: fit.models, vote] >= 0).tolist():
                for at, likelihood in enumerate(likelihoods):
                    rows = doubt[:, k] == at
                    odds[rows, k] = self._given(base[rows, k], OWN, likelihood[k, b])
            out[:, :, b] = odds
        shift: FloatArray = np.take_along_axis(np.stack(shifts), doubt, axis=0)
        return np.asarray(1 / (1 + np.exp(-(out + shift[..., None]))))

    def _votes(self) -> FloatArray:
        """[T, B'] log odds of the votes, those of rising shares rising."""
        forward = self.found.forward[self.spread]
        share = np.empty((self.draws, len(forward)))
        ordered = np.flatnonzero(self.shares.judged)
        above = np.full(self.draws, len(GRID) - 1)
        for at in ordered[::-1].tolist():
            above = self._below(forward[at], above)
            share[:, at] = GRID[above]
        for at in np.flatnonzero(self.shares.judged == 0).tolist():
            share[:, at] = GRID[self._below(forward[at], np.full(self.draws, len(GRID) - 1))]
        out = np.empty((self.draws, len(self.shares.of_vote)))
        for vote, at in enumerate(self.shares.of_vote.tolist()):
            heard = self.found.heard[self.spread, vote]
            given = share[:, at]
            out[:, vote] = given if self.shares.alone[vote] else self._given(given, SEAT, heard)
        return out

    def _below(self, logs: FloatArray, most: IntArray) -> IntArray:
        """[T] grid places from a law cut off above `most`."""
        cdf = np.cumsum(np.exp(logs - logs.max()))
        wanted = self.rng.random(self.draws) * cdf[most]
        return np.asarray(np.minimum(np.searchsorted(cdf, wanted), most), dtype=np.int64)

    def _makers(self, vote_odds: FloatArray, vote: int) -> FloatArray:
        """[T, F] log odds of every maker in one vote."""
        cells = self.rows.of_cell[:, vote]
        deviation = float(SPREADS[self.spread])
        out = vote_odds[:, None] + deviation * self.rng.standard_normal((self.draws, len(cells)))
        if deviation > 0:
            for maker in np.flatnonzero(cells >= 0).tolist():
                out[:, maker] = self._given(vote_odds, MAKERS[self.spread], self.up.made[cells[maker]])
        return out

    def _given(self, parent: FloatArray, kernel: FloatArray, logs: FloatArray) -> FloatArray:
        """[T] values below `parent` in the tree, from kernel times exp(logs), spread evenly over their grid cells."""
        table = np.cumsum(kernel * np.exp(logs - logs.max()) + 1e-200, axis=1)
        table /= table[:, -1:]
        at = np.clip(np.rint((parent - GRID[0]) / STEP), 0, len(GRID) - 1).astype(np.int64)
        flat = (table + np.arange(len(GRID))[:, None]).ravel()
        place = np.searchsorted(flat, self.rng.random(len(at)) + at) - at * len(GRID)
        return np.asarray(GRID[np.clip(place, 0, len(GRID) - 1)] + STEP * (self.rng.random(len(at)) - 0.5))


def draws_on_these(strata: Strata, rates: FloatArray, *, seed: int) -> JointDraws:
    """Draws of the human-judged accuracy on exactly these items."""
    rng = np.random.default_rng([seed, 1])
    models = np.flatnonzero(strata.items > 0)
    left = (strata.n - strata.own_labels)[models]
    theta = np.broadcast_to(strata.own_positives[models].sum(axis=1) * 1.0, (len(rates), len(models))).copy()
    for b in np.flatnonzero(left.any(axis=0)):
        at = np.flatnonzero(left[:, b])
        theta[:, at] += rng.binomial(left[at, b], np.clip(rates[:, models[at], b], 0, 1))
    return JointDraws(theta / strata.items[models], models)


def draws_on_new(strata: Strata, target: TargetPredictions, fit: Fit, rates: FloatArray, *, seed: int) -> JointDraws:
    """Draws of the accuracy on new items of the same kind, from weights of the items that all models share; other items
    would show another ability, and move the rates by the slope."""
    models = np.flatnonzero(strata.items > 0)
    bins, items = bin_table(strata, target, models)
    slopes = np.repeat(fit.slopes, np.diff(slope_ends(fit, len(rates)), prepend=0))
    sway = slopes[:, None, None] * fit.table.sway[models][:, fit.table.place]
    inside = np.clip(rates[:, models], 1e-12, 1 - 1e-12)
    theta = weigh_items(bins, items, inside, np.random.default_rng([seed, 2]), sway)
    return JointDraws(theta, models)
