"""The board of very many models: counts and scores by source, each kept until the source or the labels change.

A refresh reads what is new: a source whose key is known is not read again, and where labels and rules are the same its
models are not scored again. Scores and intervals are those of the ``calibrated`` method, digit for digit; rank ranges
are wider than a small board's (``stats/many_models.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import astuple, dataclass

import numpy as np
import polars as pl

from layton_batch.errors import DataError, ManifestError
from layton_batch.files.kept_frames import KeptFrames
from layton_batch.files.table_columns import SCHEMAS
from layton_batch.files.tables import digest
from layton_batch.scoring.board import (
    FAR_RANGES,
    OTHER_HINTS,
    OTHER_JURY,
    SHORT_JURY,
    ceil_tenth,
    floor_tenth,
    round_tenth,
)
from layton_batch.scoring.counting import settled
from layton_batch.scoring.evidence import Entrant, Label
from layton_batch.scoring.rules import CALIBRATED, Rules
from layton_batch.scoring.uncalibrated import UNCALIBRATED
from layton_batch.scoring.vote_counts import COUNTED, counts_of
from layton_batch.scoring.vote_files import WHO, VoteFile
from layton_batch.scoring.vote_table import ballots_of
from layton_batch.stats.many_models import level_of_each, many_scores, ranges_left_open
from layton_batch.stats.ranks import score_ranks
from layton_batch.stats.shares import wilson_interval
from layton_batch.stats.strata import (
    Flag,
    FloatArray,
    GoldPredictions,
    IntArray,
    Strata,
    TargetPredictions,
    build_strata,
)

LARGE = 2_000
"""Models on a board: for more of them joint draws take too long."""
_BOARDS_KEPT = 20
"""Of so many boards' worth what was counted and scored stays: one on another metric or of earlier labels may come
again."""
_FAR = ("far_low", "far_high", "new_far_low", "new_far_high")
_ANSWERED = "answered"


@dataclass(frozen=True, slots=True)
class Size:
    """``models``: entrants on a board; ``samples``: the most answers to an item that one of them gave, of which the
    first counts."""

    models: int
    samples: int


def size_of(sources: Sequence[VoteFile], metric: str, kept: KeptFrames) -> Size:
    """Of the board of these sources. Raises DataError for a model that is in two of them."""
    name = digest("size", metric, *(one.key for one in sources))
    found = kept.made(name, lambda: _size(sources, metric, kept))
    return Size(*found.row(0))


def large_board(
    sources: Sequence[VoteFile], labels: Sequence[Label], rules: Rules, kept: KeptFrames, executor: Executor
) -> pl.DataFrame:
    """The table ``leaderboard``, best first. Sources are read one after another and scored by the executor.

    Raises ManifestError for rules that it cannot follow, DataError for a model that is in two sources and for labels
    that contradict each other.
    """
    if rules.method != CALIBRATED:
        raise ManifestError(f"method {rules.method}: a board of more than {LARGE:,} models is ranked by {CALIBRATED}")
    given = settled(labels)
    asked = digest(repr(rules), *sorted(map(repr, given)))
    name = digest("board", asked, *(one.key for one in sources))
    board = kept.get(name)
    if board is None:
        far = level_of_each(rules.level, size_of(sources, rules.metric, kept).models)

        def scored(one: VoteFile) -> pl.DataFrame:
            score = _scored if given else _shares
            return kept.made(digest("scores", one.key, asked, repr(far)), lambda: score(one, given, rules, far, kept))

        board = kept.put(name, _ranked(pl.concat(executor.map(scored, sources)), given, rules))
        kept.sweep(_BOARDS_KEPT * (2 * len(sources) + 2))
    return board


def _counts(votes: VoteFile, metric: str, kept: KeptFrames) -> pl.DataFrame:
    return kept.made(digest("counts", metric, votes.key), lambda: counts_of(votes, metric))


def _size(sources: Sequence[VoteFile], metric: str, kept: KeptFrames) -> pl.DataFrame:
    found = [
        _counts(one, metric, kept).select(*WHO, "samples", source=pl.lit(number)).unique(WHO)
        for number, one in enumerate(sources)
    ]
    entrants = pl.concat(found)
    again = entrants.filter(entrants.select(WHO).is_duplicated())
    if again.height:
        model, hints = again.select("model", "n_hints").row(0)
        whose = again.filter((pl.col("model") == model) & (pl.col("n_hints") == hints))["source"]
        names = " and ".join(str(sources[at]) for at in whose[:2])
        raise DataError(f"model {model!r} (hint level {hints}) is in {names}; give each model's answers in one source")
    return pl.DataFrame({"models": [entrants.height], "samples": [entrants["samples"].max()]})


# ---- the models of one source --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Counted:
    """``who`` [R]: the entrant of a row of counts. Rows of one are together, entrants in the order of their names."""

    entrants: pl.DataFrame
    counts: pl.DataFrame
    who: IntArray


def _scored(votes: VoteFile, labels: Sequence[Label], rules: Rules, far: float, kept: KeptFrames) -> pl.DataFrame:
    """The entrants of a source with all that the others on the board do not change, as it is printed, and the ends of
    which rank ranges are made."""
    counts = _counts(votes, rules.metric, kept)
    entrants = counts.select(WHO).unique(maintain_order=True)
    who = counts.join(entrants.with_row_index("who"), on=WHO, how="left", maintain_order="left")["who"]
    counted = _Counted(entrants, counts, who.to_numpy().astype(np.int64))
    strata = _strata(votes, counted, labels, rules.metric)
    found = many_scores(strata, level=rules.level, far_level=far, provider_shift=rules.provider_shift)
    (score, lower, upper), (new_score, new_lower, new_upper) = found.here, found.new
    low, high = _tenths(floor_tenth, lower), _tenths(ceil_tenth, upper)
    least = strata.smallest_gold_bin(strata.borrowed_labels)
    return _sizes(counts).with_columns(
        exact=pl.Series(score),
        score=pl.Series(_tenths(round_tenth, score)),
        lower=pl.Series(low),
        upper=pl.Series(high),
        half_width=pl.Series(np.ceil((high - low) * 5 - 1e-9) / 10),
        new_score=pl.Series(_tenths(round_tenth, new_score)),
        new_lower=pl.Series(_tenths(floor_tenth, new_lower)),
        new_upper=pl.Series(_tenths(ceil_tenth, new_upper)),
        own_labels=pl.Series(strata.own_labels.sum(axis=1)),
        borrowed_labels=pl.Series(np.where(strata.n > 0, strata.borrowed_labels, 0).sum(axis=1)),
        smallest_gold_bin=pl.Series(least, dtype=pl.Int64),
        flags=pl.Series(_flags(strata)),
        **{name: pl.Series(one) for name, one in zip(_FAR, (*found.far_here, *found.far_new), strict=True)},
    )


_NEVER = ("abstained", "unparsed", "missing")


def _sizes(counts: pl.DataFrame) -> pl.DataFrame:
    """By entrant, in their order, how many replies are of which kind, and the least and the greatest jury."""
    seats = pl.col("total").filter(pl.col("total") > 0)
    return counts.group_by(WHO, maintain_order=True).agg(
        *(pl.col("times").filter(pl.col("kind") == kind).sum().alias(f"n_{kind}") for kind in _NEVER),
        seats_min=seats.min(),
        seats_max=seats.max(),
        n_items=pl.col("times").sum(),
        n_unjudged=pl.col("times").filter((pl.col("kind") == _ANSWERED) & (pl.col("total") == 0)).sum(),
    )


def _shares(votes: VoteFile, _: Sequence[Label], rules: Rules, far: float, kept: KeptFrames) -> pl.DataFrame:
    """The entrants of a source where nobody labelled anything: the jury's own word, as ``scoring/uncalibrated.py``."""
    counts = _counts(votes, rules.metric, kept)
    yes = (pl.col("times") * pl.col("yes") / pl.col("total")).filter(pl.col("total") > 0).sum()
    sizes = _sizes(counts)
    judged = (sizes["n_items"] - sizes["n_unjudged"]).to_list()
    said = counts.group_by(WHO, maintain_order=True).agg(yes=yes)["yes"].to_list()
    share = [one / max(of, 1) for one, of in zip(said, judged, strict=True)]
    near, wide = (
        np.array([wilson_interval(one, of, level) for one, of in zip(share, judged, strict=True)]).T
        for level in (rules.level, far)
    )
    return sizes.with_columns(
        exact=pl.Series([one if of else None for one, of in zip(share, judged, strict=True)], dtype=pl.Float64),
        score=pl.Series([round_tenth(one) if of else None for one, of in zip(share, judged, strict=True)]),
        lower=pl.Series(_tenths(floor_tenth, near[0])),
        upper=pl.Series(_tenths(ceil_tenth, near[1])),
        half_width=pl.Series(_tenths(ceil_tenth, (near[1] - near[0]) / 2)),
        own_labels=0,
        borrowed_labels=0,
        flags=pl.when(pl.col("n_unjudged") > 0).then(pl.lit("unjudged")).otherwise(pl.lit("")),
        far_low=pl.Series(wide[0]),
        far_high=pl.Series(wide[1]),
    )


