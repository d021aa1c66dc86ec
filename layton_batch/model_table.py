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
from typing import Annotated, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, Strict, TypeAdapter

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
Thinking = Literal["budget", "adaptive"]

Fact = TypeVar("Fact")


@dataclass(frozen=True, slots=True)
class SourcedFact(Generic[Fact]):
    """A fact, who says so, and the day on which that was looked up."""

    fact: Fact
    source: str
    as_of: date


@dataclass(frozen=True, slots=True)
class ModelEnd:
    """The first day without the model. Not ``announced``: the first day on which its provider may end it."""

    day: date
    announced: bool
    replacement: str | None = None


@dataclass(frozen=True, slots=True)
class KnownModel:
    """Facts of the table about one model; None where it is silent."""

    as_of: date
    """The oldest look-up among what is said here."""
    end: SourcedFact[ModelEnd] | None
    runs_as_batch: SourcedFact[bool] | None
    takes_chat: SourcedFact[bool] | None
    efforts: SourcedFact[tuple[Effort, ...]] | None
    thinking: SourcedFact[tuple[Thinking, ...]] | None
    refuses: SourcedFact[tuple[str, ...]] | None
    max_output_tokens: SourcedFact[int] | None
    context_tokens: SourcedFact[int] | None
    least_cached_tokens: SourcedFact[int] | None = None


@dataclass(frozen=True, slots=True)
class WireRefusal:
    """Parameters that a provider's API refuses whatever the model; ``wire`` names the API's version."""

    parameters: tuple[str, ...]
    wire: str


class _FactRow(BaseModel):
    """Fields of every entry of the file."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    source: str
    as_of: date


class _WireRow(_FactRow):
    provider: str
    refuses: Annotated[tuple[str, ...], Strict(False)]
    wire: str


class _ModelRow(_FactRow):
    models: Annotated[tuple[str, ...], Strict(False), Field(min_length=1)]
    ends: date | None = None
    may_end: date | None = None
    replacement: str | None = None
    batch: bool | None = None
    chat: bool | None = None
    efforts: Annotated[tuple[Effort, ...], Strict(False)] | None = None
    thinking: Annotated[tuple[Thinking, ...], Strict(False)] | None = None
    refuses: Annotated[tuple[str, ...], Strict(False)] | None = None
    max_output_tokens: int | None = None
    context_tokens: int | None = None
    least_cached_tokens: int | None = None

    def names(self, model: str) -> bool:
        return any(fnmatchcase(model.lower(), pattern.lower()) for pattern in self.models)

    def end(self) -> ModelEnd | None:
        day = self.ends or self.may_end
        return None if day is None else ModelEnd(day, self.ends is not None, self.replacement)


_WIRE_ROWS = TypeAdapter(tuple[_WireRow, ...])
_MODEL_ROWS = TypeAdapter(dict[str, tuple[_ModelRow, ...]])


@dataclass(frozen=True, slots=True)
class KnownModels:
    """The entries, in the order of the file: the first that states a fact is believed."""

    _wires: Sequence[_WireRow]
    _models: Mapping[str, Sequence[_ModelRow]]

    _known: dict[tuple[str, str], KnownModel | None] = field(default_factory=dict, compare=False, repr=False)

    def model(self, provider: str, model: str) -> KnownModel | None:
        """Return the facts about a model by its provider's id; None where no entry names it."""
        if (provider, model) not in self._known:
            self._known[provider, model] = self._look_up(provider, model)
        return self._known[provider, model]

    def _look_up(self, provider: str, model: str) -> KnownModel | None:
        rows = [row for row in self._models.get(provider, ()) if row.names(model)]
        if not rows:
            return None
        return KnownModel(
            as_of=min(row.as_of for row in rows),
            end=_first([(row, row.end()) for row in rows]),
            runs_as_batch=_first([(row, row.batch) for row in rows]),
            takes_chat=_first([(row, row.chat) for row in rows]),
            efforts=_first([(row, row.efforts) for row in rows]),
            thinking=_first([(row, row.thinking) for row in rows]),
            refuses=_first([(row, row.refuses) for row in rows]),
            max_output_tokens=_first([(row, row.max_output_tokens) for row in rows]),
            context_tokens=_first([(row, row.context_tokens) for row in rows]),
            least_cached_tokens=_first([(row, row.least_cached_tokens) for row in rows]),
        )

    def wire_refusals(self, provider: str) -> Sequence[SourcedFact[WireRefusal]]:
        """Return what the provider's API refuses in every request."""
        rows = (row for row in self._wires if row.provider == provider)
        return [SourcedFact(WireRefusal(row.refuses, row.wire), row.source, row.as_of) for row in rows]


STATED_LIMITS: Mapping[str, tuple[int, int]] = {"anthropic": (16_000, 8_000)}
"""Output tokens that requests state where the manifest does not, to providers that refuse a request without a limit:
without a reasoning budget, and on top of one."""


_SNAPSHOT = re.compile(r"-(?:\d{4}-\d{2}-\d{2}|\d{2}-\d{4}|\d{2}-\d{2}|\d{8}|\d{6}|\d{4}|\d{3})$")


def is_same_model(wanted: str, served: str) -> bool:
    """Return whether the model named ``served`` is the wanted one, or a dated snapshot of it.

    A ``-latest`` stands for whatever its provider serves by it. Of two dates one must be the other.
    """
    wanted, served = (_own_name(name) for name in (wanted, served))
    if wanted == served or wanted.endswith("-latest"):
        return True
    plain, plain_served = (_SNAPSHOT.sub("", name) for name in (wanted, served))
    same = plain in (plain_served, plain_served.removesuffix("-preview"))
    return same and (wanted == plain or served == plain_served)


def _own_name(model: str) -> str:
    """Without the collection in which Google puts it; capitals do not count."""
    return re.sub(r"^(?:publishers/google/)?models/", "", model.lower())


def _first(facts: Sequence[tuple[_ModelRow, Fact | None]]) -> SourcedFact[Fact] | None:
    stated = (SourcedFact(fact, row.source, row.as_of) for row, fact in facts if fact is not None)
    return next(stated, None)


@cache
def load() -> KnownModels:
    """The bundled table."""
    return parse((files("layton_batch") / "models.toml").read_text(encoding="utf-8"))


def parse(text: str) -> KnownModels:
    """A table from TOML text of ``models.toml``'s form. Raises ValueError for any other."""
    tables = tomllib.loads(text)
    wires = _WIRE_ROWS.validate_python(tables.pop("wire", ()))
    return KnownModels(wires, _MODEL_ROWS.validate_python(tables))
