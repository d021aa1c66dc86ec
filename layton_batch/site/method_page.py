"""The page of the method: what each number means, and what a reader needs to check or repeat the run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import orjson

from layton_batch import __version__
from layton_batch.errors import FileError
from layton_batch.files.run_folder import RunFolder
from layton_batch.site.board_table import Board
from layton_batch.site.pages import Passage, passage, short_line
from layton_batch.site.reading import Asked
from layton_batch.site.terms import terms

_QUIET = ("name", "models", "prices", "prompts", "limits")
"""Parts of a manifest that have a place of their own, or say nothing of what was asked."""


@dataclass(frozen=True, slots=True)
class ModelLine:
    """A model or a judge as it was asked."""

    name: str
    provider: str
    model: str
    most_tokens: str
    settings: str


@dataclass(frozen=True, slots=True)
class RevisionLine:
    number: str
    at: str
    changes: tuple[str, ...]
    asked: str


@dataclass(frozen=True, slots=True)
class MethodView:
    """``words``: terms and what they mean; ``settings``: the manifest's, by key; ``hashes``: file and SHA-256."""

    words: tuple[tuple[str, str], ...]
    settings: tuple[tuple[str, str], ...]
    models: tuple[ModelLine, ...]
    judges: tuple[ModelLine, ...]
    revisions: tuple[RevisionLine, ...]
    prompts: tuple[tuple[str, Passage], ...]
    hashes: tuple[tuple[str, str], ...]
    identity: str
    version: str
    manifest: Passage | None


def show_method(folder: RunFolder, ask: Asked, boards: tuple[Board, Board | None]) -> MethodView:
    """From the frozen manifest; only the words where it cannot be read. ``boards``: as shown, and on this set where
    that is another. Raises FileError for a file that cannot be read."""
    frozen = _frozen(folder)
    manifest = _table(frozen.get("manifest"))
    prompts = _table(frozen.get("prompts"))
    return MethodView(
        words=terms(*boards, has_hints=ask.hints is not None),
        settings=tuple(_settings(manifest)),
        models=tuple(_model(one) for one in _tables(manifest.get("models"))),
        judges=tuple(_model(one) for one in _tables(frozen.get("panel"))),
        revisions=tuple(_revision(one) for one in _tables(frozen.get("revisions"))),
        prompts=tuple((short_line(name), said) for name, text in prompts.items() if (said := passage(str(text)))),
        hashes=tuple(_hashes(folder)),
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
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _settings(manifest: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in manifest.items():
        if key in _QUIET:
            continue
        for name, one in _table(value).items():
            if one not in ({}, [], None):
                yield short_line(f"{key}.{name}"), _value(one)
        if not isinstance(value, dict) and value is not None:
            yield short_line(key), _value(value)


def _value(value: object) -> str:
    return short_line(value if isinstance(value, str) else orjson.dumps(value).decode(), 300)


def _model(one: Mapping[str, object]) -> ModelLine:
    known = ("name", "provider", "model", "max_output_tokens", "substitute")
    rest = {key: value for key, value in one.items() if key not in known and value not in ({}, [], None)}
    return ModelLine(
        name=short_line(one.get("name")),
        provider=short_line(one.get("provider")),
        model=short_line(one.get("model")),
        most_tokens=f"{tokens:,}" if isinstance(tokens := one.get("max_output_tokens"), int) else "",
        settings=", ".join(f"{short_line(key)} {_value(value)}" for key, value in rest.items()),
    )


def _revision(one: Mapping[str, object]) -> RevisionLine:
    changes = one.get("changes")
    said = changes if isinstance(changes, list) else []
    return RevisionLine(
        number=short_line(one.get("number")),
        at=short_line(one.get("at")).replace("T", " ").replace("Z", " UTC"),
        changes=tuple(short_line(change, 300) for change in said),
        asked=short_line(one.get("asked")),
    )


def _hashes(folder: RunFolder) -> Iterator[tuple[str, str]]:
    """Of the files that the board rests on, by their place in the run's folder."""
    names = ("items", "scores", "labels", "leaderboard")
    found = [*folder.root.glob("gold-*"), *folder.root.glob("annotations-*")]
    found += [path for name in names for path in (folder.tables / name).glob("*.parquet")]
    for path in sorted(path for path in found if path.is_file()):
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
