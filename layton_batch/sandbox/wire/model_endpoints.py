"""What the sandbox says when it is asked about a model: it has its made-up ones and those of its configuration.

Whatever the catalogue says, batches of any model are answered.
"""

from __future__ import annotations

from collections.abc import Sequence

from layton_batch.sandbox.answerers.profiles import bundled_profiles
from layton_batch.sandbox.engine.configuration import SandboxConfig
from layton_batch.sandbox.engine.dialect import Rejection

_CREATED = 1_760_000_000
_EPOCH = "1970-01-01T00:00:00Z"
BATCH_ENTRY = ":batch"


def catalogue(config: SandboxConfig, provider: str) -> Sequence[str]:
    """The ids of the provider's models."""
    profiles = bundled_profiles()
    own = [profile.model for profile in profiles.participants.values() if profile.provider == provider]
    judges = [profile.model for profile in profiles.judges.values() if profile.provider == provider]
    return list(dict.fromkeys([*own, *judges, *sorted(config.models)]))


def known(config: SandboxConfig, provider: str, model: str, message: str, code: str | None = None) -> str:
    """The model's id. Raises Rejection (404) with ``message`` for one that the provider does not have."""
    if model not in catalogue(config, provider):
        raise Rejection(404, message, code=code, param="model")
    return model


def openai_view(provider: str, model: str) -> dict[str, object]:
    """An entry in OpenAI's form."""
    return {"id": model, "object": "model", "created": _CREATED, "owned_by": provider}


def openai_page(config: SandboxConfig, provider: str, model: str) -> dict[str, object]:
    """OpenAI's page of a model."""
    message = f"The model '{model}' does not exist or you do not have access to it."
    model_id = known(config, provider, model, message, "model_not_found")
    return {**openai_view(provider, model_id), "shutdown_date": None}


def openai_list(config: SandboxConfig, provider: str) -> dict[str, object]:
    """A catalogue in OpenAI's form."""
    return {"object": "list", "data": [openai_view(provider, model) for model in catalogue(config, provider)]}


def anthropic_page(config: SandboxConfig, model: str) -> dict[str, object]:
    """Anthropic's page of a model."""
    model_id = known(config, "anthropic", model, f"model: {model}")
    return {
        "type": "model",
        "id": model_id,
        "display_name": model_id,
        "created_at": _EPOCH,
        "lifecycle": "active",
        "deprecated_at": None,
        "retires_at": None,
        "line": None,
        "capabilities": {"batch": {"supported": True}},
    }


def gemini_page(config: SandboxConfig, model: str) -> dict[str, object]:
    """Gemini's page of a model."""
    model_id = known(config, "gemini", model, f"models/{model} is not found for this API version.", "NOT_FOUND")
    methods = ["generateContent", "countTokens", "batchGenerateContent"]
    return {"name": f"models/{model_id}", "displayName": model_id, "supportedGenerationMethods": methods}


def mistral_page(config: SandboxConfig, model: str) -> dict[str, object]:
    """Mistral's page of a model."""
    model_id = known(config, "mistral", model, f"Model {model} not found")
    own: dict[str, object] = {
        "capabilities": {"completion_chat": True},
        "aliases": [],
        "deprecation": None,
        "type": "base",
    }
    return {**openai_view("mistral", model_id), **own}


def together_list(config: SandboxConfig) -> list[dict[str, object]]:
    """Together's catalogue, a bare list."""
    return [{**openai_view("together", model), "type": "chat"} for model in catalogue(config, "together")]


def openrouter_list(config: SandboxConfig) -> dict[str, object]:
    """OpenRouter's catalogue: a second entry of each model for the price of batches."""
    ids = [model.removesuffix(BATCH_ENTRY) for model in catalogue(config, "openrouter")]
    entries = [entry for model in dict.fromkeys(ids) for entry in (model, model + BATCH_ENTRY)]
    return {"data": [{"id": model, "name": model, "created": _CREATED} for model in entries]}
