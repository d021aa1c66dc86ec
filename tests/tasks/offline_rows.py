"""Predictions made elsewhere, graded row by row as ``grade`` does, with the report that tests look at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from layton_batch.grading.forms import form_of
from layton_batch.records import Item
from layton_batch.tasks.offline import FileRow, GradedReply, GradingOptions, OfflineForm, RowsFile


def form(task: str, protocol: str | None = None, **asked: Any) -> OfflineForm:
    return form_of(task, protocol, GradingOptions(**asked))


def graded(of: OfflineForm, items: Iterable[FileRow] | None, rows: Iterable[FileRow]) -> Iterator[GradedReply]:
    """As a stream."""
    return of.graded(_items(of, items), rows, "m")


def grade_rows(
    of: OfflineForm, items: Iterable[FileRow] | None, rows: Iterable[FileRow], updated: RowsFile | None = None
) -> Any:
    """The benchmark's own report of all of them."""
    known = _items(of, items)
    report = of.report(known, updated)
    for reply in of.graded(known, rows, "m"):
        report.add(reply)
    return report


def _items(of: OfflineForm, rows: Iterable[FileRow] | None) -> list[Item] | None:
    return None if rows is None else list(of.items(list(rows)))
