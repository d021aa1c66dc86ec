"""import: what was made elsewhere, into a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from layton_batch.cli.run_commands import RUNS, Json, RunName, Runs


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command("import")(import_files)


def import_files(
    run_name: RunName,
    annotations: Annotated[
        list[Path] | None,
        typer.Option("--annotations", metavar="FILE", help="Labels that people gave; may be repeated."),
    ] = None,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> None:
    """Take what was made elsewhere into a run.

    Labels (--annotations): a row has `item_id` (or `riddle_id`), `model`, `answer_correct` and `justification_correct`
    (or `is_answer_correct` and `is_justification_correct`, as in layton-eval's annotation files), and may have
    `provider`, `n_hints`, `annotator`, `time` and the `answer` and `justification` that were judged. JSONL or Parquet.
    A file is checked as a whole before anything changes. The same file twice changes nothing. A later label of one
    annotator on one prediction takes the place of the earlier. The next `score`, `leaderboard` or `run` uses them.
    """
    from layton_batch.errors import ManifestError

    if not annotations:
        raise ManifestError("import: say what to take in: --annotations FILE")
    _labels(run_name, annotations, runs, as_json=as_json)


def _labels(run_name: str, files: list[Path], runs: Path, *, as_json: bool) -> None:
    from layton_batch.cli.terminal import print_json, say
    from layton_batch.run.folders import find_run
    from layton_batch.run.label_import import import_labels
    from layton_batch.run.open import read_run
    from layton_batch.settings import Settings

    settings = Settings.from_process()
    with read_run(find_run(run_name, runs), settings) as run:
        taken = import_labels(run, files, settings)
    if as_json:
        print_json(taken)
        return
    for line in taken.lines():
        say(line)
