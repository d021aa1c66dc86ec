"""One execution of a manifest: opened, read, known by what it asks.

As ``layton_batch.run`` this package has the name of the function that a notebook calls, so calling it calls that.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType


class _Callable(ModuleType):
    def __call__(self, *arguments: object, **options: object) -> object:
        return import_module("layton_batch.interface").run(*arguments, **options)


sys.modules[__name__].__class__ = _Callable
