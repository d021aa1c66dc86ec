"""sandbox and demo: the pipeline without keys or network."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from layton_batch.tasks import BUILT_IN, FIRST

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
    items: Annotated[
        list[Path] | None, typer.Option("--items", help="Items the simulated models know; default: bundled ones.")
    ] = None,
    batch_seconds: Annotated[float, typer.Option("--batch-seconds", min=0.0, help="From create to end.")] = 1.0,
    seed: Annotated[int, typer.Option("--seed", help="For everything the sandbox draws.")] = 0,
    env_file: Annotated[
        Path | None, typer.Option("--env-file", help="Write the environment that points here, once it listens.")
    ] = None,
) -> None:
    """Play the providers' batch APIs on 127.0.0.1 until stopped.

    Eight of them on one port. Prints the environment that points there.
    """
    import errno
    import math
    import sqlite3

    from layton_batch.cli.demo import bundled_items
    from layton_batch.errors import DataError
    from layton_batch.sandbox import SandboxConfig, load_faults, serve_forever
    from layton_batch.sandbox.answerers.from_files import answerer_from_files

    if not math.isfinite(batch_seconds):
        raise DataError(f"sandbox: --batch-seconds {batch_seconds}: give a number of seconds")
    if state is not None and state.exists() and not state.is_dir():
        raise DataError(f"sandbox: --state {state}: is a file; name a folder, new or not")
    try:
        config = SandboxConfig(
            port=port,
            state_dir=state,
            batch_seconds=batch_seconds,
            faults=load_faults(faults) if faults else (),
            answerer=answerer_from_files(replay or (), items or bundled_items(), seed),
            seed=seed,
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
    batch_seconds: Annotated[float, typer.Option("--batch-seconds", min=0.0, help="How long a batch takes.")] = 1.0,
    task: Annotated[str, typer.Option("--task", help=f"Which benchmark: {_NAMES[0]} or {_NAMES[1]}.")] = FIRST,
    rejudge: Annotated[
        bool, typer.Option("--rejudge", help="Another jury than the gold set's, which judges its answers too.")
    ] = False,
) -> None:
    """See it all work: bundled items, made-up models, no key.

    The whole pipeline against a sandbox in this process: no network, no cost. Ends with a leaderboard, a bill, a site.
    """
    from layton_batch.cli.demo import run_demo

    raise typer.Exit(run_demo(out, batch_seconds, task, rejudge=rejudge))
