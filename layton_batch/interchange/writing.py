"""A run in the forms that others read: which there are, and writing them to files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.errors import DataError, ManifestError

if TYPE_CHECKING:
    from layton_batch.files.run_folder import RunFolder
    from layton_batch.interchange.run_contents import RunContents
    from layton_batch.runs.context import Run
    from layton_batch.settings import Settings

Files = Iterable[tuple[str, bytes]]


@dataclass(frozen=True, slots=True)
class ExportArguments:
    """Descriptions of a run that other people's forms want."""

    organization: str = "not stated"
    dataset: str | None = None


_FILE_ENDINGS = (".csv", ".json", ".jsonl", ".parquet", ".zip")


def check_form(to: str) -> str:
    """Return the name of a form. Raises ManifestError for an unknown one."""
    forms = (*_single_files(), *_forms())
    if to not in forms:
        raise ManifestError(f"--to {to!r}: must be one of {', '.join(forms)}")
    return to


def check_out(to: str, out: Path) -> None:
    """Raise ManifestError for a file in the place of a folder or the reverse, and for an ending of another form."""
    is_file_name = out.suffix.lower() in _FILE_ENDINGS
    if to in _forms():
        if not out.is_dir() and (out.exists() or is_file_name):
            raise ManifestError(f"--out {out}: is a file; name a folder, for {to} writes several files")
        return
    ending = ".parquet" if to == "votes" else ".jsonl"
    if out.is_dir():
        raise ManifestError(f"--out {out}: is a folder; name a file")
    if is_file_name and out.suffix.lower() != ending:
        raise ManifestError(f"--out {out}: {to} is written as {ending}")


def write_form(run: Run, to: str, out: Path, arguments: ExportArguments) -> str:
    """Write a run in a form to a file or a folder. Return a sentence on what was written. See ``check_out``."""
    from layton_batch.files import atomic
    from layton_batch.interchange.run_contents import contents

    single = _single_files()
    if to in single:
        _check_sources(run, [out])
        return f"{single[to](run, out)} rows: {out}"
    written = list(_forms()[to](contents(run), arguments))
    _check_sources(run, [out / name for name, _ in written])
    for name, content in written:
        atomic.write_bytes(out / name, content)
    return f"{len(written)} files in {out}"


def _check_sources(run: Run, paths: Sequence[Path]) -> None:
    """Raise ManifestError where a file to write is the run's manifest or one that the manifest names."""
    replaced = [path for path in paths if path.exists()]
    if not replaced:
        return
    for key, source in _source_files(run):
        if path := next((path for path in replaced if path.samefile(source)), None):
            raise ManifestError(f"--out {path}: the file there is {key} of run {run.id}; name another file or folder")


def _source_files(run: Run) -> Iterator[tuple[str, Path]]:
    """Yield the run's manifest and the local files that it names, each with what it is."""
    from layton_batch.files.sources import local_files
    from layton_batch.runs.folders import manifest_files

    manifest = run.manifest
    yield from (("the manifest", path) for path in manifest_files(manifest.folder, run.id))
    gold, jury = manifest.gold, manifest.jury
    named = {
        "[items] source": manifest.items.source,
        "[gold] source": gold.source if gold else None,
        "[gold] annotations": gold.annotations if gold else None,
        "[jury] panel": jury.panel if jury else None,
        **{f"[prompts] {name}": path for name, path in manifest.prompts.items()},
    }
    for key, source in named.items():
        if source is not None:
            with suppress(DataError):  # an address, the package's own items, or a file that is gone
                yield from ((key, path) for path in local_files(source, manifest.folder, Path.cwd()))


def _single_files() -> Mapping[str, Callable[[Run, Path], int]]:
    """Return the writer of each form that is a single file. A writer returns its number of rows."""
    from layton_batch.interchange.item_file import write_items
    from layton_batch.interchange.run_contents import write_votes
    from layton_batch.reports.layton_files import write_annotations, write_ppi, write_results

    return {
        "ppi": write_ppi,
        "annotations": write_annotations,
        "results": write_results,
        "items": write_items,
        "votes": write_votes,
    }


def _forms() -> Mapping[str, Callable[[RunContents, ExportArguments], Files]]:
    """Return the writer of each form that is several files."""
    from layton_batch.interchange import every_eval_ever, hugging_face, run_contents

    return {
        "csv": lambda contents, _: run_contents.csv_files(contents),
        "parquet": lambda contents, _: run_contents.parquet_files(contents),
        "eee": lambda contents, arguments: every_eval_ever.write(contents, arguments.organization),
        "hf": lambda contents, arguments: hugging_face.files(contents, arguments.dataset),
    }


MOST_ANSWERS = 50_000
"""Limit of the answers in a site's file: more are too many for a page's visitor."""


def add_answers(folder: RunFolder, settings: Settings, path: Path) -> bool:
    """Write a run in the form of Every Eval Ever into one ZIP file.

    Return False, and write nothing, if no model is done, the run cannot be read, or it has too many answers.
    """
    from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

    from layton_batch.errors import LaytonBatchError
    from layton_batch.files import tables
    from layton_batch.interchange.run_contents import contents
    from layton_batch.runs.open import read_run

    try:
        if tables.read(folder.tables, "predictions", ["item_id"]).height > MOST_ANSWERS:
            return False
        with read_run(folder, settings) as run:
            written = list(_forms()["eee"](contents(run), ExportArguments()))
    except LaytonBatchError:
        return False
    with ZipFile(path, "w", ZIP_DEFLATED) as packed:
        for name, content in written:
            packed.writestr(ZipInfo(name), content, ZIP_DEFLATED)
    return True