def _tenths(rounded: Callable[[float], float], fractions: FloatArray) -> FloatArray:
    return np.array([rounded(one) for one in fractions.tolist()])


def _flags(strata: Strata) -> list[str]:
    own, borrowed = strata.own_labels.sum(axis=1), np.where(strata.n > 0, strata.borrowed_labels, 0).sum(axis=1)
    lone = ((own == 0) & (borrowed > 0)).tolist()
    told = strata.flags(strata.borrowed_labels + strata.own_labels)
    known: dict[tuple[object, bool], str] = {}
    for key in set(zip(told, lone, strict=True)):
        names = [str(flag) for flag in key[0] if flag is not Flag.KNOWN_ZEROS]
        known[key] = ", ".join(names + (["borrowed_only"] if key[1] else []))
    return [known[key] for key in zip(told, lone, strict=True)]


def _strata(votes: VoteFile, counted: _Counted, labels: Sequence[Label], metric: str) -> Strata:
    counts = counted.counts
    providers: dict[str, int] = {}
    target = TargetPredictions(
        model=counted.who,
        item=np.arange(counts.height),
        yes=counts["yes"].to_numpy(),
        total=counts["total"].to_numpy(),
        known_zero=(counts["kind"] != _ANSWERED).to_numpy(),
        provider=_ints([providers.setdefault(name, len(providers)) for name in counted.entrants["provider"]]),
        times=counts["times"].to_numpy(),
    )
    place = {Entrant(*one): number for number, one in enumerate(counted.entrants.iter_rows())}
    gold = GoldPredictions(
        model=_ints([place.get(label.entrant, -1) for label in labels]),
        provider=_ints([providers.setdefault(label.entrant.provider, len(providers)) for label in labels]),
        yes=_ints([label.yes for label in labels]),
        total=_ints([label.total for label in labels]),
        label=_ints([int(label.correct) for label in labels]),
        own_target_row=_own_rows(votes, counted, labels, place, metric),
    )
    return build_strata(target, gold, by_seats=True)


