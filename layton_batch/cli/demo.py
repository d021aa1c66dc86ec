"""The demonstration: a real run over real HTTP, against a sandbox in this process."""

from __future__ import annotations

from pathlib import Path

from layton_batch.cli.endings import exit_code, print_outcome
from layton_batch.cli.progress import drive_and_report
from layton_batch.cli.terminal import say
from layton_batch.errors import ManifestError, file_error
from layton_batch.files import atomic
from layton_batch.manifest.checks import load_manifest, shipped
from layton_batch.manifest.manifest import Manifest
from layton_batch.runs.open import open_run
from layton_batch.sandbox import Sandbox, SandboxConfig
from layton_batch.sandbox.answerers.from_files import answerer_from_files
from layton_batch.settings import Settings
from layton_batch.tasks import BUILT_IN, FIRST

HERE = Path(__file__).resolve().parent.parent
BUNDLED = HERE / "tasks" / "data"
GOLD_FILES = "gold_*"
"""Labels, which stand beside the items."""
MANIFESTS = {name: "demo.toml" if name == FIRST else f"demo-{name}.toml" for name in BUILT_IN}
"""The demonstration's manifest for each task that has bundled items."""


def bundled_items() -> list[Path]:
    """Return the items of every task that are shipped with the package."""
    files = (path for name in BUILT_IN for path in sorted((BUNDLED / name).glob("*.jsonl")))
    return [path for path in files if not path.match(GOLD_FILES)]


REJUDGED_MODELS, REJUDGED_SEATS = 4, 2
"""Of the demonstration's, when it rejudges: the labels of the models left out are of a jury of three."""


def demo_manifest(task: str = FIRST, *, rejudge: bool = False) -> Manifest:
    """Return the manifest shipped with the package.

    ``rejudge``: use some of its models and a jury smaller than the gold set's, which judges the labelled answers too.
    Raises ManifestError for a task without such a demonstration."""
    if task not in MANIFESTS:
        raise ManifestError(f"demo: no task {task!r} to show; there are {', '.join(MANIFESTS)}")
    manifest = load_manifest(shipped(MANIFESTS[task]))
    if not rejudge:
        return manifest
    if manifest.gold is None or manifest.jury is None:
        raise ManifestError(f"demo: task {task} is graded by rule; there is no jury to judge labelled answers again")
    changed = {
        "name": f"{manifest.name}-rejudge",
        "models": manifest.models[:REJUDGED_MODELS],
        "jury": manifest.jury.model_copy(update={"seats": REJUDGED_SEATS}),
        "gold": manifest.gold.model_copy(update={"rejudge": "all"}),
    }
    return manifest.model_copy(update=changed)


def run_demo(out: Path, batch_seconds: float, task: str = FIRST, *, rejudge: bool = False) -> int:
    """Run the demonstration to the end, print its results, and return the exit code.

    The sandbox keeps its side below ``out/sandbox``, so that a demonstration that was stopped goes on where it was.
    """
    manifest = demo_manifest(task, rejudge=rejudge)
    out = out.resolve()  # relative paths would be looked up under the settings' folder, which is not this process's
    say("demo: made-up models, simulated answers and labels; every call goes to 127.0.0.1")
    config = SandboxConfig(
        batch_seconds=batch_seconds,
        answerer=answerer_from_files((), bundled_items(), 0),
        state_dir=_sandbox_folder(out, task),
    )
    with Sandbox(config) as server:
        # only the sandbox's variables: whatever keys this machine has are not used
        settings = Settings.from_environment(server.environment(), out)
        with open_run(manifest, out, settings, poll_seconds=max(batch_seconds / 4, 0.1)) as run:
            status = drive_and_report(run, settings, once=False, stop_at=None, quiet=False)
            print_outcome(run, status)
            billed = server.ledger().total_usd
    say(f"the sandbox billed ${billed:.6f}; the run accounts for ${status.spent_usd:.6f}")
    return exit_code(status)


def _sandbox_folder(out: Path, task: str) -> Path:
    """Make the sandbox's folder of a task, so that each task has a bill of its own."""
    folder = out / "sandbox" / task
    try:
        atomic.make_folder(folder)
    except OSError as error:
        message = f"cannot make {folder}: {error.strerror or error}; --out names another place"
        raise file_error(message, error) from error
    return folder
