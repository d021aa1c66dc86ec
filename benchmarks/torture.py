"""Runs that ask some of the same, by the real command line over HTTP: killed, suspended and cut off from PostgreSQL.

Each history has three manifests, each driven by a process that is started again whenever it ends, and a sandbox with
lost replies and an outage. Every third has its state in PostgreSQL, which drops connections. No answer may be billed
twice, and each run comes to its end.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from urllib.request import urlopen

import orjson
from sqlalchemy import create_engine, text

from layton_batch.runs.requests import DIGITS
from layton_batch.sandbox import Fault, Sandbox, SandboxConfig
from tests.support.postgres import binaries, new_database, server

HISTORIES = 200
PATIENCE_SECONDS = 240.0
MOST_STRIKES = 30
LONGEST_SUSPENSION = 1.0
PACING = "0.02"
DONE = (0, 5)
BROKEN = ("bought twice", "not ended", "ended with 1")
"""Counts of what may not happen; 1 is the exit code of a mistake in the program."""
MODELS = {"openai": "gpt-5-mini", "mistral": "mistral-small-2506", "groq": "openai/gpt-oss-20b"}
ITEMS = {"a": range(12), "b": range(6, 18), "c": range(9)}
"""The items of each run: some are asked by two runs, some by all."""
ONE_THREAD = dict.fromkeys(("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "POLARS_MAX_THREADS"), "1")


def main(arguments: Sequence[str] = ()) -> int:
    """Play histories; 1 where something happened that may not."""
    parser = argparse.ArgumentParser(prog="scripts/bench torture", description=__doc__)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--count", type=int, default=HISTORIES, help="how many seeds")
    asked = parser.parse_args(list(arguments))
    os.environ.update(ONE_THREAD)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["layton_batch.cli", "layton_batch.pipeline", "openai", "mistralai", "altair"])
    tally, begun = Counter[str](), time.monotonic()
    with ExitStack() as stack:
        programs = binaries()
        databases = stack.enter_context(server(programs)) if programs else None
        for seed in range(asked.first, asked.first + asked.count):
            found = _History(seed, context, databases if seed % 3 == 0 else None).play()
            tally += found
            print(f"{seed}: {dict(found)}", flush=True)
    print(f"{time.monotonic() - begun:.0f} s: {dict(tally)}")
    return 1 if any(tally[what] for what in BROKEN) else 0


def _command(words: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
    """Be one process of the command line."""
    log = os.open(folder / "output.txt", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.environ.update(environment)
    os.chdir(folder)
    from layton_batch.cli import main as command_line  # with the environment that it is to read

    command_line(list(words))


@dataclass
class _History:
    """One history. ``processes``: of each run the one that drives it now; ``codes``: of runs that have ended."""

    seed: int
    context: ForkServerContext
    databases: str | None
    processes: dict[str, BaseProcess] = field(default_factory=dict)
    codes: dict[str, int] = field(default_factory=dict)
    happened: Counter[str] = field(default_factory=Counter)

    def play(self) -> Counter[str]:
        """Return the counts of what happened."""
        self.draw = random.Random(self.seed)
        with (
            tempfile.TemporaryDirectory(prefix="torture-", dir=_in_memory()) as name,
            Sandbox(SandboxConfig(batch_seconds=self.draw.uniform(0.2, 2.0), faults=tuple(self._faults()))) as sandbox,
        ):
            self.folder = Path(name)
            self.environment = {**sandbox.environment(), "HOME": name, "LAYTON_BATCH_PACING": PACING}
            if self.databases is not None:
                self.environment["LAYTON_BATCH_STATE"] = new_database(self.databases)
            for run, items in ITEMS.items():
                self._write(run, items)
            begun = time.monotonic()
            while len(self.codes) < len(ITEMS) and time.monotonic() - begun < PATIENCE_SECONDS:
                self._keep_running()
                time.sleep(self.draw.uniform(0.0, 0.3))
                self._strike()
            for process in self.processes.values():
                process.kill()
            with urlopen(f"{sandbox.url}/sandbox/batches") as reply:  # the sandbox carries out a batch when looked at
                reply.read()
            bought = Counter((row.provider, row.custom_id[-DIGITS:]) for row in sandbox.ledger().rows)
            found = self.happened + Counter(
                {
                    "histories": 1,
                    "bought": len(bought),
                    "bought twice": sum(count > 1 for count in bought.values()),
                    "not ended": len(ITEMS) - len(self.codes),
                    "with all answers": int(list(self.codes.values()) == [0] * len(ITEMS)),
                }
            )
            if any(found[what] for what in BROKEN):
                print((self.folder / "output.txt").read_text()[-6000:])
            return found

    def _faults(self) -> Iterator[Fault]:
        for provider in MODELS:
            for action, status in (("drop_after", 500), ("status_after", 500), ("status", 503), ("drop", 500)):
                if self.draw.random() < 0.4:
                    yield Fault("create", action, provider, after=self.draw.randrange(3), times=1, status=status)
            if self.draw.random() < 0.3:
                yield Fault("list", "status", provider, after=self.draw.randrange(4), times=2, status=500)
            if self.draw.random() < 0.3:
                yield Fault("results", "drop", provider, after=self.draw.randrange(2), times=1)
        if self.draw.random() < 0.5:
            provider = self.draw.choice(list(MODELS))
            yield Fault("outage", "status", provider, after=self.draw.randrange(12), seconds=3.0, status=503)

    def _write(self, run: str, items: range) -> None:
        models = [
            f'[[models]]\nname = "{provider}"\nprovider = "{provider}"\nmodel = "{model}"\nmax_output_tokens = 64\n'
            for provider, model in MODELS.items()
        ]
        manifest = f'name = "{run}"\ntask = "mcq_idk"\n[items]\nsource = "{run}.jsonl"\n{"".join(models)}'
        (self.folder / f"{run}.toml").write_text(manifest, encoding="utf-8")
        options = ["first", "second", "third", "fourth"]
        rows = [{"id": f"i{number}", "question": f"Question {number}?", "options": options, "answer": "second"}
                for number in items]  # fmt: skip
        (self.folder / f"{run}.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))

    def _keep_running(self) -> None:
        for run in ITEMS.keys() - self.codes.keys():
            process = self.processes.get(run)
            if process is not None and process.is_alive():
                continue
            if process is not None and process.exitcode in DONE:
                self.codes[run] = process.exitcode
                continue
            if process is not None:
                self.happened[f"ended with {process.exitcode}"] += 1
            words = ["run", f"{run}.toml", "--runs", "runs", "--yes", "--offline"]
            self.processes[run] = self.context.Process(target=_command, args=(words, self.folder, self.environment))
            self.processes[run].start()

    def _strike(self) -> None:
        """Kill a process, suspend one for a moment, or end one of the database's sessions."""
        living = [process for process in self.processes.values() if process.is_alive()]
        strikes = self.happened["killed"] + self.happened["suspended"] + self.happened["cut off"]
        if not living or strikes >= MOST_STRIKES or self.draw.random() < 0.5:
            return
        process, way = self.draw.choice(living), self.draw.random()
        if way < 0.5:
            process.kill()
            process.join()
            self.happened["killed"] += 1
        elif way < 0.8 or self.databases is None:
            os.kill(process.pid or 0, signal.SIGSTOP)
            time.sleep(self.draw.uniform(0.0, LONGEST_SUSPENSION))
            os.kill(process.pid or 0, signal.SIGCONT)
            self.happened["suspended"] += 1
        else:
            engine = create_engine(self.environment["LAYTON_BATCH_STATE"])
            with engine.connect() as connection:
                here = "datname = current_database() AND pid <> pg_backend_pid()"
                connection.execute(text(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE {here} LIMIT 1"))
            engine.dispose()
            self.happened["cut off"] += 1


def _in_memory() -> str | None:
    return "/dev/shm" if Path("/dev/shm").is_dir() else None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
