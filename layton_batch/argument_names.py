"""Messages of Python functions: arguments are called by their names, not as the options of a command."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import ParamSpec, TypeVar

from layton_batch.errors import LaytonBatchError

_P = ParamSpec("_P")
_T = TypeVar("_T")
_COMMAND_OR_OPTION = re.compile(r"`--(?P<set>[a-z]+) (?P<value>[^` ]+)`|`[^`]*`|--(?P<option>[a-z]+(?:-[a-z]+)*)")


def names_arguments(function: Callable[_P, _T]) -> Callable[_P, _T]:
    """Let the errors of a function name its arguments: ``max_usd`` for ``--max-usd``, ``yes=True`` for ``--yes``,
    ``runs='elsewhere'`` for ``--runs elsewhere`` in backticks.

    Commands in backticks stay, and so do options without an argument of that name.
    """
    arguments = signature(function).parameters

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
            return function(*args, **kwargs)
        except LaytonBatchError as error:
            error.args = (_COMMAND_OR_OPTION.sub(argument, str(error)), *error.args[1:])
            raise

    return call
