"""One full batch, 50,000 answers of some 6 KB: planned, collected, graded and put before a judge; memory and CPU."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import orjson

from layton_batch.batches.batch_file import batch_requests
from layton_batch.manifest.checks import load_manifest
from layton_batch.providers.protocol import ResultPart
from layton_batch.records import Batch, Snapshot
from layton_batch.run.context import Run
from layton_batch.run.open import open_run
from layton_batch.settings import Settings
from layton_batch.stages.collect import collect
from layton_batch.stages.grade import grade
from layton_batch.stages.plan import plan
from layton_batch.states import BatchOutcome, Lifecycle
from tests.bench.measure import ROOT, told
from tests.store.rows import moved

ROWS, PAGE = 50_000, 6_000
MOST_MIB, MOST_SECONDS = 500.0, 60.0
STAGES: Mapping[str, Callable[[Run], bool]] = {"plan": plan, "collect": collect, "grade": grade, "judge": plan}
"""In their order; the last plans the judge's job."""
MANIFEST = """
name = "large"
task = "layton"
[items]
source = "items.jsonl"
split = "llm"
[jury]
seats = 1
[[jury.judges]]
name = "referee"
provider = "anthropic"
model = "wagtail-5-referee"
max_output_tokens = 2000
[[models]]
name = "player"
provider = "openai"
model = "larch-2-mini"
max_output_tokens = 4000
"""


def main() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "manifest.toml").write_text(MANIFEST, encoding="utf-8")
        with (folder / "items.jsonl").open("wb") as items:
            items.writelines(orjson.dumps(_riddle(number)) + b"\n" for number in range(ROWS))
        for stage in STAGES:
            seconds, peak = _apart(stage, folder)
            told(f"{stage}, a batch of {ROWS:,}, CPU", seconds, "s", MOST_SECONDS)
            told("  the same: peak memory", peak, "MiB", MOST_MIB)


def _riddle(number: int) -> dict[str, str | None]:
    hints = dict.fromkeys(("first_hint", "second_hint", "third_hint", "special_hint"))
    question = f"Room {number} has keys and no lock. What is played in it?"
    return {
        "id": str(number),
        "split": "llm",
        "description": question,
        "answer": "a piano",
        "solution": "Keys.",
        **hints,
    }


def _apart(stage: str, folder: Path) -> tuple[float, float]:
    """CPU seconds and peak memory (MiB) of one stage, in a process of its own."""
    words = [sys.executable, "-m", "tests.bench.large_batch", stage, str(folder)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        seconds = process.stdout.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{stage} ended with {process.returncode}")
    return float(seconds), used.ru_maxrss / 1024


def stage_alone(stage: str, folder: Path) -> None:
    """Do one stage of the run in the folder and print its CPU seconds."""
    settings = Settings.from_environment({"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none"}, folder)
    with open_run(load_manifest(folder / "manifest.toml"), folder / "runs", settings) as run:
        _answer(run)
        begun = time.process_time()
        if not STAGES[stage](run):
            raise RuntimeError(f"{stage} had nothing to do")
        print(time.process_time() - begun)
        if stage == "plan":
            for batch in run.store.batches():
                _let_it_end(run, batch)


def _let_it_end(run: Run, batch: Batch) -> None:
    now = run.clock.now()
    run.store.apply(batch, moved(batch, Lifecycle.SUBMITTING, "submitting", submitting_at=now), now)
    batch = run.store.batch(batch.id)
    run.store.apply(batch, moved(batch, Lifecycle.IN_FLIGHT, "submitted", provider_id=batch.id, submitted_at=now), now)
    batch = run.store.batch(batch.id)
    run.store.apply(
        batch, moved(batch, Lifecycle.ENDED, "ended", outcome=BatchOutcome.COMPLETED, ended_at=now, due_at=now), now
    )


def _answer(run: Run) -> None:
    """OpenAI's dialect over results that are made up as they are downloaded, in another order than they were asked."""

    def snapshot(provider_id: str) -> Snapshot:
        return Snapshot(provider_id, "completed", Lifecycle.ENDED, BatchOutcome.COMPLETED, "file", succeeded=ROWS)

    def results(found: Snapshot) -> list[ResultPart]:
        ids = batch_requests(run, run.store.batch(found.provider_id))["custom_id"].to_list()
        random.Random(0).shuffle(ids)
        return [ResultPart("output", (_line(number, custom_id) for number, custom_id in enumerate(ids)))]

    for method in (snapshot, results):
        setattr(run.providers.get("openai"), method.__name__, method)


_WORDS = ("keys", "locks", "music", "doors", "black", "white", "play", "strings")
_PAGES = " ".join(random.Random(0).choices(_WORDS, k=4 * PAGE))


def _line(number: int, custom_id: str) -> bytes:
    justification = _PAGES[number % PAGE :][:PAGE]
    text = orjson.dumps({"answer": "a piano", "justification": justification}).decode()
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 30, "completion_tokens": PAGE // 6, "total_tokens": 30 + PAGE // 6}
    body = {"id": "c", "object": "chat.completion", "model": "larch-2-mini", "choices": [choice], "usage": usage}
    row = {"id": "r", "custom_id": custom_id, "response": {"status_code": 200, "request_id": "q", "body": body}}
    return orjson.dumps({**row, "error": None}) + b"\n"


if __name__ == "__main__":
    stage_alone(sys.argv[1], Path(sys.argv[2]))
