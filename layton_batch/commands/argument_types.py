"""Types of arguments, checked where Python calls a command: an error names the argument and what it may be."""

from __future__ import annotations

import functools
import inspect
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, ParamSpec, TypeVar, Union, cast, get_args, get_origin

from layton_batch.errors import ManifestError
from layton_batch.text import one_line

P = ParamSpec("P")
T = TypeVar("T")
_WORDS: Mapping[object, str] = {
    str: "text", Path: "a path", int: "a whole number", float: "a number", bool: "True or False", Decimal: "a Decimal",
    NoneType: "None",
}  # fmt: skip
"""Types that are checked, in words. Runs, tables and objects are checked by who reads them."""


def checked(function: Callable[P, T]) -> Callable[P, T]:
    """Return the function, which raises ManifestError for an argument of a type that its annotation does not allow."""
    signature = inspect.signature(function, eval_str=True)

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> T:
        for name, value in signature.bind(*args, **kwargs).arguments.items():
            kinds = list(_choices(signature.parameters[name].annotation))
            if kinds and None not in kinds and not any(_fits(value, kind) for kind in kinds):
                words = " or ".join(_words(kind) for kind in kinds)
                given = one_line(f"{value!r:.60}")
                raise ManifestError(f"{name}: {given} is a {type(value).__name__}; give {words}")
        return function(*args, **kwargs)

    return call


def _choices(kind: object) -> Iterator[type | list[type] | None]:
    """Yield the types of an annotation: one, a list of those in a sequence, None for one that is not checked here."""
    origin, parts = get_origin(kind), get_args(kind)
    if origin is Annotated:
        yield from _choices(parts[0])
    elif origin in (Union, UnionType):
        yield from itertools.chain.from_iterable(map(_choices, parts))
    elif origin is Sequence:
        within = list(_choices(parts[0]))
        yield None if None in within else cast("list[type]", within)
    else:
        yield cast("type", kind) if kind in _WORDS else None


def _fits(value: object, kind: type | list[type] | None) -> bool:
    if isinstance(kind, list):
        return isinstance(value, list | tuple) and all(any(_fits(part, allowed) for allowed in kind) for part in value)
    kinds = (int, float) if kind is float else kind
    return isinstance(value, cast("type", kinds)) and (kind is bool or not isinstance(value, bool))


def _words(kind: type | list[type] | None) -> str:
    return f"a list of {' or '.join(map(_words, kind))}" if isinstance(kind, list) else _WORDS[kind]
