"""Content of every form: the marks of one model on the items of one evaluation, by metric; and reading it safely."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from layton_batch.errors import DataError
from layton_batch.files import limits
from layton_batch.providers.wire_json import well_formed
from layton_batch.records import JsonValue

LARGEST_JSON = 512 * 1024 * 1024
"""Bytes of one JSON document that are read at most, counted when it is unpacked."""

ROUNDING = 1e-9
"""The most by which a mark may exceed the best mark: sums of floats do."""

Object = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ItemOutcome:
    """Result of an item on a board: its mark (None: outside the score), a kind of ``PredictionKind``, and the failure.

    ``failure``: None for a right answer.
    """

    mark: float | None
    kind: str
    failure: str | None


@dataclass(slots=True)
class ScoreFile:
    """One model's marks on one evaluation. ``metrics``: by metric and item; the first is the one the file itself puts
    first. ``sample``: which of the model's answers to an item. ``questions``: by item, something that differs where
    the questions do, under the name of what it was made from.
    ``largest``, ``least``: by metric, the highest and the lowest mark there can be, where the file says so.
    ``lower_is_better``: metrics. ``evaluation``: what it has in common with its other attempts, of which some were cut
    short (``is_cut``)."""

    where: str
    model: str
    task: str
    provider: str = ""
    n_hints: int = 0
    sample: int = 1
    metrics: dict[str, dict[str, ItemOutcome]] = field(default_factory=dict)
    questions: dict[str, tuple[str, int]] = field(default_factory=dict)
    largest: dict[str, float] = field(default_factory=dict)
    least: dict[str, float] = field(default_factory=dict)
    lower_is_better: set[str] = field(default_factory=set)
    notes: list[str] = field(default_factory=list)
    evaluation: str = ""
    is_cut: bool = False

    def add(self, metric: str, item: str, outcome: ItemOutcome, place: str) -> None:
        """Raises DataError naming the place for an item that has a mark by this metric already."""
        marks = self.metrics.setdefault(metric, {})
        if item in marks:
            raise DataError(
                f"{place}: item {item!r} of model {self.model!r} has a mark by {metric!r} already; "
                "a board needs one mark an item. If the model answered it several times, number its answers in a "
                "column 'sample'"
            )
        marks[item] = outcome


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Raise DataError for a file or folder that cannot be read."""
    try:
        yield
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error


def json_lines(path: Path) -> Iterator[tuple[str, Object]]:
    """The objects of a JSONL file, and where each is. Raises DataError with file, line and reason.

    ``NaN`` and ``Infinity`` are read: Python programs write them.
    """
    limits.check_is_file(path, str(path))
    with reading(path), path.open("rb") as handle:
        for number, line in limits.lines(handle, str(path)):
            if line.strip():
                place = f"{path}, line {number}"
                yield place, object_of(line, place)


def document_of(path: Path) -> Object:
    """Read the JSON object that a file is. Raises DataError for what is none, or larger than ``LARGEST_JSON``."""
    return object_of(content_of(path), str(path))


def content_of(path: Path) -> bytes:
    """Return what a file holds. Raises DataError for one that cannot be read, or larger than ``LARGEST_JSON``."""
    with reading(path):
        if path.stat().st_size > LARGEST_JSON:
            raise DataError(f"{path}: is larger than {LARGEST_JSON >> 20} MiB")
        return path.read_bytes()


def object_of(content: bytes, place: str) -> Object:
    """Read a JSON object; half a surrogate pair becomes U+FFFD. Raises DataError for what is none."""
    try:
        value = json.loads(content)
        value = well_formed(value) if b"\\u" in content else value
    except UnicodeDecodeError as error:
        raise DataError(f"{place}: not UTF-8 (byte {error.start + 1} is {content[error.start]:#04x})") from error
    except (ValueError, RecursionError) as error:
        raise DataError(f"{place}: not JSON: {str(error)[:200]}") from error
    if not isinstance(value, dict):
        raise DataError(f"{place}: an object is expected")
    return value


def text_at(row: Object, name: str, place: str) -> str:
    """A text that must be there. Raises DataError where it is not."""
    value = row.get(name)
    if not isinstance(value, str) or not value:
        raise DataError(f"{place}: {name!r} must be a text that is not empty")
    return value


def object_at(row: Object, name: str, place: str) -> Object:
    """An object that must be there. Raises DataError where it is not."""
    value = row.get(name)
    if not isinstance(value, Mapping):
        raise DataError(f"{place}: {name!r} must be an object")
    return value


def number_of(value: object) -> float | None:
    """A finite number, or true and false as 1 and 0; None for anything else."""
    if isinstance(value, bool | int | float):
        try:
            number = float(value)
        except OverflowError:
            return None
        return number if math.isfinite(number) else None
    return None


def fingerprint(*parts: object) -> int:
    """Hash a question. Hashes are comparable within this process only."""
    return hash(tuple(json.dumps(part, sort_keys=True, default=str) for part in parts))
