"""Registries of what can be added from outside by entry points: providers and tasks."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

from layton_batch.errors import ManifestError
from layton_batch.text import did_you_mean

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint


@dataclass(frozen=True, slots=True)
class Registry:
    """Names of one ``kind`` and what they stand for, imported only when it is asked for.

    ``built_in``: ``module:attribute`` by name. Entry points of ``group`` add names; they cannot replace built-in ones.
    """

    kind: str
    group: str
    built_in: Mapping[str, str]

    def names(self) -> tuple[str, ...]:
        """Every name a manifest may use: built-in ones first, then those of installed entry points."""
        return (*self.built_in, *sorted(set(self._entry_points()) - set(self.built_in)))

    def load(self, name: str) -> object:
        """Import what a name stands for. Raises ManifestError for an unknown name, and for an entry point that cannot
        be loaded."""
        if name in self.built_in:
            module, _, attribute = self.built_in[name].partition(":")
            return getattr(importlib.import_module(module), attribute)
        point = self._entry_points().get(name)
        if point is None:
            raise ManifestError(self.unknown(name))
        try:
            return point.load()
        except (ImportError, AttributeError) as error:
            raise ManifestError(f"{self.kind} {name!r} ({point.value}) cannot be loaded: {error}") from error

    def unknown(self, name: str) -> str:
        """Say that there is no such name, which one is nearest and which ones there are."""
        names = self.names()
        return f"unknown {self.kind} {name!r}{did_you_mean(name, names)} (known: {', '.join(names)})"

    def _entry_points(self) -> Mapping[str, EntryPoint]:
        return _entry_points(self.group, tuple(sys.path))


@lru_cache(8)
def _entry_points(group: str, _folders: tuple[str, ...]) -> Mapping[str, EntryPoint]:
    """Return the entry points of a group by name. They are looked for, which takes some 40 ms, once for a
    ``sys.path``."""
    from importlib.metadata import entry_points  # which a run with built-in names only need not load

    return {point.name: point for point in entry_points(group=group)}
