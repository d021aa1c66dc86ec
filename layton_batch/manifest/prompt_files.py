"""The prompt files that a manifest names: beside it, or at an address, where each is fetched once and then frozen."""

from __future__ import annotations

import atexit
import functools
import json
import shutil
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from layton_batch.errors import DataError
from layton_batch.files.addresses import downloaded, is_address, shown
from layton_batch.files.run_folder import RunFolder
from layton_batch.settings import Settings

MOST_BYTES = 1_000_000
"""A prompt is no longer; an address that gives more was not meant."""
_WEB_PAGE = ("<!doctype html", "<html")


@dataclass(frozen=True, slots=True)
class PromptFiles:
    """Reader of prompt files.

    A run of the manifest's name under ``runs`` that has a prompt of the same address gives its frozen copy, and nothing
    is fetched: the run goes on with what it began with. ``settings``: the environment's where None. ``offline``: fetch
    nothing at all.
    """

    settings: Settings | None = None
    runs: Path | None = None
    offline: bool = False

    def text(self, name: str, source: str, folder: Path, run: str) -> str:
        """The prompt ``name`` of the manifest called ``run``. Raises DataError where it cannot be had."""
        if not is_address(source):
            return _decoded(_local(folder / source, source), source)
        frozen = self._frozen(name, source, run)
        return self._fetched(source) if frozen is None else frozen

    def _fetched(self, source: str) -> str:
        if self.offline:
            raise DataError(f"{shown(source)}: no run has a copy of it, and nothing is fetched with --offline")
        with downloaded(source, self.settings or Settings.from_process()) as path:
            content = path.read_bytes()
        if len(content) > MOST_BYTES:
            raise DataError(f"{shown(source)}: {len(content)} bytes are too many for a prompt (at most {MOST_BYTES})")
        text = _decoded(content, shown(source))
        if text.lstrip().lower().startswith(_WEB_PAGE):
            raise DataError(f"{shown(source)}: is a web page, not a text file; give the address of the raw file")
        return text

    def _frozen(self, name: str, source: str, run: str) -> str | None:
        """Return the copy of an address that the run of this name has."""
        if self.runs is None:
            return None
        try:
            frozen = json.loads(RunFolder(self.runs / run).manifest.read_bytes())
            text = frozen["prompts"][name] if frozen["manifest"]["prompts"][name] == source else None
        except (OSError, ValueError, KeyError, TypeError):
            return None  # what is wrong with that run is told by whoever opens it
        return text if isinstance(text, str) else None


def prompt_path(source: str, text: str, folder: Path) -> Path:
    """A file with the prompt: the one named, or a temporary one with the ``text`` that was at the address."""
    if not is_address(source):
        return folder / source
    path = _scratch() / sha256(text.encode()).hexdigest()
    path.write_text(text, encoding="utf-8", newline="")
    return path


def _local(path: Path, source: str) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise DataError(
            f"cannot read {source} ({error.strerror or error}); name a text file, relative to the manifest's folder"
        ) from error
    except ValueError as error:  # a NUL in the path
        raise DataError(f"{source} is not UTF-8 text") from error


def _decoded(content: bytes, source: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(f"{source} is not UTF-8 text") from error


@functools.cache
def _scratch() -> Path:
    """Return a folder that exists as long as this process: a task may read its templates late."""
    folder = Path(tempfile.mkdtemp(prefix="layton-batch-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder
