"""grade: bring your own predictions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layton_batch.cli.run_commands import Json

if TYPE_CHECKING:
    from layton_batch.grading import Row


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("grade")(grade)


def grade(
    task: Annotated[str, typer.Argument(metavar="TASK", help="mcq_idk | zebralogic | rome")],
    predictions: Annotated[Path, typer.Option("--predictions", help="JSONL or Parquet; rome: its own forms too.")],
    items: Annotated[Path | None, typer.Option("--items", help="The gold; may be left out if rows carry it.")] = None,
    protocol: Annotated[
        str | None, typer.Option("--protocol", help="corrected (default) | original; zebralogic: zeroeval too.")
    ] = None,
    output: Annotated[Path | None, typer.Option("--output", help="Write the report into this file.")] = None,
    updated: Annotated[Path | None, typer.Option("--updated", help="rome: write every prediction, graded.")] = None,
    as_json: Json = False,
) -> None:
    """Grade predictions made elsewhere by a benchmark's rules."""
    from layton_batch import atomic
    from layton_batch.cli.grade_report import print_grades, report_text
    from layton_batch.cli.terminal import print_json
    from layton_batch.grading import grade_files
    from layton_batch.settings import Settings

    with _updating(updated) as add:
        report = grade_files(task, items, predictions, Settings.from_process(), protocol=protocol, updated=add)
    document = report.to_json()
    if output is not None:
        atomic.write_text(output, report_text(task, document))
    if as_json:
        print_json(document)
    elif output is None or updated is None:
        print_grades(task, document)


@contextmanager
def _updating(path: Path | None) -> Iterator[Callable[[Row], None] | None]:
    """A place for rome's graded rows: the published list, written row by row."""
    if path is None:
        yield None
        return
    import io

    from layton_batch import atomic
    from layton_batch.tasks.rome_rules.files import RowsFile

    with atomic.writing(path) as handle:
        text = io.TextIOWrapper(handle, encoding="utf-8", errors="replace", newline="\n")
        rows = RowsFile(text)
        yield rows.add
        rows.close()
        text.detach()  # flushes; the file itself is closed by who opened it
