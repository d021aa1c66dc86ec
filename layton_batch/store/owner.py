"""Who holds a lease: a name that another process can tell dead from alive."""

from __future__ import annotations

import itertools
from threading import Lock

from layton_batch.processes import UNKNOWN, is_gone, myself

_numbers = itertools.count(1)
_open: set[str] = set()
_lock = Lock()


def new_owner() -> str:
    """``machine/pid/start/number``: unique in time and space, also among several holders of one process."""
    machine, pid, begun = myself()
    owner = f"{machine}/{pid}/{begun}/{next(_numbers)}"
    with _lock:
        _open.add(owner)
    return owner


def retire(owner: str) -> None:
    """This process will not use the name again: what it still holds can be taken at once."""
    with _lock:
        _open.discard(owner)


def shares_our_clock(owner: str) -> bool:
    """Whether the holder is on this machine, so that its times are ours. False wherever that is not known."""
    machine, pid, begun = myself()
    return owner.startswith(f"{machine}/{pid}/{begun}/" if machine == UNKNOWN else f"{machine}/")


def is_dead(owner: str) -> bool:
    """Whether the holder certainly cannot act any more. False wherever that cannot be known from here."""
    try:
        machine, pid, begun, _ = owner.split("/")
        if (machine, int(pid), begun) == myself():
            with _lock:
                return owner not in _open
        return is_gone(machine, int(pid), begun)
    except ValueError:
        return False
