"""Predictions made elsewhere, graded: rows in, a report out. Texts are not kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from layton_batch.errors import DataError
from layton_batch.records import JsonValue
from layton_batch.tasks.zebralogic_rules.gold import Gold, gold_from
from layton_batch.tasks.zebralogic_rules.grading import GridGrade, Rules, was_cut
from layton_batch.tasks.zebralogic_rules.protocols import rules_of
from layton_batch.tasks.zebralogic_rules.report import Tally
from layton_batch.tasks.zebralogic_rules.tags import Tag, infrastructure_tag
from layton_batch.tasks.zebralogic_rules.zeroeval_samples import BEST_OF_N, RM_BON, check_mode, grade_samples

Row = Mapping[str, JsonValue]
Sink = Callable[[Row], None]
_CUT = frozenset({"length", "max_tokens", "max_output_tokens", "truncated"})
_REFUSED = frozenset({"refusal", "content_filter", "safety"})
"""What the providers say of a reply that reached the output limit, and of one that was refused."""


@dataclass(frozen=True, slots=True)
class Puzzle:
    """What grading needs of an item. ``size`` is the one the row states, else the grid's own."""

    gold: Gold
    size: str


@dataclass(slots=True)
class GradeReport:
    """The outcome of ``grade_rows``."""

    protocol: str
    tally: Tally = field(default_factory=Tally)
    rows: list[tuple[str, GridGrade]] = field(default_factory=list)  # in order; empty where a sink took them
    items_without_prediction: int = 0

    def to_json(self) -> dict[str, JsonValue]:
        """``score`` and accuracies as fractions; ``score`` leaves out infrastructure errors, ``summary`` does not."""
        return {
            "protocol": self.protocol,
            "score": self.tally.score,
            "n_cases": self.tally.cases,
            "n_scored": self.tally.scored,
            "n_errored": self.tally.cases - self.tally.scored,
            "items_without_prediction": self.items_without_prediction,
            "failure_counts": dict(self.tally.failure_counts()),
            "summary": self.tally.summary(),
            "rows": [_row(item_id, grade) for item_id, grade in self.rows],
        }


def grade_rows(
    items: Iterable[Row] | None,
    predictions: Iterable[Row],
    protocol: str,
    *,
    samples: str = BEST_OF_N,
    sink: Sink | None = None,
) -> GradeReport:
    """Grade predictions ``id, output``. Without items they carry the gold: ``solution`` and, if they like, ``size``.

    Where ids repeat, ``set`` on both sides tells them apart. Optional columns of a prediction: ``finish_reason``
    ("length": the output limit cut it off) and, where there is no output, ``error`` (the name of an exception).
    ``samples``: how protocol zeroeval makes one answer of several outputs; ``rm_bon`` reads column ``rm_scores``.
    ``sink`` gets every graded row in order, and then none is kept. Raises DataError naming the row, ManifestError for
    an unknown protocol or mode.
    """
    check_mode(samples)
    report = GradeReport(protocol)
    seen: set[int] = set()
    puzzles = None if items is None else _puzzles(items)
    for item_id, puzzle, grade in graded(puzzles, predictions, rules_of(protocol), samples):
        report.tally.add(puzzle.gold, puzzle.size, grade)
        if sink is None:
            report.rows.append((item_id, grade))
        else:
            sink(_row(item_id, grade))
        if puzzles is not None:
            seen.add(id(puzzle))
    report.items_without_prediction = sum(map(len, (puzzles or {}).values())) - len(seen)
    return report


def graded(
    puzzles: Mapping[str, Mapping[str | None, Puzzle]] | None,
    predictions: Iterable[Row],
    rules: Rules,
    samples: str = BEST_OF_N,
) -> Iterator[tuple[str, Puzzle, GridGrade]]:
    """Each prediction's id, puzzle and grade, one at a time."""
    for number, row in enumerate(predictions, 1):
        item_id = _id(row, f"prediction {number}")
        where = f"prediction {number} ({item_id!r})"
        puzzle = _puzzle(row, where) if puzzles is None else _found(puzzles, item_id, row, where)
        yield item_id, puzzle, _grade(row, puzzle.gold, rules, where, samples)


