"""layton-batch: evaluate language and vision models through paid batch APIs.

``import layton_batch as lb`` gives a notebook ``lb.run``, ``lb.leaderboard`` and the other functions of ``_FUNCTIONS``;
they are loaded when first used (``commands``; docs/python.md).
"""

from __future__ import annotations

import sys
from functools import cache
from importlib import import_module
from types import ModuleType

__version__ = "0.1.0"
_FUNCTIONS = {
    name: f"layton_batch.commands.{module}"
    for name, module in {
        **{name: name for name in ("cancel", "check", "compare", "cost", "export", "grade", "import_", "judge")},
        **{name: name for name in ("judges", "label_import", "label_plan", "leaderboard", "overnight", "plan")},
        **{name: name for name in ("resolve", "retry", "run", "site", "status", "verify")},
        **dict.fromkeys(("answers", "verdicts"), "answers"),
        "statuses": "status",
    }.items()
}
"""The functions of commands by name, with their modules. Their types are in ``__init__.pyi``, so that no import of the
version leads to them."""


@cache
def _function(name: str) -> object:
    """Return a command's function, which checks the types of its arguments."""
    types = import_module("layton_batch.commands.argument_types")
    checked: object = types.checked(getattr(import_module(_FUNCTIONS[name]), name))
    return checked


def __getattr__(name: str) -> object:
    if name in _FUNCTIONS:
        return _function(name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted({*globals(), *_FUNCTIONS})


class _Package(ModuleType):
    """The package as a module whose ``site`` is the function, also once the subpackage of that name is imported."""

    @property
    def site(self) -> object:
        return __getattr__("site")

    @site.setter
    def site(self, subpackage: ModuleType) -> None:
        """Take the subpackage from the import system, which finds it in ``sys.modules`` all the same."""


sys.modules[__name__].__class__ = _Package
