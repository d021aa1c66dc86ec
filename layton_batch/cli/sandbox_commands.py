"""sandbox and demo: the pipeline without keys or network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from layton_batch.tasks import BUILT_IN, FIRST

BATCH_SECONDS = 1.0
"""Seconds from the create of a batch to its end."""
Files = Annotated[
    list[Path] | None, typer.Option("--replay", help="Recorded predictions and their riddles, to answer from.")
]

_NAMES = (", ".join(tuple(BUILT_IN)[:-1]), tuple(BUILT_IN)[-1])


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("sandbox")(sandbox)
    app.command("demo")(demo)


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

    Eight of them on one port. Prints the environment that points there.
    """
    import errno
    import sqlite3

    from layton_batch.cli.known_items import bundled_answerer, replayed
    from layton_batch.errors import DataError
    from layton_batch.sandbox import SandboxConfig, load_faults, serve_forever
    from layton_batch.settings import Settings

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
    import fcntl

    from layton_batch.errors import DataError

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


def demo(
    out: Annotated[Path, typer.Option("--out", help="Where the run, its tables and pages go.")] = Path("demo"),
    task: Annotated[str, typer.Option("--task", help=f"Which benchmark: {_NAMES[0]} or {_NAMES[1]}.")] = FIRST,
) -> None:
    """See it all work: bundled items, made-up models, no key.

    The whole pipeline against a sandbox in this process: no network, no cost. Ends with a leaderboard, a bill, a site.
    """
    from layton_batch.cli.demo import run_demo

    raise typer.Exit(run_demo(out, task))
