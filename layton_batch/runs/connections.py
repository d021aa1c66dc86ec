"""Connections to providers, as a manifest names and limits them."""

from __future__ import annotations

from dataclasses import replace

from layton_batch.manifest.manifest import Manifest
from layton_batch.providers import connect
from layton_batch.providers.openai_server import connect_to
from layton_batch.providers.protocol import Access, Provider


def connect_within(manifest: Manifest, name: str, access: Access | None) -> Provider:
    """Connect to the provider with the manifest's own ``[limits]``, which never raise the documented sizes."""
    server = manifest.server(name)
    provider = connect(name, access) if server is None else connect_to(server, access)
    if (own := manifest.limits.get(name)) is not None:
        changed = own.model_dump(exclude_none=True)
        smaller = {key: min(value, getattr(provider.limits, key)) for key, value in own.of_files().items()}
        provider.limits = replace(provider.limits, **(changed | smaller))
    return provider
