"""What is wrong with a manifest, in the words of the person who wrote it: file, key, reason, nearest key."""

from __future__ import annotations

import re
import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from layton_batch.errors import ManifestError
from layton_batch.manifest.form import ManifestForm, is_secret
from layton_batch.settings import Settings
from layton_batch.tasks import CHOICES, FIRST, OWN
from layton_batch.text import did_you_mean

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Key = tuple[str | int, ...]
OF_THE_WHOLE = ("name", "task")
"""Keys that every manifest has above its tables."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault in one place of a file."""

    file: str
    key: Key
    reason: str

    def __str__(self) -> str:
        key = _key_text(self.key)
        return f"{self.file}: {key}: {self.reason}" if key else f"{self.file}: {self.reason}"


def complain(problems: Iterable[Problem]) -> None:
    """Raises ManifestError with every problem on a line of its own; does nothing where there are none."""
    lines = list(dict.fromkeys(str(problem) for problem in problems))
    if lines:
        raise ManifestError("\n".join(lines))


def form_problems(
    file: str, form: type[BaseModel], error: ValidationError, tables: Mapping[str, object], at: Key = ()
) -> list[Problem]:
    """Pydantic's findings on ``tables`` in our words; ``at`` is where in the file the form begins."""
    # An array all of whose entries are faulty is reported as too short as well, which it is not.
    details = [d for d in error.errors(include_url=False) if not (d["type"] == "too_short" and d["input"])]
    return [Problem(file, (*at, *detail["loc"]), _reason(detail, form, tables)) for detail in details]


def nearest(word: str, names: Iterable[str]) -> str:
    """``; did you mean 'x'?`` or nothing."""
    return did_you_mean(word, names, cutoff=0.6)


def top_level_place(key: str) -> str:
    """Say where a key of the manifest's top level stands."""
    place = f"{key} of the manifest itself stands above the first [table]: move it there"
    return place if key in OF_THE_WHOLE else f"{place}, or write {_heading(key, ManifestForm)} above its keys"


def _key_text(key: Key) -> str:
    text = ""
    for part in key:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else part
    return text