def _grade(row: Row, gold: Gold, rules: Rules, where: str, samples: str) -> GridGrade:
    outputs = _outputs(row, where)
    if not outputs:
        return _no_reply(row, gold, rules)
    if len(outputs) == 1:
        grade = rules.grade(outputs[0], gold)
    elif rules.name == "zeroeval":
        grade = grade_samples(outputs, gold, samples, _rewards(row, len(outputs), where) if samples == RM_BON else None)
    else:
        raise DataError(f"{where}: {len(outputs)} outputs; only protocol zeroeval makes one answer of several")
    reason, is_ours = row.get("finish_reason"), rules.name == "corrected"
    ending = reason.strip().lower() if isinstance(reason, str) else ""
    if ending in _CUT:
        return was_cut(grade, retag=is_ours)
    if ending in _REFUSED and grade.tag is Tag.NO_ANSWER:
        return replace(grade, tag=Tag.REFUSED if is_ours else grade.tag, note="refused")
    return grade


def _rewards(row: Row, outputs: int, where: str) -> list[float]:
    scores = row.get("rm_scores")
    listed = scores if isinstance(scores, list) else []
    found = [float(one) for one in listed if isinstance(one, int | float) and not isinstance(one, bool)]
    if not len(listed) == len(found) == outputs:
        raise DataError(f"{where}: column 'rm_scores' must have a number for each of the {outputs} outputs")
    return found


def _no_reply(row: Row, gold: Gold, rules: Rules) -> GridGrade:
    if rules.name == "zeroeval":  # knows only answers and none
        return rules.grade("", gold)
    error = row.get("error")
    if isinstance(error, str) and error.strip():
        return GridGrade(infrastructure_tag(error), note=error)
    return GridGrade(Tag.ADAPTER_ERROR, note="no output")


def _outputs(row: Row, where: str) -> Sequence[str]:
    if "output" not in row and "error" not in row:
        raise DataError(f"{where}: column 'output' is missing")
    output = row.get("output")
    outputs = output if isinstance(output, list) else [output]
    texts = [text for text in outputs if isinstance(text, str)]
    if any(text is not None and not isinstance(text, str) for text in outputs):
        raise DataError(f"{where}: column 'output' must be text, an array of texts or null")
    return texts


def _puzzles(items: Iterable[Row]) -> dict[str, dict[str | None, Puzzle]]:
    """By id, then by set."""
    found: dict[str, dict[str | None, Puzzle]] = {}
    for number, row in enumerate(items, 1):
        item_id = _id(row, f"item {number}")
        where = f"item {number} ({item_id!r})"
        by_set = found.setdefault(item_id, {})
        if _set(row) in by_set:
            raise DataError(f"{where}: there is another item of this id and set")
        by_set[_set(row)] = _puzzle(row, where)
    return found


def _puzzle(row: Row, where: str) -> Puzzle:
    if row.get("solution") is None:
        raise DataError(f"{where}: column 'solution' is {'null' if 'solution' in row else 'missing'}")
    gold = gold_from(row["solution"], where)
    size = row.get("size")
    return Puzzle(gold, size if isinstance(size, str) and size else gold.size)


def _found(puzzles: Mapping[str, Mapping[str | None, Puzzle]], item_id: str, row: Row, where: str) -> Puzzle:
    by_set = puzzles.get(item_id)
    if by_set is None:
        raise DataError(f"{where}: there is no item of this id")
    if _set(row) in by_set:
        return by_set[_set(row)]
    if len(by_set) == 1 and (None in by_set or _set(row) is None):
        return next(iter(by_set.values()))
    sets = ", ".join(sorted(map(repr, by_set)))
    raise DataError(f"{where}: its column 'set' is {_set(row)!r}, but the items of this id are of the sets {sets}")


def _set(row: Row) -> str | None:
    value = row.get("set")
    return value if isinstance(value, str) and value else None


def _id(row: Row, where: str) -> str:
    value = row.get("id")
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise DataError(f"{where}: column 'id' must be a text or a whole number")
    return str(value)


def _row(item_id: str, grade: GridGrade) -> dict[str, JsonValue]:
    return {
        "item_id": item_id,
        "tag": grade.tag.value,
        "score": grade.score,
        "cells_correct": grade.cells_correct,
        "cells_total": grade.cells_total,
        "cell_accuracy": grade.cell_accuracy,
        "wrong_cells": list(grade.wrong_cells),
        "note": grade.note,
    }
