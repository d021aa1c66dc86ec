"""The page of the method: what each number means, and what a reader needs to check or repeat the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import orjson
from markupsafe import Markup

from layton_batch import __version__
from layton_batch.errors import FileError
from layton_batch.files.run_folder import RunFolder
from layton_batch.site.board_table import Board
from layton_batch.site.html_table import plain_table
from layton_batch.site.pages import ShownText, passage, short_line
from layton_batch.site.run_tables import BoardSettings
from layton_batch.site.terms import terms
from layton_batch.text import Table, columns

_QUIET = ("name", "models", "prices", "prompts", "limits")
"""Parts of a manifest that have a place of their own, or say nothing of what was asked."""


@dataclass(frozen=True, slots=True)
class MethodView:
    """``words``: terms and what they mean; ``settings``: the manifest's, by key. Tables are empty without rows."""

    words: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    models: Markup
    judges: Markup
    revisions: Markup
    prompts: tuple[tuple[str, ShownText], ...]
    hashes: Markup
    identity: str
    version: str
    manifest: ShownText | None


def show_method(folder: RunFolder, ask: BoardSettings, boards: tuple[Board, Board | None]) -> MethodView:
    """Describe the method from the frozen manifest; only the terms if the manifest cannot be read.

    ``boards``: the shown board, and the board on this set where it differs. Raises FileError for a file that cannot
    be read.
    """
    frozen = _frozen(folder)
    manifest = _table(frozen.get("manifest"))
    prompts = _table(frozen.get("prompts"))
    return MethodView(
        words=terms(*boards, has_hints=ask.hints is not None),
        settings=tuple(_settings(manifest)),
        models=_shown("Models, as they were asked", _MODEL, map(_model, _tables(manifest.get("models")))),
        judges=_shown("Judges, as they were asked", _MODEL, map(_model, _tables(frozen.get("panel")))),
        revisions=_shown("Revisions of the manifest", _REVISION, map(_revision, _tables(frozen.get("revisions")))),
        prompts=tuple((short_line(name), shown) for name, text in prompts.items() if (shown := passage(str(text)))),
        hashes=_shown("Files and their SHA-256", ("file", "SHA-256"), _hashes(folder)),
        identity=short_line(frozen.get("identity")),
        version=__version__,
        manifest=passage(orjson.dumps(manifest, option=orjson.OPT_INDENT_2).decode()) if manifest else None,
    )


def _frozen(folder: RunFolder) -> Mapping[str, object]:
    try:
        return _table(orjson.loads(folder.manifest.read_bytes()))
    except (OSError, ValueError):
        return {}


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _tables(value: object) -> list[Mapping[str, object]]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _settings(manifest: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in manifest.items():
        if key in _QUIET:
            continue
        for name, setting in _table(value).items():
            if setting not in ({}, [], None):
                yield short_line(f"{key}.{name}"), _value(setting)
        if not isinstance(value, dict) and value is not None:
            yield short_line(key), _value(value)


def _value(value: object) -> str:
    return short_line(value if isinstance(value, str) else orjson.dumps(value).decode(), 300)


_MODEL = ("name", "provider", "model id", "most output tokens", "settings")
_REVISION = ("no.", "at", "changes", "SHA-256")


def _shown(caption: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    lines = tuple(map(tuple, rows))
    return plain_table(Table(columns(*names, text=names), lines), caption) if lines else Markup()


def _model(spec: Mapping[str, object]) -> tuple[str, ...]:
    own = ("name", "provider", "model", "max_output_tokens", "substitute")
    rest = {key: value for key, value in spec.items() if key not in own and value not in ({}, [], None)}
    tokens = spec.get("max_output_tokens")
    return (
        *(short_line(spec.get(name)) for name in own[:3]),
        f"{tokens:,}" if isinstance(tokens, int) else "",
        ", ".join(f"{short_line(key)} {_value(value)}" for key, value in rest.items()) or "as the provider has them",
    )


def _revision(revision: Mapping[str, object]) -> tuple[str, ...]:
    changes = revision.get("changes")
    listed = changes if isinstance(changes, list) else []
    at = short_line(revision.get("at")).replace("T", " ").replace("Z", " UTC")
    return (
        short_line(revision.get("number")), at, "; ".join(short_line(change, 300) for change in listed),
        short_line(revision.get("asked")),
    )  # fmt: skip


def _hashes(folder: RunFolder) -> Iterator[tuple[str, str]]:
    """Yield path and SHA-256 of the files that the board depends on, in the order of their paths."""
    names = ("items", "scores", "labels", "leaderboard")
    paths = [*folder.root.glob("gold-*"), *folder.root.glob("annotations-*")]
    paths += [path for name in names for path in (folder.tables / name).glob("*.parquet")]
    for path in sorted(path for path in paths if path.is_file()):
        yield short_line(path.relative_to(folder.root)), _sha256(path)


def _sha256(path: Path) -> str:
    try:
        with path.open("rb") as handle:
            digest = sha256()
            while block := handle.read(1 << 20):
                digest.update(block)
    except OSError as error:
        raise FileError(f"cannot read {path}: {error.strerror or error}") from error
    return digest.hexdigest()