def _reason(detail: ErrorDetails, form: type[BaseModel], tables: Mapping[str, object]) -> str:
    kind, value, context = detail["type"], detail["input"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        key, parent = str(detail["loc"][-1]), detail["loc"][:-1]
        return _secret(tables, parent) if is_secret(key) else _unknown_key(key, value, form, parent)
    if kind == "tuple_type" and isinstance(value, Mapping) and (name := _array_of_tables(form, detail["loc"])):
        return f"is an array of tables: write [[{name}]] above each, not [{name}]"
    if kind == "missing":
        key = str(detail["loc"][-1])
        return f"is missing{_missing_table(key, form) if len(detail['loc']) == 1 else _meaning(key)}"
    if kind == "literal_error":
        words = [word.strip("'") for word in str(context["expected"]).replace(" or ", ", ").split(", ")]
        if len(words) == 1:
            return f"{reprlib.repr(value)} is not {words[0]!r}, the only value of this key: write that or leave it out"
        return f"{reprlib.repr(value)} is not one of {', '.join(words)}{nearest(str(value), words)}"
    plain = _PLAIN.get(kind)
    if plain is not None:
        return plain(context, value) + (_NO_JUDGE if (kind, detail["loc"][-1]) == _NO_SEATS else "")
    if kind in ("model_type", "model_attributes_type", "dict_type"):
        return f"must be a table, not {_shown(value)}: {_table_advice(form, detail['loc'])}"
    if kind in _EXPECTED:
        return f"must be {_EXPECTED[kind]}, not {_shown(value)}{_as_expected(kind, value, detail['loc'])}"
    return f"{detail['msg'][:1].lower()}{detail['msg'][1:]}"


_PLAIN: Mapping[str, Callable[[Mapping[str, object], object], str]] = {
    "missing": lambda _, __: "is missing",
    "manifest": lambda context, _: str(context["reason"]),
    "too_short": lambda _, __: "must not be empty",
    "finite_number": lambda _, value: f"must be a finite number, not {value}",
    "greater_than_equal": lambda context, value: f"must be at least {context['ge']}, not {_shown(value)}",
    "greater_than": lambda context, value: f"must be greater than {context['gt']}, not {_shown(value)}",
    "less_than_equal": lambda context, value: (
        f"must be at most {context['le']}, not {_shown(value)}{_as_share(value, context['le'])}"
    ),
    "less_than": lambda context, value: (
        f"must be less than {context['lt']}, not {_shown(value)}{_as_share(value, context['lt'])}"
    ),
}
_EXPECTED: Mapping[str, str] = {
    "string_type": "text in quotes",
    "int_type": "a whole number",
    "float_type": "a number",
    "is_instance_of": "a number",
    "decimal_type": "a number",
    "bool_type": "true or false",
    "model_type": "a table",
    "model_attributes_type": "a table",
    "dict_type": "a table",
    "tuple_type": "an array",
    "invalid-json-value": "something JSON can say",
}


_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
_RATE = ": US dollars for a million tokens"
_MEANINGS = {"input": _RATE, "output": _RATE}
"""Meanings of keys that are needed, where their names do not say them."""
_NO_SEATS = ("greater_than_equal", "seats")
_NO_JUDGE = (
    f"; tasks such as {OWN} and {FIRST} need a judge, and multiple choice ({CHOICES}) is graded by a rule without one"
)
_ADDRESSES = frozenset({"base_url", "api_base", "api_url", "endpoint", "url"})
"""Keys by which other programs name the address of an API."""


def _as_expected(kind: str, value: object, key: Key) -> str:
    """Return how a number or a truth value in quotes, or a list of sources, is written; nothing for anything else."""
    if kind == "string_type" and key[-1] == "source" and isinstance(value, list):
        return ': a pattern names several files, such as "questions/*.csv"'
    is_number = kind in ("int_type", "float_type") and isinstance(value, str) and _NUMBER.fullmatch(value.strip())
    is_truth = kind == "bool_type" and isinstance(value, str) and value.strip().lower() in ("true", "false")
    return f": write {str(value).strip().lower()} without quotation marks" if is_number or is_truth else ""


def _meaning(key: str) -> str:
    return _MEANINGS.get(key, "")


def _as_share(value: object, most: object) -> str:
    """Return how a number of per cent is written where a key takes a share; nothing for any other key or value."""
    is_share = isinstance(most, float) and most <= 1 and isinstance(value, int | float) and 1 <= value <= 100
    return f"; {value:g} % is {value / 100:g}" if is_share and isinstance(value, int | float) else ""


def _shown(value: object) -> str:
    if isinstance(value, Mapping):
        return "a table"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "an array"
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else reprlib.repr(value)


def _unknown_key(key: str, value: object, form: type[BaseModel], parent: Key) -> str:
    names = _known_keys(form, parent)
    if key in _ADDRESSES:
        return "unknown key; addresses are read from the environment, such as OPENAI_BASE_URL"
    if key.startswith(("price", "cost")) and "prices" not in names:
        return "unknown key; prices stand in tables [[prices]] with provider, model, input and output"
    suggestion = nearest(key, names)
    if key in OF_THE_WHOLE:
        return f"unknown key (known: {', '.join(names)}); {top_level_place(key)}"
    if key in ManifestForm.model_fields and (isinstance(value, Mapping | list) or not suggestion):
        return f"unknown key; {top_level_place(key)}"
    if key in ("judge", "judges") and "jury" in names:
        return "unknown key; judges are tables [[jury.judges]], or a file that panel names under [jury]"
    if not isinstance(value, Mapping | list) and (homes := _tables_with(key, form)):
        params = ", and what else the provider is told in params" if "params" in names else ""
        return f"unknown key; {key} stands under {' or '.join(homes)}{params}"
    if suggestion and (array := next((name for name in _arrays(form) if f"'{name}'" in suggestion), None)):
        return f"unknown key; did you mean [[{array}]]?"
    if not suggestion and isinstance(value, Mapping) and not value.keys().isdisjoint(OF_THE_WHOLE):
        return "unknown table; name and task stand above the first [table], in no table of their own"
    if "params" in names and not suggestion:
        shown = _shown(value) if isinstance(value, int | float) else "…"  # a text may be a secret
        return f"unknown key; what else the provider is told goes into params = {{ {key} = {shown} }}"
    return "unknown key" + (suggestion or f" (known: {', '.join(names)})")


def _arrays(form: type[BaseModel]) -> list[str]:
    """Return the names of the arrays of tables at the top of a form."""
    fields = form.model_fields.items()
    return [name for name, field in fields if get_origin(field.annotation) is tuple and _table(field.annotation)]


def _tables_with(key: str, form: type[BaseModel]) -> list[str]:
    """Return the tables at the top of a form that have this key, as TOML writes them; none where that is no help."""
    tables = {name: table for name, field in form.model_fields.items() if (table := _table(field.annotation))}
    homes = [_heading(name, form) for name, table in tables.items() if key in table.model_fields]
    return homes if len(homes) <= 2 else []


def _heading(name: str, form: type[BaseModel]) -> str:
    """Return the heading of a table at the top of a form, as TOML writes it."""
    if name in _arrays(form):
        return f"[[{name}]]"
    return "[limits.PROVIDER]" if name == "limits" else f"[{name}]"


def _secret(tables: object, parent: Key) -> str:
    """Say where a key of the provider that the table at ``parent`` names is read from. The message does not show it."""
    from layton_batch.providers import provider_names

    table = tables
    for part in parent:
        if isinstance(table, Mapping):
            table = table.get(part)
        elif isinstance(table, list | tuple) and isinstance(part, int):
            table = table[part]
    provider = table.get("provider") if isinstance(table, Mapping) else None
    names = Settings(Path()).key_names(provider) if provider in provider_names() else ()
    variables = " or ".join(names) or "a variable such as OPENAI_API_KEY"
    return (
        f"keys are read from the environment, never from a manifest: set {variables} there or in .env, and delete this "
        "line"
    )


def _table_advice(form: type[BaseModel], key: Key) -> str:
    """Return how the table at ``key`` is written."""
    if key[0] == "limits":
        return "limits stand in a table for each provider, such as [limits.openai]"
    if isinstance(key[-1], int):
        return f"write [[{_key_text(key[:-1])}]] above its keys"
    names = _known_keys(form, key)
    if len(key) == 1 and names != list(form.model_fields):
        return f"write [{key[0]}] above its keys: {', '.join(names)}"
    return f"write {key[-1]} = {{ NAME = … }}"


def _known_keys(form: type[BaseModel], key: Key) -> list[str]:
    """Return the keys of the table at ``key``."""
    for part in key:
        if isinstance(part, str) and part in form.model_fields:
            form = _table(form.model_fields[part].annotation) or form
    return list(form.model_fields)


def _missing_table(name: str, form: type[BaseModel]) -> str:
    """Return how to add a table that is missing; nothing for another key."""
    annotation = form.model_fields[name].annotation if name in form.model_fields else None
    if _table(annotation) is None:
        return ""
    return f": add tables [[{name}]]" if get_origin(annotation) is tuple else f": add a table [{name}]"


def _array_of_tables(form: type[BaseModel], key: Key) -> str:
    """Return the name of the array of tables at ``key``, as TOML writes it; nothing for any other place."""
    table: type[BaseModel] | None = form
    for part in key:
        field = table.model_fields.get(str(part)) if table is not None else None
        table = _table(field.annotation) if field is not None else None
    return "" if table is None else _key_text(key)


def _table(annotation: object) -> type[BaseModel] | None:
    """The table in an annotation: ``tuple[ModelTable, ...]``, ``dict[str, LimitsTable]``, ``JuryTable | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in {Union, UnionType, tuple, dict, Annotated}:
        return next((table for part in get_args(annotation) if (table := _table(part))), None)
    return None
