"""Manifests that commands write for their arguments: `run FILE --model …`, `run TASK --model …` and `judge FILE`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from layton_batch.commands.notes import note
from layton_batch.errors import ManifestError
from layton_batch.files import atomic
from layton_batch.manifest.checks import load_manifest, manifest_of_tables
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import JsonValue

Table = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ManifestContent:
    """Content of a manifest for ``path``. ``comment``: its first line. ``tables``: keys, tables, and lists of tables;
    an empty table is left out. Without ``jury`` a manifest at the path may have any."""

    path: Path
    comment: str
    tables: Mapping[str, str | Table | Sequence[Table]]

    def checked(self) -> Manifest:
        """Return the manifest at the path; if none is there, that of this content, which can be read from any folder.

        Raises ManifestError for wrong content, and where the manifest at the path asks for something else.
        """
        content = {name: value for name, value in self.tables.items() if value}
        manifest = manifest_of_tables(content, self.path.resolve().parent, "run", {})
        if not self.path.exists():
            return manifest
        written = load_manifest(self.path)
        is_stated = "jury" in self.tables
        if keys := [key for key in written.differing_keys(manifest) if is_stated or not key.startswith("jury")]:
            raise ManifestError(
                f"{self.path} is there and asks for something else ({', '.join(keys)}): edit it and `run` it"
            )
        return written

    def write(self) -> Path:
        """Write the manifest, unless one is there: that one may have other labels or another budget."""
        if not self.path.exists():
            atomic.write_text(self.path, "".join(f"{line}\n" for line in (f"# {self.comment}", *_lines(self.tables))))
            note(f"{self.path}: the manifest of this run; edit it at any time")
        return self.path


def _lines(table: Mapping[str, object], name: str = "") -> Iterator[str]:
    """Yield the keys of a table, then the tables in it. ``name``: of the table, with a point at its end."""
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping | list | tuple)}
    yield from (f"{key} = {_toml(value)}" for key, value in table.items() if key not in inner)
    for key, value in inner.items():
        tables, head = (value, f"[[{name}{key}]]") if isinstance(value, Sequence) else ([value], f"[{name}{key}]")
        for each in filter(None, tables):
            yield head
            yield from _lines(each, f"{name}{key}.")


def _toml(value: object) -> str:
    """Return a TOML value: JSON's escapes are TOML's, but for the delete character and halves of pairs."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
