"""The registry of batch APIs: a name to a class, without importing any SDK.

A class is made with ``Class(access)``; with ``access = None`` everything that needs no network works (``limits``,
``capabilities``, ``status_map``, ``encode``, ``decode``, ``check``), and a call that needs it raises MissingKeyError.

Besides the protocol a class may have ``check(spec) -> list[str]`` (what in a model's declaration this API cannot do),
``windows`` (how long a batch may be given; else ``24h`` alone), ``about(model)`` (what it says of a model; see
:class:`~layton_batch.providers.protocol.KnowsModels`) and ``close()`` (let go of connections); :func:`problems`,
:func:`knows_models` and :func:`closing` use them where they exist.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import cast

from layton_batch.plug_ins import Registry
from layton_batch.providers.protocol import USUAL_WINDOW, Access, KnowsModels, Provider
from layton_batch.records import ModelSpec

BUILT_IN: dict[str, str] = {
    "openai": "layton_batch.providers.openai:OpenAI",
    "anthropic": "layton_batch.providers.anthropic:Anthropic",
    "gemini": "layton_batch.providers.gemini:Gemini",
    "mistral": "layton_batch.providers.openai:Mistral",
    "together": "layton_batch.providers.openai:Together",
    "groq": "layton_batch.providers.openai:Groq",
    "doubleword": "layton_batch.providers.openai:Doubleword",
    "openrouter": "layton_batch.providers.openrouter:OpenRouter",
    "xai": "layton_batch.providers.xai:Xai",
    "vertex": "layton_batch.providers.vertex:Vertex",
}

OWN_ADDRESSES = {
    "openai": "https://api.openai.com/v1",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "mistral": "https://api.mistral.ai",
    "together": "https://api.together.ai",
    "groq": "https://api.groq.com",
    "doubleword": "https://api.doubleword.ai/v1",
    "openrouter": "https://openrouter.ai/api/v1",
    "xai": "https://api.x.ai/v1",
}
"""The providers' own addresses. Vertex has one for each project and region."""

_REGISTRY = Registry("provider", "layton_batch.providers", BUILT_IN)


def provider_names() -> tuple[str, ...]:
    """Every name a manifest may use: built-in ones first, then those of installed entry points."""
    return _REGISTRY.names()


def unknown_provider(name: str) -> str:
    """Say that there is no provider of this name, and which ones there are."""
    return _REGISTRY.unknown(name)


def connect(name: str, access: Access | None) -> Provider:
    """Return a provider ready for use, at its own address unless ``access`` names another; nothing is sent and no SDK
    is imported before its first call. Raises ManifestError naming the nearest name for one that is not there, and for
    an entry point that cannot be loaded."""
    return cast("Callable[[Access | None], Provider]", _REGISTRY.load(name))(access)


def problems(provider: Provider, spec: ModelSpec) -> list[str]:
    """List in words what this API cannot do of ``spec``. Empty if there is no problem, or the provider does not say."""
    check = getattr(provider, "check", None)
    listed = [str(problem) for problem in check(spec)] if callable(check) else []
    windows: tuple[str, ...] = getattr(provider, "windows", (USUAL_WINDOW,))
    if spec.window is not None and spec.window not in windows:
        listed.append(f"window {spec.window!r} is not one that {spec.provider} has: use one of {', '.join(windows)}")
    return listed


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
