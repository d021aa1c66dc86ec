"""One batch of 50,000 answers of 6 KB collected and graded: CPU and memory, beside a plain orjson and zstd loop.

``scripts/bench collect [--rows N]``; each in a process of its own. What a process takes for a few answers, it takes
once: prices and imports.
"""

from __future__ import annotations

import argparse
import functools
import json
import random
import resource
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import orjson

from benchmarks.apart import Apart, apart
from layton_batch.batches.collect import collect
from layton_batch.batches.steps import Tick
from layton_batch.manifest.checks import load_manifest
from layton_batch.providers.protocol import ResultPart
from layton_batch.records import Batch, Snapshot
from layton_batch.runs.context import Run
from layton_batch.runs.open import open_run
from layton_batch.runs.provider_threads import ProviderThread
from layton_batch.settings import Settings
from layton_batch.stages.grade import grade
from layton_batch.stages.plan import plan
from layton_batch.states import BatchOutcome, Lifecycle
from tests.support.store_rows import moved

MODULE = "benchmarks.collect"
ROWS, FEW, PAGE = 50_000, 100, 6_000
STAGES: Mapping[str, Callable[[Run], bool]] = {
    "plan": plan,
    "collect": lambda run: collect(run, Tick(is_cancelled=False), ProviderThread("openai")),
    "grade": grade,
}
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


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench collect", description=__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    rows = parser.parse_args(arguments).rows
    found, few = _measured(rows), _measured(FEW)
    loop = found["loop"]
    print(f"{rows:,} answers, {loop.size / 1e6:,.0f} MB")
    for kind, one in found.items():
        once = few[kind].cpu
        print(
            f"{kind:8} {one.cpu:6.2f} cpu-s  {rows / one.cpu:8,.0f} lines a cpu-s  peak {one.peak_mib:4.0f} MiB"
            f"  {one.cpu / loop.cpu:5.2f} x the loop; without the {once:.2f} cpu-s that {FEW} answers take:"
            f" {rows / (one.cpu - once):8,.0f} lines a cpu-s, {(one.cpu - once) / loop.cpu:5.2f} x"
        )


def _measured(rows: int) -> dict[str, Apart]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_run(folder, rows)
        apart(MODULE, "plan", folder)
        return {kind: apart(MODULE, kind, folder) for kind in ("collect", "grade", "loop")}


def loop(folder: Path) -> tuple[float, int]:
    """What must be done at least in Python: keep the file compressed, decode lines and answers, keep the texts."""
    import zstandard

    begun, size = time.process_time(), 0
    with (
        answers(folder).open("rb") as lines,
        (folder / "raw.zst").open("wb") as raw,
        (folder / "texts.zst").open("wb") as texts,
        zstandard.ZstdCompressor(level=3).stream_writer(raw) as keep,
        zstandard.ZstdCompressor(level=3).stream_writer(texts) as said,
    ):
        for line in lines:
            size += keep.write(line)
            text = orjson.loads(line)["response"]["body"]["choices"][0]["message"]["content"]
            reply = orjson.loads(text)
            said.write(reply["answer"].encode() + b"\0" + reply["justification"].encode() + b"\0")
    return time.process_time() - begun, size


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
    asked_kind, asked_folder = sys.argv[1], Path(sys.argv[2])
    done = loop(asked_folder) if asked_kind == "loop" else (play(asked_kind, asked_folder), 0)
    print(json.dumps([*done, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
