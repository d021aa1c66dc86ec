"""Batch files of 100,000 text requests: CPU and memory, beside json.dumps, orjson, write(2) and batchling's builder.

``scripts/bench prepare [--lines N] [--items N] [--pictures N]``: N lines in all, of so many items, or of so many
pictures of 60 KB; each in a process of its own. What hashing the lines twice takes, which is a duty, is a baseline too.
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import importlib.util
import json
import random
import resource
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path

from benchmarks.apart import Apart, apart

LINES, ITEMS = 100_000, 1_000
MODULE = "benchmarks.prepare"
_HEAD = """
name = "prepare"
task = "layton"
[items]
source = "items.jsonl"
split = "{split}"
[jury]
seats = 1
[[jury.judges]]
name = "referee"
provider = "anthropic"
model = "wagtail-5-referee"
max_output_tokens = 2000
"""
_MODEL = """
[[models]]
name = "player-{number}"
provider = "openai"
model = "larch-2-{number}"
max_output_tokens = 4000
"""
_WORDS = (
    "keys",
    "locks",
    "piano",
    "naïve",
    "doors",
    "élan",
    "black",
    "white",
    "strings",
    "music",
    "漢字",
    "seven",
    "river",
)


def main(arguments: Sequence[str] = ()) -> None:
    parser = argparse.ArgumentParser(prog="scripts/bench prepare", description=__doc__)
    parser.add_argument("--lines", type=int, default=LINES)
    parser.add_argument("--items", type=int, default=ITEMS)
    parser.add_argument("--pictures", type=int, help="for one model; instead of texts")
    asked = parser.parse_args(arguments)
    items, models = asked.pictures or asked.items, max(1, asked.lines // asked.items) if not asked.pictures else 1
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_run(folder, items, models, pictures=bool(asked.pictures))
        few = Path(name, "few")
        few.mkdir()
        write_run(few, 10, 1, pictures=bool(asked.pictures))
        lines = items * models
        least = apart(MODULE, "plan", few)
        told = apart(MODULE, "preview", folder)
        ours = apart(MODULE, "plan", folder)
        others = {kind: apart(MODULE, kind, folder) for kind in BASELINES if kind != "batchling" or _has_batchling()}
    print(f"{lines:,} lines, {ours.size / 1e6:,.0f} MB, {items:,} items")
    _print_plan(lines, ours, least, others)
    ratio = told.cpu / others["orjson"].cpu
    print(f"the command `plan` {told.cpu:.2f} cpu-s, {ratio:.2f} x orjson, peak {told.peak_mib:.0f} MiB; no file")


def _print_plan(lines: int, ours: Apart, least: Apart, others: Mapping[str, Apart]) -> None:
    for kind, one in {"plan": ours, **others}.items():
        each = 1e6 * one.cpu / lines
        print(f"{kind:10} {one.cpu:7.2f} cpu-s {each:8.1f} us a line  peak {one.peak_mib:6.0f} MiB", end="")
        print(f"  plan takes {ours.cpu / one.cpu:6.2f} x" if one is not ours else "")
    growth = ours.peak_mib - least.peak_mib
    print(f"plan of 10 requests: peak {least.peak_mib:.0f} MiB; growth {growth:.0f} MiB (limit 64 MiB)")


def _has_batchling() -> bool:
    return importlib.util.find_spec("batchling") is not None


def write_run(folder: Path, items: int, models: int, *, pictures: bool = False) -> None:
    """A manifest of so many models and its riddles, of some 1,100 characters each, or with a picture of 60 KB."""
    draw, split = random.Random(0), "vlm" if pictures else "llm"
    manifest = _HEAD.format(split=split) + "".join(_MODEL.format(number=number) for number in range(models))
    (folder / "manifest.toml").write_text(manifest, encoding="utf-8")
    with (folder / "items.jsonl").open("w", encoding="utf-8") as lines:
        for number in range(items):
            said = f'Room {number} says "{" ".join(draw.choices(_WORDS, k=170))}".\nWhat is played in it?'
            row = {"id": str(number), "split": split, "description": said, "answer": "a piano", "solution": "Keys."}
            if pictures:
                row |= {"description": f"What is in room {number}?", "img": base64.b64encode(_picture(draw)).decode()}
            lines.write(json.dumps({**row, **dict.fromkeys(("first_hint", "second_hint"))}) + "\n")


def _picture(draw: random.Random) -> bytes:
    """A PNG file of 200 by 100 points that nobody chose."""
    rows = b"".join(b"\0" + draw.randbytes(600) for _ in range(100))
    parts = ((b"IHDR", b"\0\0\0\xc8\0\0\0\x64\x08\x02\0\0\0"), (b"IDAT", zlib.compress(rows)), (b"IEND", b""))
    framed = (
        len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big") for kind, data in parts
    )
    return b"\x89PNG\r\n\x1a\n" + b"".join(framed)


# ---- in a process of its own -----------------------------------------------------------------------------------------


def plan_alone(folder: Path) -> tuple[float, int]:
    """CPU seconds and bytes of all batch files of the run."""
    from layton_batch.manifest.checks import load_manifest
    from layton_batch.runs.open import open_run
    from layton_batch.settings import Settings
    from layton_batch.stages.plan import plan

    settings = Settings.from_environment({"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none"}, folder)
    with open_run(load_manifest(folder / "manifest.toml"), folder / "runs", settings) as run:
        begun = time.process_time()
        if not plan(run):
            raise RuntimeError("nothing was planned")
        seconds = time.process_time() - begun
        return seconds, sum(batch.size_bytes for batch in run.store.batches())


def preview_alone(folder: Path) -> tuple[float, int]:
    """CPU seconds of what the command `plan` does, and the bytes that it counts."""
    from layton_batch.clock import SystemClock
    from layton_batch.manifest.checks import load_manifest
    from layton_batch.settings import Settings
    from layton_batch.stages.preview import preview

    settings = Settings.from_environment({"OPENAI_API_KEY": "none", "ANTHROPIC_API_KEY": "none"}, folder)
    begun = time.process_time()
    found = preview(load_manifest(folder / "manifest.toml"), settings, SystemClock(), runs=folder / "runs")
    return time.process_time() - begun, sum(job.size_bytes for job in found.jobs)


@dataclass(frozen=True)
class Pending:
    """A request as batchling's builder takes it."""

    custom_id: str
    params: Mapping[str, object]


