"""What a reader finds in a reply, and what comes of comparing that with the right grid."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from layton_batch.records import JsonValue
from layton_batch.states import FinishReason
from layton_batch.tasks.zebralogic_rules.gold import Cell, Gold
from layton_batch.tasks.zebralogic_rules.tags import Tag

TRUNCATED, REFUSED = "truncated at the output limit", "refused"


@dataclass(frozen=True, slots=True)
class Reading:
    """The grid in a reply. ``tag`` is NONE where there is one, else what kind of failure it is that there is none."""

    grid: JsonValue = None
    reasoning: JsonValue = None
    tag: Tag = Tag.NONE
    note: str | None = None


@dataclass(frozen=True, slots=True)
class GridGrade:
    """One reply's grade. Cells are None where the protocol does not count them; ``reasoning_chars`` where it was not
    read."""

    tag: Tag
    cells_correct: int | None = None
    cells_total: int | None = None
    wrong_cells: tuple[str, ...] = ()
    reasoning_chars: int | None = None
    note: str | None = None

    @property
    def score(self) -> float:
        return 1.0 if self.tag is Tag.NONE else 0.0

    @property
    def cell_accuracy(self) -> float | None:
        if self.cells_correct is None or self.cells_total is None:
            return None
        return self.cells_correct / self.cells_total if self.cells_total else 0.0


@dataclass(frozen=True, slots=True)
class Rules:
    """A protocol: how a reply is read, and how what was read is compared. Neither raises, whatever the text."""

    name: str
    read: Callable[[str], Reading]
    compare: Callable[[Reading, Gold], GridGrade]

    def grade(self, text: str, gold: Gold) -> GridGrade:
        """The grade of a reply's text."""
        return self.compare(self.read(text), gold)


def compared(gold: Gold, is_right: Callable[[Cell], bool], reasoning_chars: int) -> GridGrade:
    """The grade of a grid, cell by cell; it passes when all are right."""
    wrong = tuple(cell.label for cell in gold.cells if not is_right(cell))
    total = len(gold.cells)
    tag = Tag.WRONG_ANSWER if wrong or not total else Tag.NONE
    return GridGrade(tag, total - len(wrong), total, wrong, reasoning_chars)


def normal_grid(
    grid: JsonValue, house_key: Callable[[str], str], value_key: Callable[[JsonValue], str]
) -> Mapping[str, Mapping[str, str]]:
    """A grid with normal keys and values; houses that are not objects are left out. Of two keys that become one the
    last counts."""
    if not isinstance(grid, Mapping):
        return {}
    return {
        house_key(house): {attribute.strip().lower(): value_key(value) for attribute, value in row.items()}
        for house, row in grid.items()
        if isinstance(row, Mapping)
    }


def ended(grade: GridGrade, ending: FinishReason | None, *, retag: bool) -> GridGrade:
    """The grade of a reply that may have been cut off or refused; ``retag``: the protocol has tags for these.

    A pass stays one, its grid came before the cut.
    """
    if ending is FinishReason.LENGTH and grade.tag is not Tag.NONE:
        note = f"{TRUNCATED}: {grade.note}" if grade.note else TRUNCATED
        return replace(grade, tag=Tag.TRUNCATED if retag else grade.tag, note=note)
    if ending is FinishReason.REFUSAL and grade.tag is Tag.NO_ANSWER:
        return replace(grade, tag=Tag.REFUSED if retag else grade.tag, note=REFUSED)
    return grade
