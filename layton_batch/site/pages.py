"""From views to HTML: the templates, and the policy that tells a browser to run nothing but our own script."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from layton_batch.text import visible

_CLOSING = ("</script", "</style", "<!--")
_ICON = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 16 16"><rect width="16" height="16" rx="3" fill="#1d5a9e"/>'
    '<path d="M5 4.5h8M3 8h7M2.5 11.5h5" stroke="#a9c6e6" stroke-width="2" stroke-linecap="round"/>'
    '<g fill="#fff"><circle cx="10" cy="4.5" r="1.5"/><circle cx="6" cy="8" r="1.5"/><circle cx="5" cy="11.5" r="1.5"/>'
    "</g></svg>"
)


@cache
def environment() -> Environment:
    """Templates with escaping on, an error for every name that is not given, and the assets of a plain page."""
    loaded = Environment(
        loader=PackageLoader("layton_batch.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    loaded.globals.update(icon="data:image/svg+xml," + quote(_ICON, safe="/:=' "), **_assets(loaded, ("site",)))
    return loaded


@cache
def more_assets(*, loads: bool = False) -> dict[str, str]:
    """Return the assets of a page with tables, charts and controls; ``loads``: as for ``policy``."""
    return _assets(environment(), ("site", "board"), loads=loads)


def _assets(loaded: Environment, names: Iterable[str], *, loads: bool = False) -> dict[str, str]:
    style, script = ("".join(_asset(loaded, f"{name}.{kind}") for name in names) for kind in ("css", "js"))
    return {"style": style, "script": script, "policy": policy(style, script, loads=loads)}


def _asset(loaded: Environment, name: str) -> str:
    """One of our own files; base.html puts it into pages unescaped, and nothing else."""
    if loaded.loader is None:
        raise LookupError(name)
    text = loaded.loader.get_source(loaded, name)[0]
    if any(closing in text for closing in _CLOSING):
        raise ValueError(f"{name} would end its own element")
    return text


def policy(style: str, script: str, *, loads: bool = False) -> str:
    """The Content-Security-Policy of every page: images only from data URLs, our one style and one script by hash,
    no connection to anywhere; ``loads``: also what that script loads, for files have no host to name."""
    return "; ".join(
        (
            "default-src 'none'",
            "img-src data:",
            f"style-src {_source(style)}",
            f"script-src {_source(script)}" + (" 'strict-dynamic'" if loads else ""),
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def safe_html(html: str) -> Markup:
    """Mark HTML whose every text is escaped already, so that templates leave it as it is."""
    return Markup(html)  # noqa: S704


def render(template: str, **values: object) -> bytes:
    """A page in UTF-8."""
    return environment().get_template(template).render(**values).encode("utf-8", "replace")


def write(path: Path, template: str, **values: object) -> None:
    """One page into a new folder."""
    path.write_bytes(render(template, **values))


LONGEST = 20_000
"""Characters of one text that a page holds; the rest stays in the tables."""
LONG = 1_500
_LONG_LINES = 30
_TEASER = 160
_NAME = 200

_BLANKS = re.compile(r"\s+")


@dataclass(frozen=True, slots=True)
class ShownText:
    """A text for a page. ``teaser``: what stands for a long one while it is folded, else empty; ``size``: the
    characters of the whole text where ``text`` is cut, else 0."""

    text: str
    teaser: str = ""
    size: int = 0


def short_line(value: object, longest: int = 200) -> str:
    """Any value as a single short line, for names, titles and cells; None is empty."""
    if value is None:
        return ""
    text = str(value)
    return _name(text, longest) if len(text) <= _NAME else _line(text, longest)


def sentence(text: str) -> str:
    """A line of a terminal as it begins on a page."""
    shown = short_line(text, 500)
    return shown[:1].upper() + shown[1:]


def _line(text: str, longest: int) -> str:
    shown = visible(_BLANKS.sub(" ", text[: longest * 4]).strip())
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


_name = lru_cache(4096)(_line)  # the same few hundred names stand in a hundred thousand places


def passage(value: str | None) -> ShownText | None:
    """A text of several lines; None where there is nothing to read."""
    if value is None or not value.strip():
        return None
    text = visible(value[:LONGEST].replace("\r\n", "\n").strip())
    size = len(value) if len(value) > LONGEST else 0
    is_long = len(text) > LONG or text.count("\n") > _LONG_LINES
    return ShownText(text, short_line(text, _TEASER) if is_long else "", size)
