"""Predictions made elsewhere, read and reported as ``grade`` does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import polars as pl

from layton_batch.tasks import load_task
from layton_batch.tasks.offline import FileRow, GradingOptions, OfflineForm, offline_form
from layton_batch.tasks.protocol import TaskOptions


def form(task: str, protocol: str | None = None, **asked: Any) -> OfflineForm:
    rules: Any = load_task(task, TaskOptions("llm"), {} if protocol is None else {"protocol": protocol})
    return offline_form(rules, GradingOptions(**asked))


def graded(
    of: OfflineForm, items: Iterable[FileRow] | None, rows: Iterable[FileRow], updated: list[FileRow] | None = None
) -> pl.DataFrame:
    """The graded rows."""
    return of.graded(rows, None if items is None else of.items(items), updated)


def report(of: OfflineForm, items: Iterable[FileRow] | None, rows: Iterable[FileRow]) -> dict[str, Any]:
    """The benchmark's own report of all rows."""
    return dict(of.report(graded(of, items, rows)))
