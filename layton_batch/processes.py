"""Set-up of this process: signals, proxies, threads of libraries."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache

LOOPBACK = ("127.0.0.1", "localhost", "::1")


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
