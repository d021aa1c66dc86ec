"""Common failures: items that no model gets right, and one wrong answer that several models give."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from layton_batch.site.downloads import no_formula
from layton_batch.site.pages import short_line, write

NAME = "wrong.html"
ALL_WRONG, SAME_ANSWER = "all_wrong.csv", "same_wrong_answer.csv"
LEAST_MODELS = 2
_EDGES = " \t\n.,;:!?\"'“”‘’()[]*_"


@dataclass(frozen=True, slots=True)
class AgreedAnswer:
    """A wrong answer as the first of its models wrote it."""

    text: str
    models: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ItemFailures:
    """``name``: the file name of its page; ``shared``: the wrong answer of most models, None if no two share one."""

    name: str
    item_id: str
    category: str
    excerpt: str
    is_all_wrong: bool
    shared: AgreedAnswer | None


def shared_answer(wrong: Iterable[tuple[str, str]]) -> AgreedAnswer | None:
    """Return the answer that most models give. ``wrong``: model and answer of each wrong reply.

    Capitals, blanks and marks at the ends do not count.
    """
    groups: dict[str, tuple[str, dict[str, None]]] = {}
    for model, text in wrong:
        key = " ".join(text.casefold().split()).strip(_EDGES)
        if key:
            groups.setdefault(key, (text, {}))[1][model] = None
    text, models = max(groups.values(), key=lambda group: len(group[1]), default=("", {}))
    return AgreedAnswer(short_line(text, 300), tuple(models)) if len(models) >= LEAST_MODELS else None


def write_wrong(folder: Path, items: Sequence[ItemFailures], about: Mapping[str, object]) -> None:
    """Write the page of both lists beside the items' pages, and each list as CSV."""
    all_wrong = [item for item in items if item.is_all_wrong]
    shared = [(item, item.shared) for item in items if item.shared is not None]
    shared.sort(key=lambda pair: -len(pair[1].models))
    _write_csv(folder / ALL_WRONG, ("item_id", "category", "question"),
               [(item.item_id, item.category, item.excerpt) for item in all_wrong])  # fmt: skip
    _write_csv(folder / SAME_ANSWER, ("item_id", "category", "question", "answer", "models", "names"),
               [(item.item_id, item.category, item.excerpt, answer.text, str(len(answer.models)),
                 "; ".join(answer.models)) for item, answer in shared])  # fmt: skip
    files = {"all_wrong_file": ALL_WRONG, "shared_file": SAME_ANSWER}
    write(folder / NAME, "wrong.html", **about, **files, all_wrong=all_wrong, shared=shared)


def _write_csv(path: Path, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    safe = [[no_formula(cell) for cell in row] for row in rows]
    pl.DataFrame(safe, dict.fromkeys(columns, pl.String), orient="row").write_csv(path)
