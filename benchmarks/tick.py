"""Two ticks over 70 batches at seven providers that take 0.5 s for every call: seconds a tick, and CPU.

``scripts/bench tick [--batches N] [--seconds S]``: N batches a provider. Then a tick that has nothing to do, of a run
whose store has 10,000 collected batches.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from sqlalchemy import select

from benchmarks.measure import told
from layton_batch.pipeline import advance
from layton_batch.runs.context import Run
from layton_batch.sandbox import Fault
from layton_batch.store import schema
from layton_batch.store.rows import ACTUAL, RESERVED
from tests.support.lab import MODELS, lab, manifest_text

MOST_SECONDS, MOST_IDLE = 10.0, 0.3
COLLECTED = 10_000
CALLS = ("upload", "create", "poll", "results", "list")


def main(arguments: Sequence[str] = ()) -> dict[str, float]:
    """Seconds of the slower tick."""
    parser = argparse.ArgumentParser(prog="scripts/bench tick", description=__doc__)
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=0.5)
    asked = parser.parse_args(arguments)
    _import_sdks()
    faults = [Fault(on=on, action="delay", seconds=asked.seconds) for on in CALLS]
    with (
        tempfile.TemporaryDirectory() as name,
        lab(Path(name), *faults) as bench,
        bench.open(_text(asked.batches)) as run,
    ):
        seconds = []
        for what in ("sent", "polled and collected"):
            begun, used = time.perf_counter(), time.process_time()
            advance(run)
            seconds.append(time.perf_counter() - begun)
            told(f"tick, {what}", seconds[-1], "s", MOST_SECONDS)
            print(f"  CPU, the sandbox's included {time.process_time() - used:.1f} s")
            bench.clock.sleep(3600)
        states = sorted({str(batch.state) for batch in run.store.batches()})
        print(f"{len(run.store.batches())} batches, now {', '.join(states)}")
    return {"tick seconds": max(seconds), "idle tick": _idle(COLLECTED)}


def _idle(batches: int) -> float:
    """CPU seconds of a tick that finds nothing to do; the one before it has read the store once."""
    text = manifest_text(("openai", "groq"), limit=2)
    with tempfile.TemporaryDirectory() as name, lab(Path(name)) as bench:
        bench.finish(text)
        with bench.open(text) as run:
            _add_collected(run, batches)
            advance(run)
            used = time.process_time()
            advance(run)
            used = time.process_time() - used
    told(f"an idle tick, {batches:,} collected batches, CPU", used, "s", MOST_IDLE)
    return used


def _add_collected(run: Run, count: int) -> None:
    """Copies of the run's first batch, each with its money."""
    names = [f"copy{number}" for number in range(count)]
    mine = [{"run_id": run.id, "batch_id": name} for name in names]
    money = [one | {"kind": kind, "usd": Decimal("0.01"), "at": 1.0} for one in mine for kind in (RESERVED, ACTUAL)]
    with run.store.writing() as writing:
        first = dict(writing.connection.execute(select(schema.batches).limit(1)).mappings().one())
        del first["key"]  # each gets its own
        rows = [first | one | {"seq": 1000 + number} for number, one in enumerate(mine)]
        writing.connection.execute(schema.batches.insert(), rows)
        writing.connection.execute(schema.ledger.insert(), money)


def _import_sdks() -> None:
    """They are imported with the first call to each provider, which takes seconds of CPU, once a process."""
    with tempfile.TemporaryDirectory() as name, lab(Path(name)) as bench, bench.open(_text(1)) as run:
        advance(run)


def _text(batches: int) -> str:
    """Every provider has so many models, each of one batch: the same questions, with another limit."""
    head, _, rest = manifest_text(tuple(MODELS), limit=2).partition("[[models]]")
    models, found, tail = f"[[models]]{rest}".partition("[jury]")
    several = "".join(
        one.replace('name = "', f'name = "{number} ', 1).replace("= 4000", f"= {4000 + number}")
        for number in range(batches)
        for one in (f"[[models]]{part}" for part in models.split("[[models]]")[1:])
    )
    return head + several + found + tail


if __name__ == "__main__":
    main()
