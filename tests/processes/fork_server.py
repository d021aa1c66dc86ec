"""Commands as processes of their own without the second that a fresh ``python`` spends on imports.

``python -m tests.processes.fork_server`` loads the program and the SDKs once, runs nothing of them, and forks a process
for each line it reads from then on: it has one thread, so a fork takes everything along. A line is a JSON object;
``start`` answers the process id, ``reap`` the exit code of one that has ended.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Any

from layton_batch.cli import app
from layton_batch.processes import started
from layton_batch.providers import BUILT_IN, provider_class
from tests.processes import fast_cli
from tests.support.paths import ROOT

LOOK_SECONDS = 0.005
LAZY = (
    "openai.resources", "openai._resource", "openai.pagination", "anthropic.resources", "mistralai.client",
    "google.genai", "together", "groq", "layton_batch.pipeline", "layton_batch.loop", "layton_batch.site",
    "layton_batch.cli.endings", "layton_batch.runs.open", "layton_batch.manifest.checks",
    "layton_batch.tasks.mcq_idk", "layton_batch.tasks.layton", "layton_batch.site.build",
    "sqlalchemy.dialects.sqlite", "alembic.command", "alembic.config", "alembic.op", "jinja2.sandbox",
    "encodings.utf_8_sig", "numpy.random", "truststore", "scipy.special", "charset_normalizer", "httpcore2",
    "openai.resources.batches", "openai.resources.files", "openai.resources.models", "jinja2.meta",
    "layton_batch.cli.before_paying", "layton_batch.cli.driving", "layton_batch.cli.same_name_runs",
    "layton_batch.costs.own_table", "layton_batch.reports.plan_tables", "polars._utils.parquet",
)  # fmt: skip
"""What a run imports when it needs it."""


class Child:
    """A process that a server started."""

    def __init__(self, server: ForkServer, pid: int) -> None:
        self.pid = pid
        self._server = server
        self._code: int | None = None

    def wait(self, seconds: float) -> int:
        """Its exit code, or minus the signal it died of. Raises TimeoutExpired."""
        until = time.monotonic() + seconds
        while self._code is None:
            if started(self.pid) is None:
                self._code = int(self._server.ask({"reap": self.pid}))
            elif time.monotonic() > until:
                raise subprocess.TimeoutExpired(f"process {self.pid}", seconds)
            else:
                time.sleep(LOOK_SECONDS)
        return self._code


class ForkServer:
    """The process that forks."""

    def __init__(self) -> None:
        command = [sys.executable, "-m", "tests.processes.fork_server"]
        self._process = subprocess.Popen(
            command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._lock = Lock()

    def close(self) -> None:
        """It ends when nobody has anything more to ask."""
        with self._process as process:
            assert process.stdin is not None
            process.stdin.close()

    def start(
        self, arguments: Sequence[str], environment: Mapping[str, str], folder: Path, output: Path, errors: Path
    ) -> Child:
        """`layton-batch ARGUMENTS` in ``folder``, with ``environment`` added to this process's."""
        streams = {"output": str(output), "errors": str(errors)}
        asked = {"start": list(arguments), "environment": {**environment}, "folder": str(folder), **streams}
        return Child(self, int(self.ask(asked)))

    def ask(self, question: Mapping[str, Any]) -> Any:
        with self._lock:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.write(json.dumps(question) + "\n")
            return json.loads(self._process.stdout.readline())


def _load() -> None:
    """Import what a run will need; build what every command builds. Opens nothing and starts no thread."""
    for name in LAZY:
        importlib.import_module(name)
    for name in BUILT_IN:
        provider_class(name)
    app._built(app.app)
    gc.collect()
    gc.freeze()  # a look for garbage in a child would copy all of this


def _fork(asked: Mapping[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored where the tests were started by nohup
    signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where that was a shell's background job
    try:
        code = _child(asked)
    finally:
        os._exit(code)


def _child(asked: Mapping[str, Any]) -> int:
    """The command's exit code. What the interpreter would do at its end is done but for taking itself apart."""
    for descriptor, path in ((0, os.devnull), (1, asked["output"]), (2, asked["errors"])):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), descriptor)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in enumerate(("r", "w", "w")))
    os.chdir(asked["folder"])
    os.environ.update(asked["environment"])
    try:
        fast_cli.command(asked["start"])
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
        return 1
    finally:
        threading._shutdown()  # type: ignore[attr-defined]
        sys.stdout.flush()
        sys.stderr.flush()
    return 0


def main() -> None:
    """Serve until stdin ends."""
    _load()
    for line in sys.stdin:
        asked = json.loads(line)
        answer = _fork(asked) if "start" in asked else os.waitstatus_to_exitcode(os.waitpid(asked["reap"], 0)[1])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
