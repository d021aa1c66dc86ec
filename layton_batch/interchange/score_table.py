"""Tables of one's own: per-item scores, or the verdicts of judges and people; CSV, JSONL, Parquet or a workbook.

A row is an answer. Its columns are found by their usual names, or a person names them (``TableColumns``): ``item_id``,
``model``, and ``score``, or of verdicts ``judge_NAME`` for each judge and ``human``. Of scores a column ``metric`` may
say by what; more columns, where there are any, are ``provider``, ``n_hints``, ``sample``, ``kind``
(``answered``, ``abstained`` …) and ``flag``, what was wrong. Result tables of MLflow (``NAME/v1/score``,
``NAME/value``) and of ragas (``user_input`` and a column a metric) are those of one model: the file's, or NAME=FILE.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Self

from layton_batch.errors import DataError, ManifestError
from layton_batch.files.sheets import ENDINGS, WORKBOOK
from layton_batch.files.sources import Row, RowLocation, stream_placed_rows, stream_rows
from layton_batch.interchange.score_file import ItemOutcome, Object, ScoreFile
from layton_batch.records import JsonValue
from layton_batch.scoring.gold import HUMAN, ITEM, VERDICT, GoldSet, parse_gold
from layton_batch.states import PredictionKind

METRIC = "score"
ROLES = ("item", "model", "score", "judge", "human")
_ITEMS = ("item_id", "item", "id", "question_id", "example_id", "sample_id", "instance_id", "task_id", "qid",
          "question", "user_input", "inputs", "input")  # fmt: skip
_MODELS = ("model", "model_name", "model_id", "llm")
_SCORES = (METRIC, "correct", "is_correct", "passed", "pass", "success", "accuracy", "acc", "exact_match")
_MLFLOW = ("/v1/score", "/score", "/value")
_LESS_IS_BETTER = frozenset({"toxicity", "flesch_kincaid_grade_level", "ari_grade_level"})
"""Metrics of MLflow."""
_RAGAS = ("faithfulness", "answer_relevancy", "context_precision", "context_recall", "answer_correctness",
          "factual_correctness", "semantic_similarity", "context_entity_recall")  # fmt: skip
_JUDGE, _HUMAN = "judge_", "human"
_PARQUET = ".parquet"
_TABLES = (*ENDINGS, WORKBOOK, _PARQUET)
_KINDS = frozenset(map(str, PredictionKind))
_WORDS: Mapping[str, float] = {
    **dict.fromkeys(("true", "yes", "pass", "passed", "correct"), 1.0),
    **dict.fromkeys(("false", "no", "fail", "failed", "incorrect"), 0.0),
}


@dataclass(frozen=True, slots=True)
class TableColumns:
    """Columns that a person names, by what they hold; empty: the usual name. ``judges``: a column of verdicts each."""

    item: str = ""
    model: str = ""
    score: str = ""
    judges: tuple[str, ...] = ()
    human: str = ""

    @classmethod
    def of(cls, given: Sequence[str]) -> Self:
        """Read ``ROLE=COLUMN`` each. Raises ManifestError for another role, and for one that is there twice."""
        names: dict[str, str] = {}
        judges: dict[str, str] = {}
        for text in given:
            role, _, name = text.partition("=")
            if role not in ROLES or not name:
                raise ManifestError(f"--column {text!r}: must be ROLE=COLUMN; the roles are {', '.join(ROLES)}")
            if role == "judge" and judges.setdefault(_judge(name), name) != name:
                raise ManifestError(f"--column {text!r}: {judges[_judge(name)]!r} is a column of the same judge")
            if role != "judge" and names.setdefault(role, name) != name:
                raise ManifestError(f"--column {text!r}: {role} is {names[role]!r} already; a table has one")
        if "human" in names and not judges:
            raise ManifestError("--column human=…: name the judges too (judge=…); labels alone are score=…")
        if judges and "score" in names:
            raise ManifestError("--column: a table has scores (score=…), or verdicts (judge=…), not both")
        return cls(**names, judges=tuple(judges.values()))


USUAL = TableColumns()


@dataclass(frozen=True, slots=True)
class _Layout:
    """Columns of a table. ``model``: None: all rows are of one model. ``scores``: column by metric; not ``is_named``:
    they have the form of another program, and those that hold no numbers are none."""

    item: str
    model: str | None
    scores: Mapping[str, str]
    is_named: bool


def _layout(names: Collection[str], columns: TableColumns) -> _Layout | None:
    """Find the columns of scores among ``names``; None: the table is none of scores."""
    item, model, score = (
        given or next((name for name in usual if name in names), None)
        for given, usual in ((columns.item, _ITEMS), (columns.model, _MODELS), (columns.score, _SCORES))
    )
    if score is not None:
        scores = {score: score}
    else:
        ends = {name: end for end in reversed(_MLFLOW) for name in names if name.endswith(end)}
        scores = {name.removesuffix(end): name for name, end in ends.items()}
        scores = scores or {name: name for name in _RAGAS if name in names and "user_input" in names}
    is_of_one_model = bool(columns.score) or score is None
    if item is None or not scores or not (model or is_of_one_model):
        return None
    return _Layout(item, model, scores, score is not None)


def is_row(row: Object, columns: TableColumns) -> bool:
    """Return whether a row has the columns of a table of scores."""
    return _layout(row.keys(), columns) is not None


def is_table(path: Path, columns: TableColumns) -> bool:
    """Return whether a file of a table's form has these columns. Raises DataError where it cannot be read."""
    return path.suffix.lower() in _TABLES and any(is_row(row, columns) for row in islice(stream_rows(path), 1))


