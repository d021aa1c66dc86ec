"""What `grade` is asked for, and the files it writes besides its report."""

from __future__ import annotations

import io
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.errors import ManifestError
from layton_batch.tasks.offline import GradingOptions, OfflineForm, RowsFile
from layton_batch.text import one_line

if TYPE_CHECKING:
    import altair as alt

PICTURES = (".svg", ".png")


@dataclass(frozen=True, slots=True)
class Asked:
    """The command line of `grade`, as ``grade_commands.grade`` takes it."""

    task: str
    predictions: tuple[str, ...]
    items: Path | None
    protocol: str | None
    metric: str | None
    samples: str | None
    output: Path | None
    updated: Path | None
    table: str | None
    chart: Path | None
    risk_chart: Path | None
    ensembles: bool
    rounds: bool
    benchmark: str | None
    runs: Path
    as_json: bool


def form_for(asked: Asked) -> OfflineForm:
    """The benchmark's form. Raises ManifestError for what does not go together, before anything is read or written."""
    from layton_batch.grading.forms import check_option, chosen_metric, form_of

    options = GradingOptions(
        samples=asked.samples,
        ensembles=asked.ensembles,
        benchmark=asked.benchmark,
        keep_rows=asked.as_json or asked.output is not None or asked.ensembles,
        title=one_line(asked.benchmark or ""),
    )
    form = form_of(asked.task, asked.protocol, options)
    chosen_metric(asked.task, form, asked.metric)
    for option, given in (
        ("--samples", asked.samples),
        ("--updated", asked.updated),
        ("--rounds", asked.rounds),
        ("--chart", asked.chart),
        ("--table", asked.table),
        ("--risk-chart", asked.risk_chart),
        ("--ensembles", asked.ensembles),
        ("--benchmark", asked.benchmark),
    ):
        if given:
            check_option(form, option)
    for option, path in (("--chart", asked.chart), ("--risk-chart", asked.risk_chart)):
        _check_picture(option, path)
    if asked.table == "-" and asked.as_json:
        raise ManifestError("grade: --table - and --json both write on stdout; give --table a file")
    for written in _written(asked):
        _check_writable(written)
    return form


def _check_writable(path: Path) -> None:
    """What can be known before the work is done."""
    if path.is_dir():
        raise ManifestError(f"grade: {path} is a folder; name a file to write")
    folder = next(one for one in path.absolute().parents if one.exists())
    if not folder.is_dir() or not os.access(folder, os.W_OK):
        raise ManifestError(f"grade: {path} cannot be written: {folder} is no folder that we may write in")


def _written(asked: Asked) -> Iterator[Path]:
    """The files that will be there. Raises ManifestError for one that is meant twice, or that is read."""
    table = Path(asked.table) if asked.table not in (None, "-") and asked.table else None
    paths = [path for path in (asked.output, asked.updated, asked.chart, asked.risk_chart, table) if path is not None]
    read = {Path(text).absolute() for text in asked.predictions} | ({asked.items.absolute()} if asked.items else set())
    for path in paths:
        if [one.absolute() for one in paths].count(path.absolute()) > 1:
            raise ManifestError(f"grade: {path} is to be written twice")
        if path.absolute() in read:
            raise ManifestError(f"grade: {path} is read; write into another file")
        yield path


def _check_picture(option: str, path: Path | None) -> None:
    if path is None:
        return
    if path.suffix.lower() not in PICTURES:
        raise ManifestError(f"grade: {option} {path}: a picture's name ends in {' or '.join(PICTURES)}")
    import layton_batch.tasks.charts  # noqa: F401  FileError without the extra, before anything is graded


def picture(path: Path, chart: alt.LayerChart) -> bytes:
    """The chart as the name's ending says."""
    from layton_batch.tasks.charts import rendered

    return rendered(chart, path.suffix)


@contextmanager
def updating(path: Path | None) -> Iterator[RowsFile | None]:
    """A place for graded rows, written row by row. The file is there when the block ends well."""
    if path is None:
        yield None
        return
    from layton_batch.files import atomic

    with atomic.writing(path) as handle:
        text = io.TextIOWrapper(handle, encoding="utf-8", errors="replace", newline="\n")
        rows = RowsFile(text)
        try:
            yield rows
            rows.close()
        finally:
            text.detach()  # flushes; the file itself is closed by who opened it
