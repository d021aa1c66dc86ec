"""The registry of batch APIs: a name to a class, without importing any SDK.

A class is made with ``Class(access)``; with ``access = None`` everything that needs no network works (``limits``,
``capabilities``, ``status_map``, ``encode``, ``decode``, ``check``), and a call that needs it raises MissingKeyError.

Besides the protocol a class may have ``check(spec) -> list[str]`` (what in a model's declaration this API cannot do),
``windows`` (how long a batch may be given; else ``24h`` alone), ``about(model)`` (what it says of a model; see
:class:`~layton_batch.providers.protocol.KnowsModels`) and ``close()`` (let go of connections); :func:`problems`,
:func:`knows_models` and :func:`closing` use them where they exist.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, cast

from layton_batch.errors import ManifestError
from layton_batch.providers.protocol import USUAL_WINDOW, Access, KnowsModels, Provider
from layton_batch.records import ModelSpec

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "layton_batch.providers"
"""Entry points of this group add providers; a name of the table below cannot be taken over."""

BUILT_IN: dict[str, str] = {
    "openai": "layton_batch.providers.openai:OpenAI",
    "anthropic": "layton_batch.providers.anthropic:Anthropic",
    "gemini": "layton_batch.providers.gemini:Gemini",
    "mistral": "layton_batch.providers.mistral:Mistral",
    "together": "layton_batch.providers.together:Together",
    "groq": "layton_batch.providers.groq:Groq",
    "doubleword": "layton_batch.providers.doubleword:Doubleword",
    "openrouter": "layton_batch.providers.openrouter:OpenRouter",
    "xai": "layton_batch.providers.longtail:Xai",
    "vertex": "layton_batch.providers.longtail_vertex:Vertex",
}


class Dialect(Provider, Protocol):
    """A provider class as the registry makes it."""

    def __init__(self, access: Access | None) -> None: ...


def provider_names() -> tuple[str, ...]:
    """Every name a manifest may use: built-in ones first, then those of installed entry points."""
    return (*BUILT_IN, *sorted(set(_entry_points()) - set(BUILT_IN)))


def provider_class(name: str) -> type[Dialect]:
    """The class of a provider. Raises ManifestError naming the nearest name for one that is not there, and for an entry
    point that cannot be loaded."""
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return cast("type[Dialect]", getattr(importlib.import_module(module), attribute))
    point = _entry_points().get(name)
    if point is None:
        raise ManifestError(_unknown(name))
    try:
        return cast("type[Dialect]", point.load())
    except (ImportError, AttributeError) as error:
        raise ManifestError(f"provider {name!r} ({point.value}) cannot be loaded: {error}") from error


def connect(name: str, access: Access | None) -> Provider:
    """A provider ready for use; nothing is sent and no SDK is imported before its first call."""
    return provider_class(name)(access)


def problems(provider: Provider, spec: ModelSpec) -> list[str]:
    """What in ``spec`` this API cannot do, in words; empty where all is well or the provider does not say."""
    check = getattr(provider, "check", None)
    found = [str(problem) for problem in check(spec)] if callable(check) else []
    windows: tuple[str, ...] = getattr(provider, "windows", (USUAL_WINDOW,))
    if spec.window is not None and spec.window not in windows:
        found.append(f"window {spec.window!r} is not one that {spec.provider} has: use one of {', '.join(windows)}")
    return found


def knows_models(provider: Provider) -> KnowsModels | None:
    """The provider, where it can be asked about its models."""
    return cast("KnowsModels", provider) if callable(getattr(provider, "about", None)) else None


@contextmanager
def closing(provider: Provider) -> Iterator[Provider]:
    """The provider, its connections closed at the end."""
    try:
        yield provider
    finally:
        close = getattr(provider, "close", None)
        if callable(close):
            close()


def _entry_points() -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # 10 ms that a run with built-in providers only need not pay

    return {point.name: point for point in entry_points(group=GROUP)}


def _unknown(name: str) -> str:
    import difflib

    names = provider_names()
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    meant = f"; did you mean {near[0]!r}?" if near else "."
    return f"unknown provider {name!r}{meant} Known are: {', '.join(names)}"
