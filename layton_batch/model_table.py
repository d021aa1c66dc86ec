"""Facts on models, known before anything is paid: ``models.toml``, read once.

Below providers and manifests, which both ask it: an encoder how a model's thinking is asked for, the checks of a
manifest what its provider would refuse.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from fnmatch import fnmatchcase
from functools import cache
from importlib.resources import files
from typing import Annotated, Literal

import msgspec

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Thinking = Literal["budget", "adaptive"]


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Facts about a model, as the file names them; None where nothing is said. ``chat``, ``batch``: False if not."""

    ends: date | None = None
    may_end: date | None = None
    replacement: str | None = None
    batch: bool | None = None
    chat: bool | None = None
    efforts: tuple[Effort, ...] | None = None
    thinking: tuple[Thinking, ...] | None = None
    refuses: tuple[str, ...] | None = None
    max_output_tokens: int | None = None
    least_cached_tokens: int | None = None


class KnownModel(ModelFacts, frozen=True, kw_only=True):
    """Facts of the table about one model. ``as_of``: the oldest look-up among them; ``sources``: who says each fact,
    with the day on which that was looked up, by its name."""

    as_of: date
    sources: Mapping[str, str]


class _ModelRow(ModelFacts, frozen=True, kw_only=True, forbid_unknown_fields=True):
    models: Annotated[tuple[str, ...], msgspec.Meta(min_length=1)]
    source: str
    as_of: date

    def names(self, model: str) -> bool:
        return any(fnmatchcase(model.lower(), pattern.lower()) for pattern in self.models)


class WireRefusal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Parameters that a provider's API refuses whatever the model; ``wire`` names the API's version."""

    provider: str
    refuses: tuple[str, ...]
    wire: str
    source: str
    as_of: date


@dataclass(frozen=True, slots=True)
class KnownModels:
    """The entries, in the order of the file: the first that states a fact is believed."""

    _wires: Sequence[WireRefusal]
    _models: Mapping[str, Sequence[_ModelRow]]

    _known: dict[tuple[str, str], KnownModel | None] = field(default_factory=dict, compare=False, repr=False)

    def model(self, provider: str, model: str) -> KnownModel | None:
        """Return the facts about a model by its provider's id; None where no entry names it."""
        if (provider, model) not in self._known:
            rows = [row for row in self._models.get(provider, ()) if row.names(model)]
            self._known[provider, model] = _known_model(rows) if rows else None
        return self._known[provider, model]

    def wire_refusals(self, provider: str) -> Sequence[WireRefusal]:
        """Return what the provider's API refuses in every request."""
        return [row for row in self._wires if row.provider == provider]


def _known_model(rows: Sequence[_ModelRow]) -> KnownModel:
    rows_by_fact: dict[str, _ModelRow] = {}
    for row in rows:
        for name in ModelFacts.__struct_fields__:
            if getattr(row, name) is not None:
                rows_by_fact.setdefault(name, row)
    facts = {name: getattr(row, name) for name, row in rows_by_fact.items()}
    sources = {name: f"{row.source}, {row.as_of}" for name, row in rows_by_fact.items()}
    return KnownModel(**facts, as_of=min(row.as_of for row in rows), sources=sources)


STATED_LIMITS: Mapping[str, tuple[int, int]] = {"anthropic": (16_000, 8_000)}
"""Output tokens that requests state where the manifest does not, to providers that refuse a request without a limit:
without a reasoning budget, and on top of one."""


_SNAPSHOT = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{2}-\d{4}|\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|\d{3})$")


def is_same_model(wanted: str, served: str) -> bool:
    """Return whether the model named ``served`` is the wanted one, or a dated snapshot of it.

    A ``-latest`` stands for whatever its provider serves by it. Of two dates one must be the other.
    """
    wanted, served = (bare_model(name.lower()) for name in (wanted, served))
    if wanted == served or wanted.endswith("-latest"):
        return True
    plain, plain_served = (_SNAPSHOT.sub("", name) for name in (wanted, served))
    same = plain in (plain_served, plain_served.removesuffix("-preview"))
    return same and (wanted == plain or served == plain_served)


def bare_model(model: str) -> str:
    """Return the model id without the path that Google's APIs allow before it."""
    return re.sub("^(?:publishers/google/)?models/", "", model)


@cache
def load() -> KnownModels:
    """The bundled table."""
    return parse((files("layton_batch") / "models.toml").read_text(encoding="utf-8"))


def parse(text: str) -> KnownModels:
    """A table from TOML text of ``models.toml``'s form. Raises ValueError for any other."""
    tables = tomllib.loads(text)
    wires = msgspec.convert(tables.pop("wire", ()), tuple[WireRefusal, ...])
    return KnownModels(wires, msgspec.convert(tables, dict[str, tuple[_ModelRow, ...]]))
