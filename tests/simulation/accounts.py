"""The other account of a history: a stranger's run of the same manifest and name has its batches there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from layton_batch import loop
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.manifest import Manifest
from layton_batch.runs.open import open_run
from layton_batch.runs.status import RunState
from layton_batch.settings import Settings
from tests.simulation.in_process import Providers, connected
from tests.simulation.shortcuts import empty_database, unhurried
from tests.support.manual_clock import ManualClock


def fill(folder: Path, asked: Manifest, providers: Providers, clock: ManualClock) -> None:
    """Play the stranger's run to its end in a workspace of its own, without faults, and add its account."""
    stranger = Providers(folder, replace(providers.config, faults=()))
    there = RunFolder(folder / "runs" / asked.run_id())
    there.root.mkdir(parents=True)
    there.workspace.database.write_bytes(empty_database())
    settings = Settings.from_environment(stranger.environment(), folder)
    try:
        with connected(stranger), unhurried(clock), open_run(asked, there.root.parent, settings, clock=clock) as run:
            assert loop.drive(run, once=False, stop_at=clock.now() + 86_400.0).state is RunState.DONE
    finally:
        stranger.close()
    providers.open_other(folder)
