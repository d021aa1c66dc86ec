"""export: a run in the forms that others read."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layton_batch.cli.run_commands import RUNS, RunName, Runs

if TYPE_CHECKING:
    from layton_batch.exports.run_contents import RunContents
    from layton_batch.files.run_folder import RunFolder
    from layton_batch.runs.context import Run

Files = Iterable[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class ExportArguments:
    """Options of `export` that describe the run to other people's forms."""

    organization: str
    dataset: str | None
    task_id: str | None
    source_url: str | None


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command("export")(export)


def export(
    run_name: RunName,
    to: Annotated[
        str,
        typer.Option(
            "--to", metavar="FORM", help="ppi | annotations | results | items | votes | csv | parquet | eee | hf"
        ),
    ],
    out: Annotated[
        Path, typer.Option("--out", help="The file to write (ppi, annotations, results, items, votes), or the folder.")
    ],
    organization: Annotated[str, typer.Option("--organization", help="eee: who evaluated.")] = "not stated",
    dataset: Annotated[str | None, typer.Option("--dataset", help="hf: the benchmark, OWNER/NAME.")] = None,
    task_id: Annotated[str | None, typer.Option("--task-id", help="hf: the id in the benchmark's eval.yaml.")] = None,
    source_url: Annotated[str | None, typer.Option("--source-url", help="hf: where the run can be seen.")] = None,
    runs: Runs = RUNS,
) -> None:
    """Write a run down in the forms that others read. No network, no key.

    ppi, annotations, results: layton-eval's three files, JSONL: every answer with the verdicts and the label on it;
    the labels that people gave; the leaderboard. items: JSONL, the items with the explanations that people confirmed
    (`role = "justify"`). votes: Parquet, a row a prediction and metric, for a folder that `leaderboard` ranks with all
    that was put there. csv, parquet: the leaderboard, and every prediction with its verdicts
    or marks. eee: Every Eval Ever 0.3.0, a document a model and a line an item and metric, in its data store's folders;
    `leaderboard` reads the lines. hf: a file a model for `.eval_results/` of its repository on the hub. Models that are
    not done yet are left out of the last five.
    """
    from layton_batch.cli.terminal import say
    from layton_batch.errors import ManifestError
    from layton_batch.exports.run_contents import contents
    from layton_batch.files import atomic
    from layton_batch.runs.folders import find_run
    from layton_batch.runs.open import read_run
    from layton_batch.settings import Settings

    single, forms = _single_files(), _forms()
    if to not in single.keys() | forms.keys():
        raise ManifestError(f"--to {to!r}: one of {', '.join((*single, *forms))}")
    if to in forms and out.exists() and not out.is_dir():
        raise ManifestError(f"--out {out}: is a file; name a folder")
    with read_run(find_run(run_name, runs), Settings.from_process()) as run:
        if to in single:
            say(f"{single[to](run, out)} rows: {out}")
            return
        written = list(forms[to](contents(run), ExportArguments(organization, dataset, task_id, source_url)))
    for name, content in written:
        atomic.write_bytes(out / name, content)
    say(f"{len(written)} files in {out}")


def _single_files() -> Mapping[str, Callable[[Run, Path], int]]:
    """Return the writer of each form that is a single file. A writer returns its number of rows."""
    from layton_batch.exports.item_file import write_items
    from layton_batch.exports.votes import write_votes
    from layton_batch.reports.layton_files import write_annotations, write_ppi, write_results

    return {
        "ppi": write_ppi,
        "annotations": write_annotations,
        "results": write_results,
        "items": write_items,
        "votes": write_votes,
    }


def _forms() -> Mapping[str, Callable[[RunContents, ExportArguments], Files]]:
    from layton_batch.exports import flat

    return {
        "csv": lambda contents, _: flat.csv_files(contents),
        "parquet": lambda contents, _: flat.parquet_files(contents),
        "eee": _eee,
        "hf": _hf,
    }


def _eee(contents: RunContents, arguments: ExportArguments) -> Files:
    from layton_batch.exports.every_eval_ever import EvaluationNames, files

    manifest = contents.run.manifest
    benchmark = f"{manifest.task}-{manifest.items.split}"
    return files(contents, EvaluationNames(benchmark, arguments.organization, contents.run.clock.now()))


MOST_ANSWERS = 50_000
"""That a site has in a file; more are too many for a page's visitor."""


def add_answers(folder: RunFolder, path: Path) -> bool:
    """Write a run in the form of Every Eval Ever into one ZIP file.

    Return False, and write nothing, if no model is done, the run cannot be read, or it has too many answers.
    """
    from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

    from layton_batch.errors import LaytonBatchError
    from layton_batch.exports.run_contents import contents
    from layton_batch.files import tables
    from layton_batch.runs.open import read_run
    from layton_batch.settings import Settings

    try:
        if tables.read(folder.tables, "predictions", ["item_id"]).height > MOST_ANSWERS:
            return False
        with read_run(folder, Settings.from_process()) as run:
            written = list(_eee(contents(run), ExportArguments("not stated", None, None, None)))
    except LaytonBatchError:
        return False
    with ZipFile(path, "w", ZIP_DEFLATED) as packed:
        for name, content in written:
            packed.writestr(ZipInfo(name), content, ZIP_DEFLATED)
    return True


def _hf(contents: RunContents, arguments: ExportArguments) -> Files:
    from layton_batch.exports.hugging_face import benchmark_of, files

    return files(contents, benchmark_of(contents, arguments.dataset, arguments.task_id, arguments.source_url))
