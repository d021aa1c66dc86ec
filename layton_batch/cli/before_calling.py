"""Lines that a command prints before a key leaves this machine."""

from __future__ import annotations

from layton_batch.cli.terminal import say
from layton_batch.log import redact
from layton_batch.manifest.manifest import Manifest
from layton_batch.runs.environment_notes import address_notes, file_notes, hub_notes
from layton_batch.settings import Settings


def say_sources(settings: Settings) -> None:
    """Say what a ``.env`` gives, and where the hub's token goes, before anything is fetched."""
    for note in (*file_notes(settings), *hub_notes(settings)):
        say(redact(note))


def say_addresses(manifest: Manifest, settings: Settings) -> None:
    """Say which of the manifest's providers are called elsewhere than at their own addresses."""
    for note in address_notes(manifest, settings):
        say(redact(note))
