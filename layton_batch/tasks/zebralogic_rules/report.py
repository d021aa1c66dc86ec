"""Grades added up: agi-evals' run report, and the row of ZeroEval's table. Memory does not grow with the grades."""

from __future__ import annotations

from collections import Counter

from layton_batch.records import JsonValue
from layton_batch.tasks.zebralogic_rules.gold import Gold
from layton_batch.tasks.zebralogic_rules.grading import GridGrade
from layton_batch.tasks.zebralogic_rules.sizes import GROUPS
from layton_batch.tasks.zebralogic_rules.tags import INFRASTRUCTURE, Tag


class Tally:
    """Counts of the grades of one model."""

    def __init__(self) -> None:
        self._tags: Counter[Tag] = Counter()
        self._puzzles: Counter[str] = Counter()  # by size
        self._solved: Counter[str] = Counter()
        self._cells = self._cells_correct = 0
        self._unanswered = 0
        self._reasoning_chars = self._reasonings = 0

    def add(self, gold: Gold, size: str, grade: GridGrade) -> None:
        self._tags[grade.tag] += 1
        self._puzzles[size] += 1
        self._solved[size] += grade.tag is Tag.NONE
        self._cells += len(gold.cells)
        self._cells_correct += grade.cells_correct or 0
        if grade.reasoning_chars is None:
            self._unanswered += grade.tag is not Tag.MALFORMED_OUTPUT
        else:
            self._reasonings += 1
            self._reasoning_chars += grade.reasoning_chars

    @property
    def cases(self) -> int:
        return self._tags.total()

    @property
    def scored(self) -> int:
        """Cases whose outcome is the model's, not the infrastructure's."""
        return sum(count for tag, count in self._tags.items() if tag not in INFRASTRUCTURE)

    @property
    def score(self) -> float:
        """The share of passes among the scored; 0 where nothing was scored."""
        return self._tags[Tag.NONE] / self.scored if self.scored else 0.0

    def failure_counts(self) -> dict[str, int]:
        """By tag in the order they first came, passes included as "none"."""
        return {tag.value: count for tag, count in self._tags.items()}

    def summary(self) -> dict[str, JsonValue]:
        """ZeroEval's fields: percentages with two decimals as text, over all puzzles; null where there are none."""
        groups = {
            name: _percent(sum(self._solved[size] for size in sizes), sum(self._puzzles[size] for size in sizes))
            for name, sizes in GROUPS.items()
        }
        return {
            "Puzzle Acc": _percent(self._solved.total(), self.cases),
            "Cell Acc": _percent(self._cells_correct, self._cells),
            "No answer": _percent(self._unanswered, self.cases),
            "Easy": groups.pop("Easy"),
            "Hard": groups.pop("Hard"),
            "Total": self.cases,
            "Reason Lens": f"{self._reasoning_chars / self._reasonings:.2f}" if self._reasonings else None,
            **groups,
        }


def _percent(part: int, whole: int) -> str | None:
    return f"{part / whole * 100:.2f}" if whole else None
