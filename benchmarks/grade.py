"""Grading by rule: 100,000 predictions of each kind, every protocol, as rows a second, peak memory and its growth."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.measure import ROOT, told

ROWS, FEW = 100_000, 10_000
MOST_SECONDS, MOST_MIB, MOST_GROWTH_MIB = 60.0, 100.0, 8.0
DATA = ROOT / "layton_batch" / "tasks" / "data"
CASES = (
    ("mcq_idk", "original"), ("mcq_idk", "corrected"), ("zebralogic", "original"), ("zebralogic", "zeroeval"),
    ("zebralogic", "corrected"), ("rome", "original"), ("rome", "corrected"),
)  # fmt: skip


def main() -> None:
    for task, protocol in CASES:
        seconds, peak = _apart(task, protocol, ROWS)
        told(f"{task} {protocol}, {ROWS:,} predictions, CPU", seconds, "s", MOST_SECONDS)
        told(f"{task} {protocol}, peak memory", peak, "MiB", MOST_MIB)
        told(f"  more than for {FEW:,}", peak - _apart(task, protocol, FEW)[1], "MiB", MOST_GROWTH_MIB)
        print(f"  {ROWS / seconds:,.0f} rows a second")
    for task, rows in (("mcq_idk", mcq), ("zebralogic", zebra), ("rome", rome)):
        seconds, peak = _by_command(task, rows(ROWS))
        told(f"layton-batch grade {task}, a file of {ROWS:,} predictions, CPU", seconds, "s", MOST_SECONDS)
        told("  the same: peak memory", peak, "MiB", MOST_MIB)


def _by_command(task: str, rows: Iterator[Mapping[str, object]]) -> tuple[float, float]:
    """CPU seconds and peak memory (MiB) of the command on a JSONL file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "predictions.jsonl"
        with path.open("w", encoding="utf-8") as handle:
            handle.writelines(json.dumps(row) + "\n" for row in rows)
        words = [sys.executable, "-m", "layton_batch", "grade", task, "--predictions", str(path)]
        with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.DEVNULL) as process:
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise RuntimeError(f"grade {task} ended with {process.returncode}")
        return used.ru_utime, used.ru_maxrss / 1024


def _apart(task: str, protocol: str, rows: int) -> tuple[float, float]:
    """``measure`` in a process of its own: peak memory is a process's, and never goes down."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.grade", task, protocol, str(rows)],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    seconds, peak = json.loads(done.stdout)
    return seconds, peak


def bundled(name: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").splitlines()]


def mcq(rows: int) -> Iterator[Mapping[str, object]]:
    """Replies of about 2 kB: reasoning, then a letter; a fifth have none, two fifths say it another way."""
    thought = "The options differ in one respect only, which the question turns on. " * 28
    endings = ["Answer: {}", "Answer: {}", "so the final answer is {}.", "###{}###", "I cannot tell."]
    for number in range(rows):
        ending = endings[number % len(endings)].format("ABCDE"[number % 5])
        yield {"item_id": str(number), "gold": "B", "response": f"{thought}\n{ending}"}


def zebra(rows: int) -> Iterator[Mapping[str, object]]:
    for number, puzzle in zip(range(rows), itertools.cycle(bundled("zebralogic/puzzles.jsonl"))):
        solution = puzzle["solution"]
        header = solution["header"]
        grid = {
            f"House {place}": dict(zip(header[1:], row[1:], strict=True))
            for place, row in enumerate(solution["rows"], 1)
        }
        reply = json.dumps({"reasoning": "One clue at a time. " * 40, "solution": grid})
        yield {
            "id": str(number),
            "size": puzzle["size"],
            "solution": solution,
            "output": reply[: len(reply) - number % 3],
        }


def rome(rows: int) -> Iterator[Mapping[str, object]]:
    asked = bundled("rome/questions_llm.jsonl")
    for number, question in zip(range(rows), itertools.cycle(asked)):
        said = question["reference"] if number % 2 else "something else"
        answer = f"{'Let me look closely. ' * 40}\nFinal Answer: {said}"
        yield {**question, "question_id": str(number), "answer": answer}


def measure(task: str, protocol: str, rows: int) -> tuple[float, float]:
    import resource

    from layton_batch.grading.forms import form_of
    from layton_batch.tasks.offline import GradingOptions

    form = form_of(task, protocol, GradingOptions(keep_rows=False))
    made = {"mcq_idk": mcq, "zebralogic": zebra, "rome": rome}[task]
    begun = resource.getrusage(resource.RUSAGE_SELF)
    report = form.report(None)
    for reply in form.graded(None, made(rows), "m"):
        report.add(reply)
    ended = resource.getrusage(resource.RUSAGE_SELF)
    return ended.ru_utime - begun.ru_utime, ended.ru_maxrss / 1024


if __name__ == "__main__":
    print(json.dumps(measure(sys.argv[1], sys.argv[2], int(sys.argv[3]))))
