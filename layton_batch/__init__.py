"""layton-batch: evaluate language and vision models through paid batch APIs.

``import layton_batch as lb`` gives a notebook ``lb.run``, ``lb.leaderboard`` and the other functions of ``_FUNCTIONS``;
they are loaded when first used (``commands``; docs/python.md).
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType

__version__ = "0.1.0"
_FUNCTIONS = {
    name: f"layton_batch.commands.{module}"
    for name, module in {
        **{name: name for name in ("check", "compare", "cost", "export", "import_", "judges", "label_import")},
        **{name: name for name in ("label_plan", "leaderboard", "plan", "resolve", "retry", "run", "site", "status")},
        "verify": "verify",
        "judge": "judge_frame",
    }.items()
}
"""The functions of commands by name, with their modules. Their types are in ``__init__.pyi``, so that no import of the
version leads to them."""


def __getattr__(name: str) -> object:
    if name in _FUNCTIONS:
        return getattr(import_module(_FUNCTIONS[name]), name)
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
