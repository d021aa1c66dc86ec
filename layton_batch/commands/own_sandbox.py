"""``--sandbox``: a command whose providers are played on 127.0.0.1 for as long as it lasts. It knows no other key."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from layton_batch.commands.known_items import known_items
from layton_batch.commands.notes import note, warn
from layton_batch.errors import ManifestError, file_error
from layton_batch.files import atomic
from layton_batch.manifest.asked import load_items, manifest_task
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.prompt_files import PromptFiles
from layton_batch.runs.folders import SANDBOX_STATE, sandbox_runs
from layton_batch.sandbox import Sandbox, SandboxConfig
from layton_batch.sandbox.answerers.simulate import SimulateAnswerer
from layton_batch.sandbox.engine.faults import PROVIDERS
from layton_batch.settings import Settings
from layton_batch.text import plural

BATCH_SECONDS = 0.5
PACING = "0.01"
"""Nobody has to wait for providers that are played."""
_KEPT = ("HF_TOKEN", "HF_ENDPOINT", "LAYTON_BATCH_ENGINE", "LAYTON_BATCH_PACING")
"""Settings that have nothing to do with a provider."""


@contextmanager
def own_sandbox(path: Path, runs: Path, settings: Settings) -> Iterator[tuple[Manifest, Path, Settings]]:
    """Play the providers of the manifest at ``path``. Yield the manifest, the folder of the sandbox's runs (beside
    ``runs``, or ``runs`` itself where a sandbox made it), and settings without any key but the sandbox's.

    The made-up models know the manifest's items that have a reference. Raises ManifestError where the sandbox does not
    play a provider.
    """
    place = sandbox_runs(runs)
    manifest = load_manifest(path, PromptFiles(settings, place))
    if unplayed := sorted({spec.provider for spec in manifest.all_specs()} - set(PROVIDERS)):
        raise ManifestError(f"--sandbox does not play {', '.join(unplayed)}; it plays {', '.join(PROVIDERS)}")
    task = manifest_task(manifest)
    items = load_items(manifest, task, settings)
    items_with_reference = known_items(items, manifest.name)
    config = SandboxConfig(
        batch_seconds=BATCH_SECONDS,
        answerer=SimulateAnswerer(items_with_reference),
        state_dir=sandbox_folder(place / SANDBOX_STATE, "--runs"),
    )
    with Sandbox(config) as server:
        note(f"sandbox: made-up answers, no key, every call goes to 127.0.0.1; runs are in {place}")
        if task.uses_jury and (unknown := len(items) - len(items_with_reference)):
            warn((f"{plural(unknown, 'item')} without a reference: whether an answer is right is made up too",))
        other_settings = {name: value for name in _KEPT if (value := settings.get(name)) is not None}
        yield (
            manifest,
            place,
            Settings(settings.cwd, {"LAYTON_BATCH_PACING": PACING, **other_settings, **server.environment()}),
        )


def sandbox_folder(folder: Path, option: str) -> Path:
    """Make the folder of a sandbox's state. Raises FileError that names the ``option`` of another place."""
    try:
        atomic.make_folder(folder)
    except OSError as error:
        message = f"cannot make {folder}: {error.strerror or error}; {option} names another place"
        raise file_error(message, error) from error
    return folder