def _own_rows(
    votes: VoteFile, counted: _Counted, labels: Sequence[Label], place: Mapping[Entrant, int], metric: str
) -> IntArray:
    """Of each label the row of counts that its very prediction is in, -1 where the source does not have that one."""
    labelled = sorted({label.entrant for label in labels if label.entrant in place})
    if not labelled:
        return np.full(len(labels), -1)
    rows = votes.read(metric, [*WHO, "item_id", "sample", "flag", "yes", "total", "content"])
    whose = pl.DataFrame(list(map(astuple, labelled)), schema=list(WHO), orient="row").with_row_index("who")
    rows = rows.join(whose, on=WHO, maintain_order="left")
    rows = rows.filter(pl.col("sample") == pl.col("sample").min().over("who"))
    cast = ballots_of(labelled, rows)
    keys = zip(counted.who.tolist(), *(counted.counts[name].to_list() for name in COUNTED), strict=True)
    row_of = {key: row for row, key in enumerate(keys)}
    found = []
    for row in cast.find([(label.entrant, label.item_id, label.content) for label in labels]):
        one = cast[row] if row >= 0 else None
        found.append(-1 if one is None else row_of[place[one.entrant], one.kind, one.yes, one.total])
    return _ints(found)


# ---- all of them beside each other ---------------------------------------------------------------------------------


