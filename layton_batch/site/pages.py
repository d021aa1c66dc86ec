"""From views to HTML: the templates, and the policy that tells a browser to run nothing but our own script."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable
from functools import cache
from hashlib import sha256

from jinja2 import Environment, PackageLoader, StrictUndefined

_CLOSING = ("</script", "</style", "<!--")


@cache
def environment() -> Environment:
    """Templates with escaping on, an error for every name that is not given, and the assets as ``style``, ``script``
    and ``policy``."""
    loaded = Environment(
        loader=PackageLoader("layton_batch.site"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    style, script = (_asset(loaded, name) for name in ("site.css", "site.js"))
    loaded.globals.update(style=style, script=script, policy=policy(style, script))
    return loaded


def _asset(loaded: Environment, name: str) -> str:
    """One of our own files; base.html puts it into pages unescaped, and nothing else."""
    if loaded.loader is None:
        raise LookupError(name)
    text = loaded.loader.get_source(loaded, name)[0]
    if any(closing in text for closing in _CLOSING):
        raise ValueError(f"{name} would end its own element")
    return text


def policy(style: str, script: str) -> str:
    """The Content-Security-Policy of every page: images only from data URLs, our one style and one script by hash,
    no connection to anywhere."""
    return "; ".join(
        (
            "default-src 'none'",
            "img-src data:",
            f"style-src {_source(style)}",
            f"script-src {_source(script)}",
            "base-uri 'none'",
            "form-action 'none'",
        )
    )


def _source(text: str) -> str:
    return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"


def render(template: str, **values: object) -> Iterable[bytes]:
    """A page in UTF-8, in pieces."""
    return [environment().get_template(template).render(**values).encode("utf-8", "replace")]
