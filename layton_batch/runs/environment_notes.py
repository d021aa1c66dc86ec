"""Notes about keys and addresses, for a person to read before a key goes anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from layton_batch.files.addresses import shown
from layton_batch.providers import OWN_ADDRESSES
from layton_batch.settings import HUB, Settings, address_problem

if TYPE_CHECKING:
    from layton_batch.manifest.manifest import Manifest


def file_notes(settings: Settings) -> Iterator[str]:
    """Say what was read from the ``.env``, and what was not."""
    parts = []
    for names, words in (
        (settings.read_from_file, "read from it"),
        (settings.left_in_file, "not read from it: set it in the environment if you mean it"),
    ):
        if names:
            parts.append(f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {words}")
    if parts:
        yield f"{settings.env_file}: {'; '.join(parts)}"


def hub_notes(settings: Settings) -> Iterator[str]:
    """Say where the hub's token goes, if not to the hub."""
    if settings.hf_token is not None and settings.hf_endpoint != HUB:
        yield f"HF_TOKEN goes to {shown_address(settings.hf_endpoint)} (HF_ENDPOINT in the environment), not to {HUB}"


def address_notes(manifest: Manifest, settings: Settings) -> Iterator[str]:
    """Name the manifest's providers that are called elsewhere than at their own addresses."""
    called: dict[tuple[str, str], dict[str, str]] = {}
    for provider in dict.fromkeys(spec.provider for spec in manifest.all_specs()):
        variable = settings.address_variable(provider)
        if variable is None or address_problem(variable.value):
            continue  # `Settings.check_address` refuses it
        if not is_own_address(provider, variable.value):
            by_variable = called.setdefault((_host(variable.value), variable.place), {})
            by_variable[variable.name] = provider
    for (host, place), providers in called.items():
        names, those = f"{', '.join(providers)} in {place}", ", ".join(providers.values())
        if len(providers) == 1:
            yield f"{those} is called at {host} ({names}), not at its own address"
        else:
            yield f"{those} are called at {host} ({names}), not at their own addresses"


def _host(url: str) -> str:
    """Return an address without its path: sandboxes and gateways serve several providers."""
    return shown(urlunsplit((*urlsplit(url)[:2], "", "", "")))


def shown_address(url: str) -> str:
    """Return an address without user and query; a text that is no address may be a key, and is not shown."""
    return "no URL" if address_problem(url) else shown(url)


def is_own_address(provider: str, url: str) -> bool:
    """Return whether an address is the provider's own: its host, encrypted, at the usual port."""
    try:
        parts = urlsplit(url)
        is_plain = parts.scheme != "https" or parts.port not in (None, 443)
    except ValueError:
        return False
    host = (parts.hostname or "").lower()
    if provider == "vertex":  # a host for each region
        return not is_plain and host.endswith("-aiplatform.googleapis.com")
    return not is_plain and host == urlsplit(OWN_ADDRESSES.get(provider, "")).hostname
