"""Problems of a manifest: file, key and reason. Reasons are pydantic's own, with the value that was read."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from dataclasses import dataclass
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from layton_batch.errors import ManifestError
from layton_batch.manifest.form import is_secret
from layton_batch.text import did_you_mean

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Key = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault in one place of a file."""

    file: str
    key: Key
    reason: str

    def __str__(self) -> str:
        key = ""
        for part in self.key:
            key += f"[{part}]" if isinstance(part, int) else f".{part}" if key else part
        return f"{self.file}: {key}: {self.reason}" if key else f"{self.file}: {self.reason}"


def complain(problems: Iterable[Problem]) -> None:
    """Raises ManifestError with every problem on a line of its own; does nothing where there are none."""
    lines = list(dict.fromkeys(str(problem) for problem in problems))
    if lines:
        raise ManifestError("\n".join(lines))


def form_problems(file: str, form: type[BaseModel], error: ValidationError, at: Key = ()) -> list[Problem]:
    """Return pydantic's findings; ``at`` is where in the file the form begins."""
    # An array all of whose entries are faulty is reported as too short as well, which it is not.
    details = [d for d in error.errors(include_url=False) if not (d["type"] == "too_short" and d["input"])]
    return [Problem(file, (*at, *detail["loc"]), _reason(detail, form)) for detail in details]


def _reason(detail: ErrorDetails, form: type[BaseModel]) -> str:
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden":
        key = str(detail["loc"][-1])
        if is_secret(key):
            return "keys are read from the environment or from .env, never from a manifest: delete this line"
        names = _known_keys(form, detail["loc"][:-1])
        return f"unknown key{did_you_mean(key, names)} (known: {', '.join(names)})"
    if kind == "manifest":
        return str(detail["ctx"]["reason"])
    reason = f"{detail['msg'][:1].lower()}{detail['msg'][1:]}"
    is_scalar = isinstance(value, str | int | float) and kind != "missing"
    return f"{reason}, not {reprlib.repr(value)}" if is_scalar else reason


def _known_keys(form: type[BaseModel], key: Key) -> list[str]:
    """Return the keys of the table at ``key``."""
    for part in key:
        if isinstance(part, str) and part in form.model_fields:
            form = _table(form.model_fields[part].annotation) or form
    return list(form.model_fields)


def _table(annotation: object) -> type[BaseModel] | None:
    """The table in an annotation: ``tuple[ModelTable, ...]``, ``dict[str, LimitsTable]``, ``JuryTable | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in {Union, UnionType, tuple, dict, Annotated}:
        return next((table for part in get_args(annotation) if (table := _table(part))), None)
    return None
