"""The list of a site's files with their digests, by which a downloaded copy can be checked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

import orjson

from layton_batch.files.atomic import file_digest

DIGESTS = "digests.json"
_MOST_NAMED = 20


def write_digests(site: Path, names: Iterable[str] | None = None) -> None:
    """Write the list for a site, or for some of its files."""
    (site / DIGESTS).write_bytes(_list(site, sorted(names) if names is not None else _names(site)))


def differing_files(site: Path) -> Iterator[str]:
    """Yield a sentence for each file of a site that is not as its list says. Raises OSError."""
    path = site / DIGESTS
    content = path.read_bytes()
    try:
        listed: dict[str, dict[str, object]] = dict(orjson.loads(content)["files"])
        names = sorted(map(str, listed))
    except (ValueError, KeyError, TypeError):
        yield f"{path}: is damaged: it is no list of digests"
        return
    gone = [name for name in names if not (is_file_name(name) and _is_below(site, name) and (site / name).is_file())]
    yield from (f"{site / name[:_LONGEST_PART]}: is gone, or {path} is damaged" for name in gone)
    for name in names if not gone else [name for name in names if name not in gone]:
        file = file_digest(site / name, name)
        if listed[name] != {"bytes": file.size_bytes, "sha256": file.sha256}:
            yield f"{site / name}: was changed since the site was written, or its line in {path} was"
    if not gone and content != _list(site, names):
        yield f"{path}: is not as it was written, or lists a file that was changed"
    if "index.html" in names and "front.json" not in names:
        for name in sorted(set(_names(site)) - set(names))[:_MOST_NAMED]:
            yield f"{site / name}: is no part of the site: {path} does not list it"


_LONGEST_PART, _LONGEST_NAME = 255, 1_000
"""Limits of file systems, in bytes."""


def is_file_name(name: str) -> bool:
    """Return whether a name from a list of digests, which may be a stranger's, can be one of a file below a site."""
    parts = name.split("/")
    is_short = len(name.encode()) <= _LONGEST_NAME and all(len(part.encode()) <= _LONGEST_PART for part in parts)
    return is_short and name.isprintable() and set(parts).isdisjoint({"", ".", ".."})


def _is_below(site: Path, name: str) -> bool:
    return (site / name).resolve().is_relative_to(site.resolve())


def _list(site: Path, names: Iterable[str]) -> bytes:
    files = {name: file_digest(site / name, name) for name in names}
    rows = {name: {"bytes": file.size_bytes, "sha256": file.sha256} for name, file in files.items()}
    document = {"generator": "layton-batch", "files": rows}
    return orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)


def _names(site: Path) -> list[str]:
    paths = (path for path in site.rglob("*") if path.is_file())
    return sorted(name for path in paths if (name := path.relative_to(site).as_posix()) != DIGESTS)
