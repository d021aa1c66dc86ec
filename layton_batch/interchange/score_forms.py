"""Form of a file, and what several files give a board: models, one metric, and what a reader has to know."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from layton_batch.errors import DataError, ManifestError
from layton_batch.files import limits
from layton_batch.files.sheets import ENDINGS, WORKBOOK
from layton_batch.interchange import deepeval, every_eval_ever, inspect_logs, lm_eval, promptfoo, score_table
from layton_batch.interchange.score_file import Object, ScoreFile, content_of, object_of, reading
from layton_batch.interchange.score_table import USUAL, TableColumns

NAMES = (
    "tables of model, item_id and score, Every Eval Ever lines, inspect_ai logs (.eval, .json), "
    "lm-evaluation-harness samples, results of promptfoo and deepeval"
)


_ENDINGS = (".eval", ".json", ".jsonl", *ENDINGS, ".parquet")


def files_in(folder: Path) -> list[Path]:
    """Return the files of a folder of logs, also in folders within: lm-eval's samples, else those of one ending.

    Raises DataError for files of several endings, of which nobody knows what is meant.
    """
    if samples := sorted(folder.rglob("samples_*.jsonl")):
        return samples
    paths = sorted(path for path in folder.rglob("*") if path.suffix in _ENDINGS and path.is_file())
    if not paths:  # deepeval calls its files after a moment
        paths = sorted(path for path in folder.rglob("[!.]*") if not path.suffix and path.is_file())
    if len(endings := dict.fromkeys(path.suffix for path in paths)) > 1:
        raise DataError(f"{folder}: has {' and '.join(endings)} files; name the files that are to be ranked")
    return paths


_LINES = ((every_eval_ever.is_line, every_eval_ever.read_scores), (lm_eval.is_line, lm_eval.read))
_DOCUMENTS = (
    (every_eval_ever.is_document, lambda path, _: every_eval_ever.read_scores(every_eval_ever.samples_beside(path))),
    (inspect_logs.is_log, inspect_logs.read_document),
    (promptfoo.is_document, promptfoo.read),
    (deepeval.is_document, deepeval.read),
)
"""Forms that are known by a file's first line, and by the whole document, each with its reader."""


def read(path: Path, columns: TableColumns = USUAL) -> list[ScoreFile] | None:
    """Read a file in one of the forms; None for one in another. Raises DataError for what is broken in a form."""
    limits.check_is_file(path, str(path))
    if score_table.is_table(path, columns):
        return score_table.read(path, columns)
    if path.suffix == ".eval" or (path.suffix.lower() != WORKBOOK and zipfile.is_zipfile(path)):
        return inspect_logs.read_zip(path)
    if (first := _first_line(path)) is not None:
        for is_line, read_lines in _LINES:
            if is_line(first):
                return read_lines(path)
        if score_table.is_row(first, columns):
            return score_table.read(path, columns)
    if (document := _document(path)) is not None:
        for is_document, read_document in _DOCUMENTS:
            if is_document(document):
                return read_document(path, document)
        lm_eval.refuse_totals(path, document)
    return None


def named(files: Sequence[ScoreFile], name: str) -> list[ScoreFile]:
    """The files of one model under another name. Raises ManifestError where they are of several."""
    if len({file.model for file in files}) > 1:
        raise ManifestError(f"{name}={files[0].where}: the file holds several models; it cannot be called by one name")
    return [replace(file, model=name) for file in files]


# ---- which form ----------------------------------------------------------------------------------------------------


def _first_line(path: Path) -> Object | None:
    """The first line that is not empty, where it is a JSON object by itself."""
    with reading(path), path.open("rb") as handle:
        try:
            line = next((line for _, line in limits.lines(handle, str(path)) if line.strip()), b"")
        except DataError:
            return None  # too long for a line: it may be a document
    return _object(line)


def _document(path: Path) -> Object | None:
    return _object(content_of(path)) if path.suffix in (".json", "") else None


def _object(content: bytes) -> Object | None:
    try:
        return object_of(content, "")
    except DataError:
        return None
