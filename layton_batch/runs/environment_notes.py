"""Notes about keys and addresses, for a person to read before a key goes anywhere."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

from layton_batch.files.addresses import shown
from layton_batch.manifest.manifest import Manifest
from layton_batch.providers import OWN_ADDRESSES
from layton_batch.settings import HUB, OWN_NAMES, Settings, address_problem
from layton_batch.text import did_you_mean


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


def variable_notes(settings: Settings) -> Iterator[str]:
    """Name variables that begin as this program's and mean nothing, with the nearest name."""
    for name in settings.unknown_names:
        near = did_you_mean(name, OWN_NAMES, 0.85)
        yield f"{name} is set and means nothing{near or ': docs/install.md lists the variables'}"


def hub_notes(settings: Settings) -> Iterator[str]:
    """Say where the hub's token goes, if not to the hub."""
    if settings.hf_token is not None and settings.hf_endpoint != HUB:
        yield f"HF_TOKEN goes to {shown_address(settings.hf_endpoint)} (HF_ENDPOINT in the environment), not to {HUB}"


NEED_A_PATH = ("openai", "doubleword", "openrouter")
"""Providers whose calls go to paths below the whole address; for the others the program adds ``/v1``."""


def path_note(provider: str, settings: Settings) -> str | None:
    """Say that the address set for a provider lacks the path that its own address has; None: it has a path."""
    variable, own = settings.address_variable(provider), urlsplit(OWN_ADDRESSES.get(provider, "")).path
    if provider not in NEED_A_PATH or variable is None or address_problem(variable.value):
        return None
    if urlsplit(variable.value).path.strip("/"):
        return None
    return (
        f"{provider}: {variable.name} ends without a path, and {provider}'s own address ends in {own}: write "
        f"{shown(variable.value).rstrip('/')}{own}, unless this server takes calls without it"
    )


def address_notes(manifest: Manifest, settings: Settings) -> Iterator[str]:
    """Name the manifest's providers that are called elsewhere than at their own addresses."""
    specs = (*manifest.model_specs(), *(judge.model for judge in manifest.panel()))
    called: dict[tuple[str, str], dict[str, str]] = {}
    for provider in dict.fromkeys(spec.provider for spec in specs):
        if (note := path_note(provider, settings)) is not None:
            yield note
        variable = settings.address_variable(provider)
        if (near := settings.near_address(provider)) is not None:
            yield (
                f"{near} is set and not read, so {provider} is called at its own address; the name is "
                f"{settings.address_names(provider)[0]}"
            )
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


def outage_advice(settings: Settings, provider: str, status: int | None) -> str:
    """Return what a person can check while the provider's calls fail, or nothing. ``status``: the HTTP status; None:
    the provider was not reached, or its reply was not its API's.
    """
    key, address = settings.key_variable(provider), settings.address_variable(provider)
    match status:
        case None if address is not None and settings.is_on_this_machine(provider):
            return f"Start the server at {address} again (`layton-batch sandbox`), or unset {address.name}"
        case None:
            proxies = [name for name in _PROXIES if settings.get(name)]
            checks = [*([str(address)] if address else []), *(f"{name} in the environment" for name in proxies)]
            return f"Check {' and '.join(checks) or 'the connection'}"
        case 401 | 402 | 403:
            return f"See to the account of {key}: its credit, its limits and its access, or set another key"
        case 404 | 405 if address is not None:
            own = OWN_ADDRESSES.get(provider)
            return f"Check that {address} is the address of a batch API" + (
                f"; {provider}'s own is {own}" if own else ""
            )
    return ""


_PROXIES = ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "all_proxy")


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