def read(path: Path, columns: TableColumns) -> list[ScoreFile]:
    """Read the scores, a file for each model and sample. Raises DataError with file, line or row, and reason."""
    files: dict[tuple[str, str, int, int], ScoreFile] = {}
    layout, unread = None, dict[str, str]()
    for location, row in stream_placed_rows(path):
        place = _place(path, location)
        layout = layout or _layout(row.keys(), columns)
        if layout is None:
            raise DataError(f"{place}: the row has no score")
        _check_columns((layout.item, layout.model, *layout.scores.values()), row, place)
        model = path.stem if layout.model is None else _needed(row, layout.model, place)
        provider = _text(row.get("provider")) or ""
        hints, sample = _whole(row, "n_hints", 0, place), _whole(row, "sample", 1, place)
        key = (model, provider, hints, sample)
        if (file := files.get(key)) is None:
            file = files[key] = ScoreFile(str(path), model, path.stem, provider, hints, sample)
        item, metric = _needed(row, layout.item, place), _text(row.get("metric"))
        for name, column in layout.scores.items():
            try:
                outcome = _outcome(row, column, place)
            except DataError:
                if layout.is_named:
                    raise
                unread.setdefault(name, place)
                continue
            file.add(metric or name, item, outcome, place)
    for file in files.values():
        file.lower_is_better = set(_LESS_IS_BETTER & file.metrics.keys())
        for name, place in unread.items():
            file.metrics.pop(name, None)
            file.notes.append(f"{place}: {name} is left out: it holds something else than numbers")
    return list(files.values())


def read_verdicts(path: Path, columns: TableColumns) -> GoldSet | None:
    """Read the verdicts of judges, and people's labels, on each answer: true or false, yes or no, 1 or 0; empty: none.

    None: the file has none. Raises DataError with file, line or row, and reason.
    """
    first = _first_row(path)
    item, model = (
        given or next((name for name in usual if name in first), usual[0])
        for given, usual in ((columns.item, _ITEMS), (columns.model, _MODELS))
    )
    if not columns.judges and (not _has_usual_judges(first) or _layout(first.keys(), columns) or item not in first):
        return None
    return parse_gold(_gold_rows(path, replace(columns, item=item, model=model)))


def _has_usual_judges(row: Row) -> bool:
    """Return whether a row has verdicts under their usual names. Gold sets say more of their judges so."""
    is_other = "judge" in row or any(name == ITEM or name.startswith(VERDICT["answer_correct"]) for name in row)
    return not is_other and any(name.startswith(_JUDGE) for name in row)


