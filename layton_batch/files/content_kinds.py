"""Kinds of files that their first bytes show, whatever the name ends in."""

from __future__ import annotations

import re
from pathlib import PurePath

from layton_batch.errors import DataError

ITEM_ENDINGS = (".csv", ".tsv", ".json", ".jsonl", ".parquet", ".xlsx")
"""Name endings of files of items."""
START_BYTES = 512
"""Bytes of a file's beginning that show its kind."""
PARQUET_MAGIC = b"PAR1"
_WORKBOOK, _PARQUET = ".xlsx", ".parquet"
_SAVE = "save the sheet as CSV in UTF-8"
_BINARY_KINDS = (
    (b"PK\x03\x04", "a ZIP archive, as Excel workbooks are", f"name it .xlsx if it is a workbook, or {_SAVE}"),
    (b"\xd0\xcf\x11\xe0", "an older Excel file, or a workbook with a password", f"{_SAVE}, or as .xlsx without one"),
    (PARQUET_MAGIC, "a Parquet file", "let its name end in .parquet"),
    (b"\x1f\x8b", "compressed with gzip", "unpack it, as with gunzip"),
    (b"%PDF", "a PDF document", "give the table itself, as CSV in UTF-8"),
)
"""First bytes of a kind, its description, and what to do where another kind is expected."""
_PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype|html|head|body|table|\?xml)\b", re.IGNORECASE)
_OWN_START = {_WORKBOOK: b"PK\x03\x04", _PARQUET: PARQUET_MAGIC}
"""First bytes of the files that end so."""
_EXPECTED = {_WORKBOOK: "an .xlsx workbook", _PARQUET: "a Parquet file", ".csv": "CSV", ".tsv": "a table with tabs"}


def check_kind(start: bytes, ending: str, name: str) -> None:
    """Raise DataError where a file begins as another kind than its ending says, with what to do.

    ``start``: its first bytes; ``ending``: of its name, in lower case. A Parquet file may have any other name.
    """
    if ending == ".toml":
        raise DataError(
            f"{name}: is TOML, not a file of rows; `layton-batch run` takes a manifest, whose `source` under [items] "
            "names the file of its questions"
        )
    own = _OWN_START.get(ending)
    if own is not None and start.startswith(own):
        return
    expected = _EXPECTED.get(ending, "JSON")
    for magic, kind, advice in _BINARY_KINDS:
        if start.startswith(magic) and not (magic == PARQUET_MAGIC and ending not in _EXPECTED):
            raise DataError(f"{name}: is {kind}, not {expected}; {advice}")
    if _PAGE.match(start):
        advice = f"open it in a spreadsheet program and {_SAVE}; if it was downloaded, the page may say why"
        raise DataError(f"{name}, line 1: begins as a web page (HTML or XML), not {expected}; {advice}")
    if own is not None:
        raise DataError(f"{name}: {_not_binary(start, expected, PurePath(name))}")


def _not_binary(start: bytes, expected: str, path: PurePath) -> str:
    """Say what a file is that must be binary and begins as no known kind."""
    if not start:
        return f"is empty, not {expected}; save or download it again"
    if b"\0" in start:
        return f"is not {expected}; save or download it again"
    ending = ".jsonl" if start.lstrip()[:1] == b"{" else ".csv"
    return f"is text, not {expected}; if it is {ending[1:].upper()}, name it {path.with_suffix(ending).name}"