def _ranked(scored: pl.DataFrame, labels: Sequence[Label], rules: Rules) -> pl.DataFrame:
    most = max([int(scored["seats_max"].fill_null(0).to_numpy().max()), *(label.total for label in labels)])
    short = (pl.col("seats_min") != pl.col("seats_max")) | (pl.col("seats_min") < most - 1)
    flags = pl.concat_list(
        pl.when(pl.col("flags") != "").then("flags"),
        pl.when(short).then(pl.lit(SHORT_JURY)),
        pl.when(_of_other_hints(scored, labels)).then(pl.lit(OTHER_HINTS)),
        pl.lit(FAR_RANGES),
        pl.lit(OTHER_JURY if labels and rules.other_jury else None, pl.String),
    )
    board = scored.with_columns(
        *_places(scored),
        method=pl.lit(rules.method if labels else UNCALIBRATED),
        metric=pl.lit(rules.metric),
        level=pl.lit(rules.level),
        flags=flags.list.drop_nulls().list.join(", "),
    )
    columns = [
        pl.col(name).cast(kind) if name in board.columns else pl.lit(None, kind).alias(name)
        for name, kind in SCHEMAS["leaderboard"].items()
    ]
    return board.sort("rank", *WHO, nulls_last=True).select(columns)


def _places(scored: pl.DataFrame) -> list[pl.Series]:
    """Ranks and their ranges; a model of which nothing was judged has none, and is in nobody's way."""
    there = scored["exact"].is_not_null().to_numpy()
    rank = score_ranks(scored["exact"].to_numpy())
    found = {"rank": rank[there]}
    for prefix in ("", "new_"):
        ends = [name for name in _FAR if name.startswith(f"{prefix}far")]
        if set(ends) <= set(scored.columns):
            ranges = ranges_left_open(scored.select(ends).to_numpy()[there].T)
            found |= {f"{prefix}rank_best": ranges.best, f"{prefix}rank_worst": ranges.worst}
    columns = []
    for name, values in found.items():
        column = np.full(scored.height, np.nan)
        column[there] = values
        columns.append(pl.Series(name, column, nan_to_null=True).cast(pl.Int64))
    return columns


def _of_other_hints(scored: pl.DataFrame, labels: Sequence[Label]) -> pl.Series:
    """Whether a row's model has labels at another hint level."""
    whose, labelled = scored.select(WHO), {astuple(label.entrant) for label in labels}
    schema = {"model": pl.String, "provider": pl.String, "level": pl.Int64}
    levels = pl.DataFrame(list(labelled), schema=schema, orient="row")
    found = whose.join(levels, on=["model", "provider"]).filter(pl.col("n_hints") != pl.col("level"))
    told = whose.join(found.select(*WHO, told=True).unique(), on=WHO, how="left", maintain_order="left")
    return told["told"].fill_null(value=False)


def _ints(values: Sequence[int]) -> IntArray:
    return np.array(values, dtype=np.int64)
