"""OpenAI's SDK at the address of another provider."""

from __future__ import annotations

from typing import Any

from layton_batch.providers import http_rules
from layton_batch.providers.http_client import open_client
from layton_batch.providers.protocol import Access


def connect(key: str, access: Access, address: str) -> Any:
    """A client for the address that ``access`` names, else for ``address``; its retries are off."""
    import openai

    class AddressClient(openai.OpenAI):
        """OpenAI's client without what it takes from the environment for OpenAI: organization, project and extra
        headers, among them perhaps another Authorization. None of that is this provider's business."""

        @property
        def default_headers(self) -> dict[str, str | openai.Omit]:
            own = {name: value for name, value in super().default_headers.items() if _harmless(name)}
            return {**own, "Authorization": f"Bearer {key}"}

    # the address is always given: else the SDK would take OpenAI's from the environment and send this key there
    base = access.base_url or address
    http = open_client(openai.DefaultHttpxClient, access, event_hooks=http_rules.HOOKS)
    return AddressClient(api_key=key, base_url=base, timeout=access.timeout_seconds, max_retries=0, http_client=http)


def _harmless(header: str) -> bool:
    name = header.lower()
    return name in ("accept", "content-type", "user-agent") or name.startswith("x-stainless-")
