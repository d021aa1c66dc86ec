"""The names of the batches that repeat what got no answer."""

from __future__ import annotations

from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import cast

from layton_batch.batches.attempts import next_attempts
from layton_batch.batches.outcomes import Tally
from layton_batch.batches.replies import Reply
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import Batch, Response
from layton_batch.runs.context import Run
from layton_batch.states import BatchOutcome, ErrorClass, Lifecycle, RequestOutcome
from tests.store.rows import JOB, NOW, batch

LINES = b'{"custom_id":"r1"}\n{"custom_id":"r2"}\n'


def a_run(folder: RunFolder, entered: list[Batch]) -> Run:
    rows = [{"custom_id": name, "item_id": name, "shard_id": "s0001", "max_cost": "0.1"} for name in ("r1", "r2")]
    tables.write(folder.part("requests", JOB.id), tables.frame("requests", rows))
    store = SimpleNamespace(row=lambda: None, job_batches=lambda _job: entered, all_jobs=list)
    policy = SimpleNamespace(policy=SimpleNamespace(attempts=3))
    clock = SimpleNamespace(now=lambda: NOW)
    return cast("Run", SimpleNamespace(folder=folder, store=store, manifest=policy, clock=clock, tag_prefix="lb"))


def test_halves_of_a_later_attempt_have_names_that_no_attempt_at_earlier_halves_has(tmp_path: Path) -> None:
    """Else the batch would be taken for another process's, and its results be downloaded for ever."""
    folder = RunFolder(tmp_path)
    first = replace(batch(1), state=Lifecycle.COLLECTED)
    half = replace(first, id="half", shard_id="s0001-1", path="requests/half.jsonl", parent_id=first.id)
    repeated = replace(
        half, id=f"{JOB.id}.s0001-1.a2", attempt=2, path=f"requests/{JOB.id}/s0001-1.a2.jsonl", parent_id=half.id
    )
    again = replace(
        first, id=f"{JOB.id}.s0001.a2", attempt=2, requests=2, path="requests/again.jsonl", parent_id=first.id,
        sha256=sha256(LINES).hexdigest(), state=Lifecycle.ENDED, outcome=BatchOutcome.FAILED,
        error_class=ErrorClass.TOO_LARGE,
    )  # fmt: skip
    entered = [first, half, repeated, again]
    run = a_run(folder, entered)
    (tmp_path / "requests").mkdir()
    (tmp_path / again.path).write_bytes(LINES)
    refused = {name: Response(name, RequestOutcome.ERRORED, error_class=ErrorClass.TOO_LARGE) for name in ("r1", "r2")}
    halves, repeats = next_attempts(run, again, Tally({name: Reply(response) for name, response in refused.items()}))
    assert repeats == {"r1", "r2"}
    assert len({one.id for one in [*entered, *halves]}) == len(entered) + 2
    assert len({one.tag for one in halves}) == 2
