"""``python -m tests.simulation.lives``: forks a process for each life of the program, which runs one command.

The parent has imported the program and run nothing of it; it has one thread, so a fork takes everything along. A line
on stdin is a JSON object: ``start`` answers the process id, ``reap`` the exit code of a process that has ended.
"""

from __future__ import annotations

import atexit
import errno
import functools
import gc
import hashlib
import importlib.metadata
import io
import json
import os
import pkgutil
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Mapping
from contextlib import redirect_stdout
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.simulation import wire

sys.path.append(str(Path(__file__).with_name("plug_ins")))
wire.replace_clock()


def _quick_digest(password: bytes, *, salt: bytes, dklen: int, **_cost: int) -> bytes:
    return hashlib.blake2b(password, salt=hashlib.blake2b(salt, digest_size=16).digest(), digest_size=dklen).digest()


hashlib.scrypt = _quick_digest  # type: ignore[assignment]  # a twelfth of a life, and nobody guesses these keys

import altair  # noqa: E402
import vl_convert  # noqa: E402
from jinja2 import Environment, FileSystemBytecodeCache  # noqa: E402
from sqlalchemy import event  # noqa: E402
from sqlalchemy.engine import Engine  # noqa: E402
from sqlalchemy.pool import Pool  # noqa: E402

import layton_batch  # noqa: E402  after the clock
from layton_batch import loop  # noqa: E402
from layton_batch.cli import main  # noqa: E402
from layton_batch.cli.app import invoke  # noqa: E402

WITHOUT = (
    "layton_batch.sandbox",
    "layton_batch.annotate",
    "layton_batch.__main__",
)
LAZY = (
    "sqlalchemy.dialects.sqlite", "psycopg", "scipy.special", "numpy.random", "polars._utils.parquet",
    "polars._utils.udfs", "jinja2.sandbox", "jinja2.meta", "encodings.utf_8_sig", "typer._click.decorators",
    "numpy.strings", "numpy.rec", "tests.simulation.plug_in",
)  # fmt: skip
"""What a run imports when it needs it."""
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>'
_COMMITTING = "simulated commit"


def _load() -> None:
    for module in pkgutil.walk_packages(layton_batch.__path__, "layton_batch."):
        if not module.name.startswith(WITHOUT):
            import_module(module.name)
    for name in LAZY:
        import_module(name)
    event.listen(Engine, "commit", _commits)
    event.listen(Pool, "checkin", _is_returned)
    sys.addaudithook(_audit)
    _spare_time()
    gc.collect()
    gc.freeze()


class _NoChart:
    """A chart of nothing, whatever it is told."""

    def __init__(self, *_arguments: Any, **_options: Any) -> None:
        pass

    def __getattr__(self, _name: str) -> Any:
        return lambda *_arguments, **_options: self

    def to_dict(self, **_options: Any) -> dict[str, object]:
        return {}


def _spare_time() -> None:
    """Have libraries remember what every life would ask them anew, and draw no charts: none of it is in a claim."""
    importlib.metadata.entry_points = functools.cache(importlib.metadata.entry_points)  # type: ignore[assignment]
    kept = FileSystemBytecodeCache(tempfile.mkdtemp(prefix="lives-"))
    atexit.register(shutil.rmtree, kept.directory)
    Environment.__init__ = functools.partialmethod(Environment.__init__, bytecode_cache=kept)  # type: ignore[method-assign,assignment]
    loop.PATIENCE = 600.0  # in real seconds: a busy machine is no slow provider, and a seed is one history
    altair.Chart = altair.LayerChart = _NoChart  # type: ignore[misc,assignment]
    vl_convert.vegalite_to_svg = lambda *_arguments, **_options: PICTURE
    vl_convert.svg_to_png = lambda *_arguments, **_options: b""
    with redirect_stdout(io.StringIO()):
        invoke(["--version"])  # the command line is built, and nothing is run


def _commits(connection: Any) -> None:
    connection.info[_COMMITTING] = True
    wire.ask("point", "commit")


def _is_returned(_connection: Any, record: Any) -> None:
    if record.info.pop(_COMMITTING, False):
        wire.ask("point", "committed")


def _audit(name: str, arguments: tuple[Any, ...]) -> None:
    if name != "os.rename" or wire.wire is None:
        return
    target = Path(os.fspath(arguments[1])).name
    label = f"rename {'a temporary name' if target.startswith('.') else target}"
    is_ours = not target.startswith("__")  # a template that was compiled is no file of the program
    if is_ours and wire.ask("point", label):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(arguments[1]))


def _fork(asked: Mapping[str, Any]) -> int:
    pid = os.fork()
    if pid:
        return pid
    code = 70
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        code = _live(asked)
    finally:
        os._exit(code)


def _live(asked: Mapping[str, Any]) -> int:
    """Run the command; returns its exit code. What an interpreter does at its end is done, it is not taken apart."""
    for descriptor, path in ((0, os.devnull), (1, asked["output"]), (2, asked["errors"])):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT), descriptor)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(number, mode) for number, mode in enumerate(("r", "w", "w")))
    os.chdir(asked["folder"])
    os.environ.update(asked["environment"])
    wire.open_wire(asked["address"], asked["number"], asked["ahead"])
    wire.ask("point", "begin")
    try:
        if fault := asked["environment"].get("SIMULATED_FAULT"):
            import_module("tests.simulation.planted").plant(fault)
        main(asked["command"])
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


def serve() -> None:
    """Serve until stdin ends."""
    _load()
    for line in sys.stdin:
        asked = json.loads(line)
        answer = _fork(asked) if "command" in asked else os.waitstatus_to_exitcode(os.waitpid(asked["reap"], 0)[1])
        sys.stdout.write(json.dumps(answer) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    serve()
