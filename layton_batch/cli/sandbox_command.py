"""sandbox: the providers' batch APIs on this machine."""

from __future__ import annotations

import errno
import fcntl
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from layton_batch.commands.known_items import bundled_answerer, replayed
from layton_batch.errors import DataError
from layton_batch.sandbox import SandboxConfig, load_faults, serve_forever
from layton_batch.settings import Settings

BATCH_SECONDS = 1.0
"""Seconds from the create of a batch to its end."""
Files = Annotated[
    list[Path] | None, typer.Option("--replay", help="Recorded predictions and their riddles, to answer from.")
]


def sandbox(
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="0: any free one.")] = 8765,
    replay: Files = None,
    faults: Annotated[Path | None, typer.Option("--faults", help="What goes wrong, as TOML or JSON.")] = None,
    state: Annotated[Path | None, typer.Option("--state", help="Keep batches and the bill in this folder.")] = None,
    env_file: Annotated[
        Path | None, typer.Option("--env-file", help="Write the environment that points here, once it listens.")
    ] = None,
) -> None:
    """Play the providers' batch APIs on 127.0.0.1 until stopped.

    Nine of them on one port. Prints the environment that points there.
    """

    if state is not None and state.exists() and not state.is_dir():
        raise DataError(f"sandbox: --state {state}: is a file; name a folder, new or not")
    try:
        config = SandboxConfig(
            port=port,
            state_dir=state,
            batch_seconds=BATCH_SECONDS * Settings.from_process().pacing.advised,
            faults=load_faults(faults) if faults else (),
            answerer=replayed(replay) if replay else bundled_answerer(),
        )
        with _alone(state):
            serve_forever(config, env_file)
    except (ValueError, OSError, sqlite3.Error) as error:
        if isinstance(error, OSError) and error.errno == errno.EADDRINUSE:
            raise DataError(f"sandbox: --port {port}: address already in use; --port 0 takes any free one") from error
        raise DataError(f"sandbox: {error}") from error


@contextmanager
def _alone(state: Path | None) -> Iterator[None]:
    """Hold the folder of a sandbox's state. Raises DataError where another sandbox holds it: both would bill."""
    if state is None:
        yield
        return
    state.mkdir(parents=True, exist_ok=True)
    with (state / "lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise DataError(f"sandbox: --state {state}: another sandbox uses it; stop it, or name another") from error
        yield