def _first_row(path: Path) -> Row:
    """Return the first row of a table; empty for another file, and for one that cannot be read: its reader says why."""
    if path.suffix.lower() not in (*_TABLES, ".jsonl"):
        return {}
    try:
        return next(stream_rows(path))
    except DataError:
        return {}


def _gold_rows(path: Path, columns: TableColumns) -> Iterator[tuple[RowLocation, Row]]:
    """Yield each row as one of a gold set. Lines of JSON may leave out what is null."""
    human = columns.human or ("" if columns.judges else _HUMAN)
    for number, (location, row) in enumerate(stream_placed_rows(path)):
        place = _place(path, location)
        if not number:
            _check_columns((columns.item, columns.model, *columns.judges, columns.human or None), row, place)
        name = _needed(row, columns.model, place)
        judges = {
            _judge(column): column for column in columns.judges or row if columns.judges or column.startswith(_JUDGE)
        }
        verdicts = {judge: _verdict(row, column, place) for judge, column in judges.items()}
        yield (
            location,
            {
                ITEM: _needed(row, columns.item, place),
                "model": name,
                "kind": _kind(row, place),
                "provider": _text(row.get("provider")) or name,
                "n_hints": _whole(row, "n_hints", 0, place),
                "sample": _whole(row, "sample", 1, place),
                **{VERDICT["answer_correct"] + judge: verdict for judge, verdict in verdicts.items()},
                **{VERDICT["justification_correct"] + judge: None for judge in verdicts},
                HUMAN["answer_correct"]: _verdict(row, human, place) if human else None,
                HUMAN["justification_correct"]: None,
            },
        )


def _judge(column: str) -> str:
    """Return the name of the judge whose verdicts are in a column."""
    return column.removeprefix(_JUDGE)


def _place(path: Path, location: RowLocation) -> str:
    return f"{path}, {'row' if path.suffix.lower() == _PARQUET else 'line'} {location.line}"


def _check_columns(names: Sequence[str | None], row: Row, place: str) -> None:
    if missing := [name for name in names if name is not None and name not in row]:
        raise DataError(f"{place}: there is no column {', '.join(map(repr, missing))} (columns: {', '.join(row)})")


def _outcome(row: Object, column: str, place: str) -> ItemOutcome:
    return ItemOutcome(_score(row.get(column), column, place), _kind(row, place), _text(row.get("flag")))


def _kind(row: Object, place: str) -> str:
    kind = _text(row.get("kind")) or str(PredictionKind.ANSWERED)
    if kind not in _KINDS:
        raise DataError(f"{place}: 'kind' is {kind!r}, and there are {', '.join(PredictionKind)}")
    return kind


def _score(value: JsonValue, column: str, place: str) -> float | None:
    """Read a score; null is outside the score. A decimal comma is read, as spreadsheet programs write it."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, str):
            text = value.strip().lower()
            number = _WORDS[text] if text in _WORDS else float(text.replace(",", "."))
        else:
            number = float(value)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if not math.isfinite(number):
        raise DataError(
            f"{place}: {column!r} is {str(value)[:40]!r}, not a number, true or false; where there is no score, leave "
            "it empty (in Python: None)"
        )
    return number


def _verdict(row: Object, column: str, place: str) -> bool | None:
    score = _score(row.get(column), column, place)
    if score not in (None, 0.0, 1.0):
        raise DataError(f"{place}: {column!r} is {score:g}; a verdict is true or false, yes or no, 1 or 0, or empty")
    return None if score is None else score == 1.0


def _needed(row: Object, column: str, place: str) -> str:
    text = _text(row.get(column))
    if not text:
        raise DataError(f"{place}: {column!r} is empty")
    return text


def _whole(row: Object, name: str, default: int, place: str) -> int:
    text = _text(row.get(name))
    if text is None:
        return default
    if not (text.isascii() and text.isdecimal() and len(text) < 10):
        raise DataError(f"{place}: {name!r} must be a whole number, not {text[:40]!r}")
    return int(text)


def _text(value: JsonValue) -> str | None:
    return None if value is None else str(value)
