"""Connections to providers, and the account that each is paid with."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from hashlib import scrypt

from layton_batch.errors import ManifestError, MissingKeyError
from layton_batch.manifest.manifest import Manifest
from layton_batch.providers import OWN_ADDRESSES, connect, problems
from layton_batch.providers.openai import OpenAIServer
from layton_batch.providers.protocol import Access, Provider, ReplyAccount
from layton_batch.runs.environment_notes import is_own_address
from layton_batch.settings import Settings


def check_models_settings(manifest: Manifest, settings: Settings) -> None:
    """Raise ManifestError for addresses of providers that are none, and for settings of models that no API honours."""
    for spec in manifest.all_specs():
        settings.check_address(spec.provider)
        if faults := problems(connect_within(manifest, spec.provider, None), spec):
            raise ManifestError(f"model {spec.name!r} ({spec.provider}): {'; '.join(faults)}")


def connect_within(manifest: Manifest, name: str, access: Access | None) -> Provider:
    """Connect to the provider with the manifest's own ``[limits]``, which never raise the documented sizes."""
    server = manifest.server(name)
    provider = connect(name, access) if server is None else OpenAIServer(server, access)
    if (own := manifest.limits.get(name)) is not None:
        changed = own.model_dump(exclude_none=True)
        smaller = {key: min(value, getattr(provider.limits, key)) for key, value in own.of_files().items()}
        provider.limits = replace(provider.limits, **(changed | smaller))
    return provider


SANDBOX_KEY = "sandbox-key-"
"""Beginning of a sandbox's keys. Stated here too, because importing the sandbox loads its server."""


def account_digest(settings: Settings, provider: str, salt: str) -> str | None:
    """Compute what stands for the key and the address that the provider is called with; None: there is no key.

    Two digests are equal only if key and address are, within one run: ``salt`` names it. Equal keys at two addresses
    are two accounts, for a gateway has accounts of its own. A key that a sandbox gave out is one account at any
    address, because a sandbox has another port each time.
    """
    try:
        key, url = settings.access(provider)
    except MissingKeyError:
        return None
    if key.startswith(SANDBOX_KEY) or (provider in OWN_ADDRESSES and url is not None and is_own_address(provider, url)):
        url = None
    parts = (settings.lasting_key(provider) or "", (url or "").rstrip("/"), *settings.account_names(provider))
    return _digest("\0".join(parts), f"{provider} {salt}")


def is_played(settings: Settings, provider: str) -> bool:
    """Return whether a sandbox plays this provider: its key is one that only a sandbox gives out."""
    is_usable = settings.has_key(provider) and settings.key_trouble(provider) is None
    return is_usable and settings.access(provider).api_key.startswith(SANDBOX_KEY)


def organisation_digest(named: ReplyAccount, provider: str, salt: str) -> str | None:
    """Compute what stands for the organisation that the provider's replies name; None: none has named one yet."""
    return None if named.name is None else _digest(named.name, f"{provider} organisation {salt}")


@lru_cache(1024)
def _digest(text: str, salt: str) -> str:
    """Hash a key so that it cannot be guessed from the state store.

    A provider's key is random and long: no hash gives it away. The key of a gateway may be a word that somebody chose.
    So the hash is slow (about 50 ms and 16 MB for each guess), and the salt makes each guess good for one run only:
    nobody sees from two workspaces that they share a key. It is computed once in a process for each provider.
    """
    return scrypt(text.encode(), salt=salt.encode(), n=2**14, r=8, p=1, dklen=16).hex()
