"""layton-batch: evaluate language and vision models through paid batch APIs.

``import layton_batch as lb`` gives a notebook ``lb.plan``, ``lb.run``, ``lb.judge``, ``lb.leaderboard`` and
``lb.compare``; they are loaded when first used (``interface``; docs/python.md).
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"
_FUNCTIONS = ("compare", "judge", "leaderboard", "plan", "run")

"""Of ``interface``. Their types are in ``__init__.pyi``, so that no import of the version leads to them."""


def __getattr__(name: str) -> object:
    if name in _FUNCTIONS:
        return getattr(import_module("layton_batch.interface"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_FUNCTIONS})
