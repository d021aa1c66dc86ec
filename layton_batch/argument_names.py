"""Messages of Python functions: arguments are called by their names, not as the options of a command."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from functools import wraps
from inspect import Parameter, Signature, signature
from numbers import Integral, Real
from os import PathLike
from types import NoneType
from typing import ParamSpec, TypeVar

from layton_batch.clock import Clock
from layton_batch.errors import LaytonBatchError, ManifestError, refusal_of_system

_P = ParamSpec("_P")
_T = TypeVar("_T")
_COMMAND_OR_OPTION = re.compile(r"`--(?P<set>[a-z]+) (?P<value>[^` ]+)`|`[^`]*`|--(?P<option>[a-z]+(?:-[a-z]+)*)")


def names_arguments(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let the errors of a function name its arguments: ``max_usd`` for ``--max-usd``, ``yes=True`` for ``--yes``,
    ``runs='elsewhere'`` for ``--runs elsewhere`` in backticks.

    Commands in backticks stay, and so do options without an argument of that name. Raises ManifestError for an argument
    of another type than its annotation names, before the function does anything.
    """
    called = signature(function)
    arguments = called.parameters

    def argument(match: re.Match[str]) -> str:
        if match["set"] in arguments:
            return f"`{match['set']}={match['value']!r}`"
        name = (match["option"] or "").replace("-", "_")
        if name not in arguments:
            return match[0]
        return f"{name}=True" if arguments[name].default is False else name

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _T:
        try:
            check_arguments(called, args, kwargs)
            return function(*args, **kwargs)
        except OSError as error:
            refusal = refusal_of_system(error, "make the same call again")
            if refusal is None:
                raise
            raise refusal from error
        except LaytonBatchError as error:
            error.args = (_COMMAND_OR_OPTION.sub(argument, str(error)), *error.args[1:])
            raise

    return call


_TAKES: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "str": (str, "text"),
    "Path": (PathLike, "a path"),
    "int": (Integral, "a whole number"),
    "float": (Real, "a number"),
    "Decimal": (Decimal, "a decimal"),
    "bool": (bool, "True or False"),
    "Progress": (Callable, "a function that is called with the run's status"),  # type: ignore[dict-item]
    "Clock": (Clock, "a clock, with now() and sleep(seconds)"),
    "None": (NoneType, "None"),
}
"""Types that each word of an annotation takes, and their name in messages."""

_MODELS = "; a manifest names the models: `layton-batch run FILE --model PROVIDER:ID` writes one"
_INSTEAD: Mapping[str, str] = {
    "model": _MODELS,
    "models": _MODELS,
    "sandbox": "; `layton-batch run MANIFEST --sandbox` rehearses a run",
    "budget": "; max_usd is the most that may be paid",
}
"""Advice on arguments that no function has and that people try."""


def check_arguments(called: Signature, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
    """Raise ManifestError for an argument that is missing or unknown, and for the first one that is not of a type which
    its annotation names.

    Annotations with other words than those of ``_TAKES`` are left to the function.
    """
    try:
        given = called.bind(*args, **kwargs).arguments
    except TypeError as error:
        instead = next((words for name, words in _INSTEAD.items() if name in kwargs), "")
        names = ", ".join(
            f"{name}=…" if parameter.kind is Parameter.KEYWORD_ONLY else name
            for name, parameter in called.parameters.items()
        )
        raise ManifestError(f"{error}; the arguments are {names}{instead}") from error
    for name, value in given.items():
        words = str(called.parameters[name].annotation).split(" | ")
        if not all(word in _TAKES for word in words):
            continue
        is_bool = isinstance(value, bool) and "bool" not in words
        if is_bool or not any(isinstance(value, _TAKES[word][0]) for word in words):
            kind = "None" if value is None else f"a {type(value).__name__}"
            wanted = [_TAKES[word][1] for word in words if not (word == "str" and "Path" in words)]  # a path as text
            raise ManifestError(f"{name}: {kind} was given; give {' or '.join(wanted)}")
        if isinstance(value, str | PathLike) and "\0" in str(value):
            raise ManifestError(f"{name}: holds a character NUL, which no name can have")
        if "Progress" in words and callable(value):
            _check_progress(name, value)


def _check_progress(name: str, function: Callable[..., object]) -> None:
    """Raise ManifestError for a function that cannot be called with one argument; it is called after money is spent."""
    try:
        called = signature(function)
    except ValueError:  # some built-in functions tell nothing
        return
    try:
        called.bind(None)
    except TypeError as error:
        raise ManifestError(f"{name}: the function is called with one argument, the run's status ({error})") from error
