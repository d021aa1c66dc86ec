"""The manifest that a command is to ask providers about."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from layton_batch.commands.notes import warn
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.prompt_files import PromptFiles
from layton_batch.runs.environment_notes import address_notes
from layton_batch.settings import Settings


@contextmanager
def asked_manifest(
    path: Path, runs: Path, settings: Settings, *, sandbox: bool, offline: bool = False
) -> Iterator[tuple[Manifest, Path, Settings]]:
    """Yield the manifest at ``path``, the folder of its runs, and the settings to ask by.

    ``sandbox``: play the providers meanwhile. ``offline``: nobody else is asked anything either.
    """
    if sandbox:
        from layton_batch.commands.own_sandbox import own_sandbox  # loads a server

        with own_sandbox(path, runs, settings) as played:
            yield played
        return
    manifest = load_manifest(path, PromptFiles(settings, runs, offline=offline))
    if not offline:
        warn(address_notes(manifest, settings))
    yield manifest, runs, settings
