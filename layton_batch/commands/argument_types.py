"""Types of arguments, checked where Python calls a command: an error names the argument and what it may be."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError

from layton_batch.errors import ManifestError
from layton_batch.text import one_line

P = ParamSpec("P")
T = TypeVar("T")
_AS_ANNOTATED = ConfigDict(strict=True, arbitrary_types_allowed=True)


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function, which raises ManifestError for an argument of a type that its annotation does not allow.

    Arguments that may be runs or tables are checked by who reads them.
    """
    signature = inspect.signature(function, eval_str=True)
    types = {name: TypeAdapter(each.annotation, config=_AS_ANNOTATED) for name, each in signature.parameters.items()}

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            if types[name].pydantic_complete:  # else it names a library that need not be installed
                _check(name, types[name], value)
        return function(*args, **kwargs)

    return call


def _check(name: str, kind: TypeAdapter[object], value: object) -> None:
    try:
        kind.validate_python(value)
    except ValidationError as error:
        reasons = dict.fromkeys(problem["msg"] for problem in error.errors())
        raise ManifestError(f"{name}: {one_line(f'{value!r:.60}')}: {'; or '.join(reasons)}") from error
