"""Pages of the documentation that come from the code: manifest keys, batch APIs, commands, tables and JSON documents.

``scripts/docs`` writes them and builds the site; a test holds that the committed pages are current.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

from layton_batch.manifest.form import ManifestForm
from layton_batch.providers import BUILT_IN, connect
from layton_batch.text import plural
from tools.command_page import commands_page
from tools.format_page import formats_page

DOCS = Path(__file__).resolve().parent.parent / "docs"
WORDS = Path(__file__).with_suffix(".toml")
"""What each key means, and an example of its value: for people, so the code does not have it. What is said of a table
also describes its keys with an empty list."""
_EXAMPLES = {"limits": ".openai", "providers": ".acme"}
"""The name of a table under names."""


def manifest_page() -> str:
    """Return ``docs/manifest.md``: a table of keys for every table of a manifest. Raises ValueError for stale words."""
    words = tomllib.loads(WORDS.read_text(encoding="utf-8"))
    parts = [f"{words['intro'].strip()}\n\n```toml\n{words['example'].strip()}\n```"]
    for title, model in _tables(ManifestForm, ""):
        own = words[title or "top"]
        rows = [_row(name, field, own[name]) for name, field in model.model_fields.items() if own.get(name)]
        heading = f"## `{_written(title)}`" if title else "## Top"
        parts += [f"{heading}\n\n{own['about'].strip()}"]
        if rows:
            parts += ["\n".join(["| key | example | meaning |", "|---|---|---|", *rows])]
        if set(own) - {"about"} != {name for name, field in model.model_fields.items() if not _is_table(field)}:
            raise ValueError(f"{WORDS.name}: [{title or 'top'}] describes other keys than the code has")
    return "\n\n".join(parts) + "\n"


def _written(title: str) -> str:
    """``[items]``, ``[[models]]``, ``[limits.openai]``."""
    return f"[[{title}]]" if title in ("models", "jury.judges", "prices") else f"[{title}]"


def _tables(model: type[BaseModel], path: str) -> Iterator[tuple[str, type[BaseModel]]]:
    yield path, model
    for name, field in model.model_fields.items():
        inner = _table_of(field.annotation)
        if inner is not None and name != "reasoning":
            title = f"{path}.{name}".strip(".")
            yield from _tables(inner, title + _EXAMPLES.get(title, ""))


def _is_table(field: Any) -> bool:
    return _table_of(field.annotation) is not None and field.annotation is not None and "Reasoning" not in str(field)


def _table_of(kind: Any) -> type[BaseModel] | None:
    """Return the model of a table in an annotation: alone, in a list or under names."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        return kind
    return next((table for inner in get_args(kind) if (table := _table_of(inner)) is not None), None)


def _row(name: str, field: Any, words: list[str]) -> str:
    meaning, example = words
    if field.is_required():
        meaning = f"**Needed.** {meaning}"
    elif field.default not in (None, {}, (), "", PydanticUndefined):
        meaning = f"{meaning} Default: `{_toml(field.default)}`."
    return f"| `{name}` | {f'`{example}`' if example else ''} | {meaning} |"


def _toml(value: object) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return str(value).lower() if isinstance(value, bool) else f'"{value}"' if isinstance(value, str) else f"{value}"


# ---- batch APIs ----------------------------------------------------------------------------------------------------


def provider_table() -> str:
    """Return the table of ``docs/providers.md``."""
    rows = ["| provider | requests a batch | size of a batch | window | results kept | pictures | cancel |"]
    rows += ["|---|---:|---:|---|---:|---|---|"]
    for name in BUILT_IN:
        provider = connect(name, None)
        limits, can = provider.limits, provider.capabilities
        windows = tuple(getattr(provider, "windows", ("24h",)))
        window = " to ".join((windows[0], windows[-1])) if len(windows) > 2 else ", ".join(windows)
        days = round(limits.retention_seconds / 86_400)
        size = f"{limits.max_bytes // 10**6:,} MB"
        rows.append(
            f"| `{name}` | {limits.max_requests:,} | {size} | {window} | {plural(days, 'day')} | {_yes(can.images)}"
            f" | {_yes(can.cancel)} |"
        )
    return "\n".join(rows)


def _yes(value: bool) -> str:
    return "yes" if value else "no"


MARKS = ("<!-- from the code: begin -->", "<!-- from the code: end -->")


def providers_page(text: str) -> str:
    """Return the page with its table made anew."""
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n\n{provider_table()}\n\n{MARKS[1]}{after}"


def pages() -> dict[Path, str]:
    """Return the text of every page that comes from the code, by its path."""
    providers = DOCS / "providers.md"
    return {
        DOCS / "manifest.md": manifest_page(),
        DOCS / "commands.md": commands_page(),
        DOCS / "formats.md": formats_page(),
        providers: providers_page(providers.read_text(encoding="utf-8")),
    }


if __name__ == "__main__":
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