AT_ONCE = 1_000


def bodies(folder: Path) -> Iterator[list[dict[str, object]]]:
    """The lines of the batch files that `plan` wrote, so many at a time, as objects that share nothing with a file."""
    for path in sorted(folder.glob("runs/batches/*/*/request.jsonl")):
        with path.open("rb") as lines:
            while some := [json.loads(line) for line in islice(lines, AT_ONCE)]:
                yield some


def baseline(kind: str, folder: Path) -> tuple[float, int]:
    """The same lines, ready as objects, written to one file after another by other means."""
    write = {
        "json": _by_json,
        "orjson": _by_orjson,
        "write(2)": _by_write,
        "hashed": _by_write_and_hashes,
        "batchling": _by_batchling,
    }[kind]
    seconds, size = 0.0, 0
    out = folder / f"{kind}.out"
    for lines in bodies(folder):
        took, wrote = write(lines, out)
        seconds, size = seconds + took, size + wrote
    return seconds, size


def _timed(work: Callable[[], int]) -> tuple[float, int]:
    begun = time.process_time()
    size = work()
    return time.process_time() - begun, size


def _by_json(lines: list[dict[str, object]], out: Path) -> tuple[float, int]:
    def work() -> int:
        with out.open("wb") as file:
            return sum(file.write(json.dumps(line).encode() + b"\n") for line in lines)

    return _timed(work)


def _by_orjson(lines: list[dict[str, object]], out: Path) -> tuple[float, int]:
    import orjson

    def work() -> int:
        with out.open("wb") as file:
            return sum(file.write(orjson.dumps(line) + b"\n") for line in lines)

    return _timed(work)


def _by_write(lines: list[dict[str, object]], out: Path) -> tuple[float, int]:
    import orjson

    ready = b"".join(orjson.dumps(line) + b"\n" for line in lines)

    def work() -> int:
        with out.open("wb", buffering=0) as file:
            return file.write(ready)

    return _timed(work)


def _by_write_and_hashes(lines: list[dict[str, object]], out: Path) -> tuple[float, int]:
    """What no plan can do without: the lines are written, and hashed once for the file and once each by itself."""
    import orjson

    each = [orjson.dumps(line) + b"\n" for line in lines]
    ready = b"".join(each)

    def work() -> int:
        hashlib.sha256(ready).hexdigest()
        for line in each:
            hashlib.sha256(line).hexdigest()
        with out.open("wb", buffering=0) as file:
            return file.write(ready)

    return _timed(work)


def _by_batchling(lines: list[dict[str, object]], out: Path) -> tuple[float, int]:
    """Its builder takes requests as it captured them, bodies in bytes; that these were made is not counted."""
    from batchling.providers.openai import OpenAIProvider

    builder = OpenAIProvider()
    captured = [
        Pending(
            str(line["custom_id"]),
            {"method": "POST", "endpoint": line["url"], "body": json.dumps(line["body"]).encode()},
        )
        for line in lines
    ]

    def work() -> int:
        built = builder.build_jsonl_lines(requests=captured)
        with out.open("wb") as file:
            return file.write("\n".join(json.dumps(obj=line) for line in built).encode())

    return _timed(work)


BASELINES = ("json", "orjson", "write(2)", "hashed", "batchling")


if __name__ == "__main__":
    asked_kind, asked_folder = sys.argv[1], Path(sys.argv[2])
    alone = {"plan": plan_alone, "preview": preview_alone}.get(asked_kind, partial(baseline, asked_kind))
    done, written = alone(asked_folder)
    print(json.dumps([done, written, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
