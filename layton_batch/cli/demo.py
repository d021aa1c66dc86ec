"""The demonstration: a real run over real HTTP, against a sandbox in this process."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layton_batch.cli.conversation import TerminalConversation
from layton_batch.cli.terminal import say
from layton_batch.commands.driving import drive_with_reports, report_result
from layton_batch.commands.known_items import bundled_answerer
from layton_batch.commands.own_sandbox import sandbox_folder
from layton_batch.commands.starting import DEMO_MANIFESTS
from layton_batch.errors import ManifestError
from layton_batch.manifest.checks import load_manifest, shipped
from layton_batch.manifest.manifest import Manifest
from layton_batch.runs.open import open_run
from layton_batch.sandbox import Sandbox, SandboxConfig
from layton_batch.settings import Settings
from layton_batch.tasks import BUILT_IN, FIRST

_NAMES = (", ".join(tuple(BUILT_IN)[:-1]), tuple(BUILT_IN)[-1])
BATCH_SECONDS = 1.0
"""Seconds that a batch of the demonstration takes."""


def demo_manifest(task: str = FIRST) -> Manifest:
    """Return the manifest shipped with the package. Raises ManifestError for a task without a demonstration."""
    if task not in DEMO_MANIFESTS:
        raise ManifestError(f"demo: no task {task!r} to show; there are {', '.join(DEMO_MANIFESTS)}")
    return load_manifest(shipped(DEMO_MANIFESTS[task]))


def demo(
    out: Annotated[Path, typer.Option("--out", help="Where the run, its tables and pages go.")] = Path("demo"),
    task: Annotated[str, typer.Option("--task", help=f"Which benchmark: {_NAMES[0]} or {_NAMES[1]}.")] = FIRST,
) -> None:
    """See it all work: bundled items, made-up models, no key.

    The whole pipeline against a sandbox in this process: no network, no cost. Ends with a leaderboard, a bill, a site.
    """
    raise typer.Exit(run_demo(out, task))


def run_demo(out: Path, task: str = FIRST) -> int:
    """Run the demonstration to the end, print its results, and return the exit code.

    The sandbox keeps its side below ``out/sandbox``, so that a demonstration that was stopped goes on where it was.
    """
    manifest = demo_manifest(task)
    out = out.resolve()  # relative paths would be looked up under the settings' folder, which is not this process's
    say("demo: made-up models, simulated answers and labels; every call goes to 127.0.0.1")
    config = SandboxConfig(
        batch_seconds=BATCH_SECONDS,
        answerer=bundled_answerer(),
        state_dir=sandbox_folder(out / "sandbox" / task, "--out"),  # each task has a bill of its own
    )
    with Sandbox(config) as server:
        # only the sandbox's variables: whatever keys this machine has are not used
        settings = Settings.from_environment(server.environment(), out)
        with open_run(manifest, out, settings, poll_seconds=max(BATCH_SECONDS / 4, 0.1)) as run:
            conversation = TerminalConversation()
            result = report_result(run, drive_with_reports(run, conversation), conversation)
            billed = server.ledger().total_usd
    say(f"the sandbox billed ${billed:.6f}; the run accounts for ${result.spent_usd:.6f}")
    return result.end()
