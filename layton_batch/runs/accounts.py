"""The account at a provider that a batch is paid with, recognised again without its key.

Key and address are known before the first call, the organisation only once a reply named it.
"""

from __future__ import annotations

from functools import lru_cache
from hashlib import scrypt

from layton_batch.errors import MissingKeyError
from layton_batch.providers import OWN_ADDRESSES
from layton_batch.providers.protocol import ReplyAccount
from layton_batch.runs.environment_notes import is_own_address
from layton_batch.settings import Settings

SANDBOX_KEY = "sandbox-key-"
"""How keys of a sandbox begin. Stated here too, because importing the sandbox loads its server."""


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
