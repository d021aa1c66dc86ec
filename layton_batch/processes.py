"""Processes of this machine, dead or alive; of Linux' containers (pid namespaces) each sees its own processes only.

Two containers that share the host's name and boot were seen to miss each other's living processes (``unshare --pid``).
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

UNKNOWN = "-"
LOOPBACK = ("127.0.0.1", "localhost", "::1")


@cache
def machine() -> str:
    """This boot of this machine and this space of process ids; ``-`` where the system does not say.

    Only within one space of process ids does a missing process mean a dead one.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        space = Path("/proc/self/ns/pid").stat().st_ino
    except (OSError, ValueError):
        return UNKNOWN
    return f"{socket.gethostname()[:64].replace('/', '_')}.{boot}.{space}"


def started(pid: int) -> str | None:
    """Return when a process of this machine began, in the kernel's ticks since boot; None: there is none.

    From ``/proc/<pid>/stat``, field 22. A zombie has ended: only its parent's attention is missing.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        return None if fields[0] in {"Z", "X"} else fields[19]
    except (OSError, IndexError):
        return None


def is_gone(where: str, pid: int, begun: str) -> bool:
    """Return whether the process of this id on that machine has certainly ended. False where that is unknown."""
    return where == machine() != UNKNOWN and started(pid) != begun


def myself() -> tuple[str, int, str]:
    """(machine, process id, start) of this process."""
    pid = os.getpid()
    return machine(), pid, started(pid) or UNKNOWN


def bypass_proxy() -> None:
    """Exclude this machine's loopback addresses from the environment's proxies, which cannot reach them."""
    environment = os.environ  # noqa: TID251  what HTTP libraries read, the SDKs' too
    proxied = {name.lower() for name, value in environment.items() if value}
    if proxied & {"http_proxy", "https_proxy", "all_proxy"}:
        excluded = environment.get("no_proxy") or environment.get("NO_PROXY") or ""
        hosts = [host.strip() for host in excluded.split(",") if host.strip()]
        environment["no_proxy"] = environment["NO_PROXY"] = ",".join(dict.fromkeys([*hosts, *LOOPBACK]))


def enable_sigint() -> None:
    """Have Ctrl-C break off what the main thread waits for.

    Polars puts a handler before Python's that has system calls go on after SIGINT: a main thread that waits for others
    would hear of Ctrl-C only when they are done. To be called again wherever Polars may have been loaded since.
    """
    signal.siginterrupt(signal.SIGINT, True)


def one_thread_a_product() -> None:
    """Have one thread multiply matrices, unless the environment says how many: where there are more, each waits for the
    next product at full speed, on every processor there is. To be called before numpy is there."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # noqa: TID251  what OpenBLAS reads


STOPS = (signal.SIGINT, signal.SIGTERM)
LAST_SECONDS = 2.0
"""Time for a process to end by itself after the second stop."""


@cache
def end_at_second_stop(code: int) -> None:
    """Have this process end with the code soon after its second Ctrl-C or SIGTERM, whatever it waits for.

    Python's own handlers run in the main thread alone, between two steps of it: a main thread that waits in a library
    hears nothing. What C's handler writes to this pipe is read by a thread. Nothing is cleaned up, as at a kill.
    """
    if threading.current_thread() is threading.main_thread():
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
        threading.Thread(target=_end_after_stops, args=(reading, code), name="layton-batch-stops", daemon=True).start()


def _end_after_stops(pipe: int, code: int) -> None:
    stops = 0
    while stops < 2:
        stops += sum(number in STOPS for number in os.read(pipe, 64))
    threading.Event().wait(LAST_SECONDS)
    if (multiprocessing := sys.modules.get("multiprocessing")) is not None:
        for child in multiprocessing.active_children():
            child.kill()
    os._exit(code)


def count_stops_only() -> None:
    """Have further stops do nothing but count for :func:`end_at_second_stop`: this process is about to end."""
    if threading.current_thread() is threading.main_thread():
        for number in STOPS:
            signal.signal(number, lambda _number, _frame: None)


@contextmanager
def terminating() -> Iterator[Callable[[], None]]:
    """While the block runs, SIGTERM ends it the way Ctrl-C does.

    Yield a function that raises KeyboardInterrupt after a stop: Python ignores what is raised in a finalizer, so the
    first one may be lost.
    """
    stopped = threading.Event()

    def heed() -> None:
        if stopped.is_set():
            raise KeyboardInterrupt

    def stop(_signal: int, _frame: object) -> None:
        stopped.set()
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield heed
        return
    before = {number: signal.signal(number, stop) for number in STOPS}
    enable_sigint()
    try:
        yield heed
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
