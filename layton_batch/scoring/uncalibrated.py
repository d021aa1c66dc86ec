"""A board of votes: calibrated by people's labels or, where there is none at all, the jury's raw share as it is."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace

from layton_batch.scoring.board import (
    NEW_ITEMS,
    SHORT_JURY,
    UNKNOWN,
    BoardRow,
    ceil_tenth,
    floor_tenth,
    rank_board,
    rank_marks,
    with_flag,
)
from layton_batch.scoring.evidence import Ballot, Entrant, ItemScores, Label
from layton_batch.scoring.rules import Rules
from layton_batch.stats.shares import wilson_interval
from layton_batch.text import plural

UNCALIBRATED = "uncalibrated"
RAW_SHARE = "Uncalibrated: the jury's raw share of yes. There is no human label, so nobody knows how often it is right."
AIM_POINTS = 3
"""The half width, in points, for which an uncalibrated board says how many labels it takes."""
_MOST_PLANNED = 2_000  # models for which labels are planned: each is planned by itself


def rank_votes(ballots: Sequence[Ballot], labels: Sequence[Label], rules: Rules) -> list[BoardRow]:
    """As ``rank_board``, but without any label by the raw share: how often the jury says yes.

    Nothing is known then of how often the jury is wrong. ``method`` is ``uncalibrated``, and a row is for new items
    alone: ``lower``..``upper`` is Wilson's binomial interval over the items, for the jury's own word on items of this
    kind, the rank range holds the ranks by that word, and ``labels_needed`` says how many labels on the model's answers
    would give ± 3 points on these items.
    The paper's method has no score then.
    """
    if labels or rules.method == "paper" or not ballots:
        return rank_board(ballots, labels, rules)
    mine, judged = _by_entrant(ballots)
    rows = rank_marks(share_sheets(ballots), rules)
    needed = _labels_needed(ballots, rules)
    ranked = [_row(row, mine[_entrant(row)], len(judged[_entrant(row)]), needed) for row in rows]
    nobody = [_silent(who, len(mine[who]), rules) for who in sorted(judged) if not judged[who]]
    return [one for row in ranked for one in _flagged(row, mine[_entrant(row)])] + nobody


def need(labels: Sequence[int | None]) -> str:
    """What a reader of such a board has to know, in words; ``labels``: what each row needs."""
    known = [count for count in labels if count is not None]
    if not known:
        return RAW_SHARE
    return (
        f"{RAW_SHARE} About {plural(sum(known), 'label')} would give ± {AIM_POINTS} points for every model on these "
        f"items: `layton-batch label-plan --this-set --half-width {AIM_POINTS}` says on which answers."
    )


def share_sheets(ballots: Sequence[Ballot]) -> list[ItemScores]:
    """The jury's shares of yes as marks, of every entrant that has a judged answer."""
    return [_sheet(entrant, judged) for entrant, judged in _by_entrant(ballots)[1].items() if judged]


def _by_entrant(ballots: Sequence[Ballot]) -> tuple[dict[Entrant, list[Ballot]], dict[Entrant, list[Ballot]]]:
    """All ballots of each entrant, and those whose outcome is known by votes or without them."""
    mine: dict[Entrant, list[Ballot]] = defaultdict(list)
    for ballot in ballots:
        mine[ballot.entrant].append(ballot)
    judged = {entrant: [ballot for ballot in cast if _has_outcome(ballot)] for entrant, cast in mine.items()}
    return mine, judged


def _has_outcome(ballot: Ballot) -> bool:
    return ballot.total > 0 or ballot.known_zero


def _sheet(who: Entrant, cast: Sequence[Ballot]) -> ItemScores:
    return ItemScores(
        entrant=who,
        item_ids=[one.item_id for one in cast],
        marks=[0.0 if one.known_zero else one.yes / one.total for one in cast],
        kinds=[one.kind for one in cast],
    )


def _row(row: BoardRow, cast: Sequence[Ballot], judged: int, needed: Mapping[Entrant, int]) -> BoardRow:
    share = sum(one.yes / one.total for one in cast if one.total and not one.known_zero) / judged
    low, high = wilson_interval(share, judged, row.level)
    unjudged = len(cast) - judged
    return replace(
        row,
        method=UNCALIBRATED,
        new=replace(row.new, lower=floor_tenth(low), upper=ceil_tenth(high), half_width=ceil_tenth((high - low) / 2)),
        this_set=UNKNOWN,
        n_items=len(cast),
        n_unjudged=unjudged,
        flags=("unjudged",) if unjudged else (),
        failures={**row.failures, **({"unjudged": unjudged} if unjudged else {})},
        labels_needed=needed.get(_entrant(row)),
    )


def _flagged(row: BoardRow, cast: Sequence[Ballot]) -> list[BoardRow]:
    return with_flag([row], SHORT_JURY) if len({one.total for one in cast if one.total}) > 1 else [row]


def _entrant(row: BoardRow) -> Entrant:
    return Entrant(row.model, row.provider, row.n_hints)


def _silent(who: Entrant, items: int, rules: Rules) -> BoardRow:
    """Nobody judged anything of this one: it has no share."""
    return BoardRow(
        model=who.model,
        provider=who.provider,
        n_hints=who.n_hints,
        method=UNCALIBRATED,
        metric=rules.metric,
        level=rules.level,
        n_items=items,
        n_unjudged=items,
        flags=("unjudged",),
        failures={"unjudged": items},
        target=NEW_ITEMS,
        new=UNKNOWN,
        this_set=UNKNOWN,
        own_labels=0,
        borrowed_labels=0,
        smallest_gold_bin=None,
        n_unparsed=0,
        n_missing=0,
        n_abstained=0,
    )


def _labels_needed(ballots: Sequence[Ballot], rules: Rules) -> dict[Entrant, int]:
    """Return the number of labels for each entrant, as ``label-plan --this-set --half-width 3`` says."""
    from layton_batch.scoring.label_plan import Aim, plan_next  # which boards with labels need not

    if len({ballot.entrant for ballot in ballots}) > _MOST_PLANNED:
        return {}
    plan = plan_next(ballots, [], Aim(half_width=AIM_POINTS / 100, this_set=True), rules)
    return {Entrant(one.model, one.provider, one.n_hints): one.labels for one in plan.models}
