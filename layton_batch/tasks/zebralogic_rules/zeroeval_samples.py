"""Several samples of one puzzle, as the ZebraLogic paper's script makes one answer of them.

Samples without a readable solution are dropped first; none left is "no answer", and of one left that one counts,
whatever the mode. Two faults of the script are not kept: a puzzle with one readable sample switched the mode off for
all puzzles after it, and ``best_of_n`` stopped at a value written as a list.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from layton_batch.errors import ManifestError
from layton_batch.records import JsonValue
from layton_batch.tasks.zebralogic_rules.gold import Cell, Gold
from layton_batch.tasks.zebralogic_rules.grading import GridGrade, Reading
from layton_batch.tasks.zebralogic_rules.tags import Tag
from layton_batch.tasks.zebralogic_rules.zeroeval import UnfitError, best, cell_value, compare, length, read

BEST_OF_N, MAJORITY_OF_N, RM_BON = "best_of_n", "majority_of_n", "rm_bon"

Chooser = Callable[[Sequence[Reading], Gold], int]
Votes = Mapping[Cell, Sequence[str | None]]
"""What each sample says of each cell; None where it says nothing."""


def grade_samples(
    texts: Sequence[str], gold: Gold, mode: str = BEST_OF_N, rewards: Sequence[float] | None = None
) -> GridGrade:
    """The grade of one or more replies to a puzzle. ``rewards``: a score for each, for mode ``rm_bon`` alone.

    As in the script, the first reward belongs to the first sample that could be read. Raises ManifestError for an
    unknown mode, and for ``rm_bon`` without a reward for every sample.
    """
    check_mode(mode)
    if mode == RM_BON and (rewards is None or len(rewards) < len(texts)):
        raise ManifestError(f"samples {mode}: every sample needs its score; column 'rm_scores' has too few or none")
    readings = [read(text) for text in texts]
    found = [reading for reading in readings if reading.tag is not Tag.NO_ANSWER] or readings[:1]
    if mode == BEST_OF_N:
        return best([compare(reading, gold) for reading in found])
    if unfit := next((reading for reading in found if reading.tag is not Tag.NONE), None):
        return compare(unfit, gold)
    try:
        return compare(found[0] if len(found) == 1 else _chosen(found, gold, mode, rewards or ()), gold)
    except UnfitError as error:
        return replace(compare(Reading(tag=Tag.MALFORMED_OUTPUT), gold), note=str(error))


def _chosen(found: Sequence[Reading], gold: Gold, mode: str, rewards: Sequence[float]) -> Reading:
    if mode == MAJORITY_OF_N:
        return _voted(found, gold)
    if mode == RM_BON:
        return found[max(range(len(found)), key=rewards.__getitem__)]
    return found[_CHOOSERS[mode](found, gold)]


def check_mode(mode: str) -> None:
    """Raises ManifestError for a mode there is none of."""
    if mode not in MODES:
        raise ManifestError(f"samples {mode!r}: there are {', '.join(MODES)}")


# ---- by the votes of all -------------------------------------------------------------------------------------------


def _votes(found: Sequence[Reading], gold: Gold) -> Votes:
    return {cell: [cell_value(reading.grid, cell) for reading in found] for cell in gold.cells}


def _voted(found: Sequence[Reading], gold: Gold) -> Reading:
    """A grid of each cell's most frequent value, the first named of equals; its reasoning is the first sample's."""
    rows: dict[str, dict[str, JsonValue]] = {}
    for cell, said in _votes(found, gold).items():
        counts = Counter(value for value in said if value is not None)
        rows.setdefault(cell.house, {})[cell.attribute] = counts.most_common(1)[0][0] if counts else None
    return Reading({**rows}, found[0].reasoning)


def _popularity(found: Sequence[Reading], gold: Gold) -> list[int]:
    """Of each sample, by how many each of its values is said, summed."""
    sums = [0] * len(found)
    for said in _votes(found, gold).values():
        counts = Counter(value for value in said if value is not None)
        for place, value in enumerate(said):
            sums[place] += counts[value] if value is not None else 0
    return sums


def _most_common(found: Sequence[Reading], gold: Gold) -> int:
    sums = _popularity(found, gold)
    return sums.index(max(sums))


def _middle_common(found: Sequence[Reading], gold: Gold) -> int:
    return _in_order(_popularity(found, gold))[len(found) // 2]


def _least_common(found: Sequence[Reading], gold: Gold) -> int:
    sums = _popularity(found, gold)
    return sums.index(min(sums))


# ---- by the length of the reasoning --------------------------------------------------------------------------------


def _by_length(found: Sequence[Reading]) -> list[int]:
    return _in_order([length(reading.reasoning) for reading in found])


def _in_order(sizes: Sequence[int]) -> list[int]:
    """Places from the smallest on; equals in their order."""
    return sorted(range(len(sizes)), key=sizes.__getitem__)


_CHOOSERS: Mapping[str, Chooser] = {
    "most_common_of_n": _most_common,
    "middle_common_of_n": _middle_common,
    "least_common_of_n": _least_common,
    "longest_of_n": lambda found, _: _by_length(found)[-1],
    "shortest_of_n": lambda found, _: _by_length(found)[0],
    "median_of_n": lambda found, _: _by_length(found)[len(found) // 2],
}
MODES = (BEST_OF_N, MAJORITY_OF_N, *_CHOOSERS, RM_BON)
"""The script's modes; the first is its default."""
