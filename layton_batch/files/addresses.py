"""Content at an address on the hub or the web: streamed to disk, bounded in tries and in time."""

from __future__ import annotations

import ipaddress
import socket
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote, urlsplit, urlunsplit

from layton_batch.clock import Clock, SystemClock
from layton_batch.errors import DataError
from layton_batch.files import limits
from layton_batch.settings import Settings

if TYPE_CHECKING:
    import httpx


_HUB = "hf://"
_OF_THE_HUB = "/resolve/main/"
WEB = ("http://", "https://")
WAITS_SECONDS = (1.0, 2.0, 4.0)
LONGEST_WAIT_SECONDS = 60.0
LONGEST_DOWNLOAD_SECONDS = 1800.0
CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


def is_address(source: str) -> bool:
    """Return whether a source is on the hub or the web, not a local file."""
    return source.startswith((_HUB, *WEB))


def _hub_url(source: str, settings: Settings) -> str:
    parts = source.removeprefix(_HUB).split("/")
    if len(parts) < 4 or parts[0] != "datasets" or not all(parts) or ".." in parts:
        raise DataError(f"{source}: a hub source has the form hf://datasets/<owner>/<name>/<path of the file>")
    owner, name, path = parts[1], parts[2], "/".join(parts[3:])
    return f"{settings.hf_endpoint}/datasets/{owner}/{name}{_OF_THE_HUB}{path}"


@contextmanager
def downloaded(source: str, settings: Settings, clock: Clock | None = None, *, patient: bool = True) -> Iterator[Path]:
    """Yield a temporary file with the content of an address. The hub's token goes to the hub alone."""
    is_of_hub = source.startswith(_HUB)
    url, token = (_hub_url(source, settings), settings.hf_token) if is_of_hub else (source, None)
    with tempfile.TemporaryDirectory(prefix="layton-batch-") as folder:
        # The suffix is kept: it says what the file is.
        path = Path(folder) / f"source{Path(url.partition('?')[0]).suffix}"
        fetch(url, path, token=token, clock=clock or SystemClock(), waits=WAITS_SECONDS if patient else ())
        yield path


class MissingFileError(DataError):
    """Nothing is at the address (HTTP 404)."""


class _PassingError(Exception):
    """A failed try of a download that is worth another try."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


def fetch(url: str, target: Path, *, token: str | None, clock: Clock, waits: Sequence[float] = WAITS_SECONDS) -> None:
    """Download ``url`` into ``target``, trying again after each of the waits.

    ``token`` goes only to the URL's own host, never along a redirect elsewhere.

    Raises DataError after the last try, or at once where another try cannot help (401, 403, 404, bad address).
    """
    with _client(url, token) as client:
        _fetch(client, url, target, clock, waits)


def fetch_below(address: str, names: Iterable[str], folder: Path, clock: Clock) -> None:
    """Download the files of these names below an address that ends with a slash into a folder.

    A file that is not there (404) is left out. Raises DataError as :func:`fetch`, and where the files together are
    beyond the limit of a download.
    """
    size = 0
    with _client(address, None) as client:
        for name in names:
            target = folder / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with suppress(MissingFileError):
                _fetch(client, f"{address}{quote(name)}", target, clock, WAITS_SECONDS)
                size += target.stat().st_size
                limits.check_download(size, shown(address))


def _client(url: str, token: str | None) -> httpx.Client:
    import httpx

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    hooks = {"request": [lambda request: _check_target(request.url.host, url)]}
    return httpx.Client(headers=headers, timeout=timeout, follow_redirects=True, event_hooks=hooks)


def _fetch(client: httpx.Client, url: str, target: Path, clock: Clock, waits: Sequence[float]) -> None:
    for wait in (*waits, None):
        try:
            _try(client, url, target, clock)
        except _PassingError as error:
            if wait is None:
                tries = f"{len(waits) + 1} times, at last with" if waits else "with"
                advice = "check the address and the connection, or name a copy of the file on this machine"
                raise DataError(f"{shown(url)}: download failed {tries}: {error}; {advice}") from error
            clock.sleep(min(error.wait or wait, LONGEST_WAIT_SECONDS))
        else:
            return


def _try(client: httpx.Client, url: str, target: Path, clock: Clock) -> None:
    import httpx

    give_up_at = clock.now() + LONGEST_DOWNLOAD_SECONDS
    try:
        with client.stream("GET", url) as response:
            _check(response, url)
            size = 0
            with target.open("wb") as handle:
                for chunk in response.iter_bytes():
                    size += len(chunk)
                    limits.check_download(size, shown(url))
                    handle.write(chunk)
                    if clock.now() > give_up_at:
                        raise DataError(
                            f"{shown(url)}: download took longer than {LONGEST_DOWNLOAD_SECONDS / 60:.0f} minutes"
                        )
    except (httpx.TransportError, httpx.DecodingError) as error:
        raise _PassingError(str(error) or type(error).__name__) from error
    except (httpx.InvalidURL, httpx.TooManyRedirects, ValueError) as error:
        raise DataError(f"{shown(url)}: cannot be downloaded ({error})") from error
    except OSError as error:
        raise DataError(f"{shown(url)}: cannot be stored ({error.strerror or error})") from error


def _check_target(host: str, url: str) -> None:
    """Raise DataError if a call for ``url`` was redirected to another host, unless the hub did so, or to an address of
    this machine or of its link, where services answer that trust who calls them."""
    if leads_home(url, host):
        raise DataError(
            f"{shown(url)}: redirects to {host}, an address of this machine or its local link, which is not followed"
        )
    parts = urlsplit(url)
    if host != parts.hostname and _OF_THE_HUB not in parts.path:  # the hub keeps large files on other hosts
        raise DataError(
            f"{shown(url)}: redirects to another host, {host}, which is not followed: name the address there, or a "
            "copy of the file on this machine"
        )


def leads_home(url: str, host: str) -> bool:
    """Return whether a call for ``url``, which is on another machine, would go to an address of this machine or of its
    link at ``host``."""
    first_host = urlsplit(url).hostname or ""
    return host != first_host and _is_near(host) and not _is_near(first_host)


def _is_near(host: str) -> bool:
    """Return whether a host is, or has, a loopback, link-local or unspecified address."""
    try:
        texts = {str(entry[4][0]) for entry in socket.getaddrinfo(host.strip("[]"), None)}
    except (OSError, UnicodeError):
        return False  # nobody can be called there
    addresses = [ipaddress.ip_address(text.partition("%")[0]) for text in texts]
    plain = [getattr(address, "ipv4_mapped", None) or address for address in addresses]
    return any(address.is_loopback or address.is_link_local or address.is_unspecified for address in plain)


def _check(response: httpx.Response, url: str) -> None:
    status = response.status_code
    if response.is_success:
        return
    if status in {401, 403}:
        raise DataError(
            f"{shown(url)}: access refused (HTTP {status}). If the data set is gated, open its page on the hub, ask "
            "for access there, and set HF_TOKEN to a token of that account"
        )
    if status == 404:
        raise MissingFileError(
            f"{shown(url)}: there is no such file (HTTP 404); a private data set looks the same without HF_TOKEN"
        )
    if status in _PASSING:
        after = response.headers.get("retry-after", "")
        raise _PassingError(f"HTTP {status}", float(after) if after.isdigit() else None)
    raise DataError(f"{shown(url)}: download refused (HTTP {status})")


def shown(source: str) -> str:
    """Return a source fit for messages: a URL without its user, query and fragment, which may hold secrets."""
    if "://" not in source:
        return source
    try:
        parts = urlsplit(source)
    except ValueError:
        return source.partition("://")[0] + "://…"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
