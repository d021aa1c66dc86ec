"""A run in the forms that others read: which there are, and writing them to files."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from layton_batch.errors import DataError, LaytonBatchError, ManifestError
from layton_batch.files import atomic, tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.files.sources import local_files
from layton_batch.interchange import every_eval_ever, hugging_face
from layton_batch.interchange.run_contents import contents, csv_files, parquet_files, write_items, write_votes
from layton_batch.reports.layton_files import write_annotations, write_ppi, write_results
from layton_batch.runs.context import Run
from layton_batch.runs.folders import manifest_files
from layton_batch.runs.open import read_run
from layton_batch.settings import Settings

UNNAMED_ORGANIZATION = "not stated"
_FILE_ENDINGS = (".csv", ".json", ".jsonl", ".parquet", ".zip")
_SINGLE_FILES: Mapping[str, Callable[[Run, Path], int]] = {
    "ppi": write_ppi,
    "annotations": write_annotations,
    "results": write_results,
    "items": write_items,
    "votes": write_votes,
}
"""Writers of the forms that are a single file. A writer returns its number of rows."""
_FOLDERS = ("csv", "parquet", "eee", "hf")
"""Forms that are several files."""


def check_form(to: str) -> str:
    """Return the name of a form. Raises ManifestError for an unknown one."""
    forms = (*_SINGLE_FILES, *_FOLDERS)
    if to not in forms:
        raise ManifestError(f"--to {to!r}: must be one of {', '.join(forms)}")
    return to


def check_out(to: str, out: Path) -> None:
    """Raise ManifestError for a file in the place of a folder or the reverse, and for an ending of another form."""
    is_file_name = out.suffix.lower() in _FILE_ENDINGS
    if to in _FOLDERS:
        if not out.is_dir() and (out.exists() or is_file_name):
            raise ManifestError(f"--out {out}: is a file; name a folder, for {to} writes several files")
        return
    ending = ".parquet" if to == "votes" else ".jsonl"
    if out.is_dir():
        raise ManifestError(f"--out {out}: is a folder; name a file")
    if is_file_name and out.suffix.lower() != ending:
        raise ManifestError(f"--out {out}: {to} is written as {ending}")


def write_form(
    run: Run, to: str, out: Path, organization: str = UNNAMED_ORGANIZATION, dataset: str | None = None
) -> str:
    """Write a run in a form to a file or a folder. Return a sentence on what was written. See ``check_out``."""
    if to in _SINGLE_FILES:
        _check_sources(run, [out])
        return f"{_SINGLE_FILES[to](run, out)} rows: {out}"
    written = list(_files(run, to, organization, dataset))
    _check_sources(run, [out / name for name, _ in written])
    for name, content in written:
        atomic.write_bytes(out / name, content)
    return f"{len(written)} files in {out}"


def _files(run: Run, to: str, organization: str, dataset: str | None) -> Iterable[tuple[str, bytes]]:
    """Return names and contents of the files of a form."""
    match to:
        case "csv":
            return csv_files(contents(run))
        case "parquet":
            return parquet_files(contents(run))
        case "eee":
            return every_eval_ever.write(contents(run), organization)
    return hugging_face.files(contents(run), dataset)


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


MOST_ANSWERS = 50_000
"""Limit of the answers in a site's file: more are too many for a page's visitor."""


def add_answers(folder: RunFolder, settings: Settings, path: Path) -> bool:
    """Write a run in the form of Every Eval Ever into one ZIP file.

    Return False, and write nothing, if no model is done, the run cannot be read, or it has too many answers.
    """
    try:
        if tables.read(folder.tables, "predictions", ["item_id"]).height > MOST_ANSWERS:
            return False
        with read_run(folder, settings) as run:
            written = list(_files(run, "eee", UNNAMED_ORGANIZATION, None))
    except LaytonBatchError:
        return False
    with ZipFile(path, "w", ZIP_DEFLATED) as packed:
        for name, content in written:
            packed.writestr(ZipInfo(name), content, ZIP_DEFLATED)
    return True
