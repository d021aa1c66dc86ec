"""One full batch, 50,000 answers of some 6 KB: planned, collected, graded and put before a judge; memory and CPU."""

from __future__ import annotations

import functools
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import orjson

from benchmarks.measure import ROOT, told
from layton_batch.batches.tick import Tick
from layton_batch.manifest.checks import load_manifest
from layton_batch.providers.protocol import ResultPart
from layton_batch.records import Batch, Snapshot
from layton_batch.runs.context import Run
from layton_batch.runs.open import open_run
from layton_batch.runs.provider_threads import ProviderThread
from layton_batch.settings import Settings
from layton_batch.stages.collect import collect
from layton_batch.stages.grade import grade
from layton_batch.stages.plan import plan
from layton_batch.states import BatchOutcome, Lifecycle
from tests.support.store_rows import moved

ROWS, PAGE = 50_000, 6_000
MOST_MIB, MOST_SECONDS = 500.0, 60.0
STAGES: Mapping[str, Callable[[Run], bool]] = {
    "plan": plan,
    "collect": lambda run: collect(run, Tick(is_cancelled=False), ProviderThread("openai")),
    "grade": grade,
    "judge": plan,
}
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
        write_run(folder, ROWS)
        for stage in STAGES:
            seconds, peak = _apart(stage, folder)
            told(f"{stage}, a batch of {ROWS:,}, CPU", seconds, "s", MOST_SECONDS)
            told("  the same: peak memory", peak, "MiB", MOST_MIB)


def write_run(folder: Path, rows: int) -> None:
    """The manifest and its riddles."""
    (folder / "manifest.toml").write_text(MANIFEST, encoding="utf-8")
    with (folder / "items.jsonl").open("wb") as items:
        items.writelines(orjson.dumps(_riddle(number)) + b"\n" for number in range(rows))


def answers(folder: Path) -> Path:
    """The file that the provider has, once the run is planned."""
    return folder / "answers.jsonl"


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
    words = [sys.executable, "-m", "benchmarks.large_batch", stage, str(folder)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        seconds = process.stdout.read().decode()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{stage} ended with {process.returncode}")
    return float(seconds), used.ru_maxrss / 1024


def play(stage: str, folder: Path) -> float:
    """Do one stage of the run in the folder; returns its CPU seconds."""
    settings = Settings.from_environment({"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none"}, folder)
    with open_run(load_manifest(folder / "manifest.toml"), folder / "runs", settings) as run:
        _answer(run, answers(folder))
        begun = time.process_time()
        if not STAGES[stage](run):
            raise RuntimeError(f"{stage} had nothing to do")
        seconds = time.process_time() - begun
        if stage == "plan":
            for batch in run.store.batches():
                _write_answers(run, batch, answers(folder))
                _let_it_end(run, batch)
        return seconds


def _let_it_end(run: Run, batch: Batch) -> None:
    now = run.clock.now()
    run.store.apply(batch, moved(batch, Lifecycle.SUBMITTING, "submitting", submitting_at=now), now)
    batch = run.store.batch(batch.id)
    run.store.apply(batch, moved(batch, Lifecycle.IN_FLIGHT, "submitted", provider_id=batch.id, submitted_at=now), now)
    batch = run.store.batch(batch.id)
    run.store.apply(
        batch, moved(batch, Lifecycle.ENDED, "ended", outcome=BatchOutcome.COMPLETED, ended_at=now, due_at=now), now
    )


def _write_answers(run: Run, batch: Batch, path: Path) -> None:
    """In another order than they were asked."""
    ids = list(run.store.asked_of(batch.id))
    random.Random(0).shuffle(ids)
    with path.open("wb") as file:
        file.writelines(_line(number, custom_id) for number, custom_id in enumerate(ids))


def _answer(run: Run, path: Path) -> None:
    """OpenAI's dialect over results that lie in a file."""

    def snapshot(provider_id: str) -> Snapshot:
        asked = run.store.batch(provider_id).requests
        return Snapshot(provider_id, "completed", Lifecycle.ENDED, BatchOutcome.COMPLETED, "file", succeeded=asked)

    def results(found: Snapshot) -> list[ResultPart]:
        return [ResultPart("output", _chunks(path))]

    for method in (snapshot, results):
        setattr(run.providers.of(ProviderThread("openai")), method.__name__, method)


def _chunks(path: Path) -> Iterator[bytes]:
    with path.open("rb") as file:
        while chunk := file.read(1 << 16):
            yield chunk


@functools.cache
def _pages() -> str:
    """Many pages of sentences that come again here and there, a quarter of the words beyond ASCII."""
    draw = random.Random(0)
    ends = ("", "s", "ed", "ing", "é", "ß", "", "漢")
    words = ["".join(draw.choices("aeioubcdfghlmnprst", k=draw.randint(2, 9))) + draw.choice(ends) for _ in range(4000)]
    sentences = [" ".join(draw.choices(words, k=12)) for _ in range(4000)]
    return ". ".join(draw.choices(sentences, k=100_000))


def _line(number: int, custom_id: str) -> bytes:
    start = random.Random(number).randrange(len(_pages()) - PAGE)
    justification = _pages()[start : start + PAGE]
    text = orjson.dumps({"answer": "a piano", "justification": justification}).decode()
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    usage = {"prompt_tokens": 30, "completion_tokens": PAGE // 6, "total_tokens": 30 + PAGE // 6}
    body = {"id": "c", "object": "chat.completion", "model": "larch-2-mini", "choices": [choice], "usage": usage}
    row = {"id": "r", "custom_id": custom_id, "response": {"status_code": 200, "request_id": "q", "body": body}}
    return orjson.dumps({**row, "error": None}) + b"\n"


if __name__ == "__main__":
    print(play(sys.argv[1], Path(sys.argv[2])))
