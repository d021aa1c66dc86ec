"""Fetch one file over HTTP: streamed to disk, bounded in tries and in time."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit, urlunsplit

from layton_batch.clock import Clock
from layton_batch.errors import DataError

if TYPE_CHECKING:
    import httpx

WAITS_SECONDS = (1.0, 2.0, 4.0)
LONGEST_WAIT_SECONDS = 60.0
LONGEST_DOWNLOAD_SECONDS = 1800.0
CONNECT_SECONDS, READ_SECONDS = 10.0, 60.0
_PASSING = frozenset({408, 425, 429, 500, 502, 503, 504})


class _PassingError(Exception):
    """A try that failed in a way the next one may not."""

    def __init__(self, reason: str, wait: float | None = None) -> None:
        super().__init__(reason)
        self.wait = wait


def fetch(url: str, target: Path, *, token: str | None, clock: Clock) -> None:
    """Download ``url`` into ``target``, trying again after each of the waits.

    ``token`` goes only to the URL's own host, never along a redirect elsewhere.

    Raises DataError after the last try, or at once where another try cannot help (401, 403, 404, bad address).
    """
    import httpx

    headers = {"Authorization": f"Bearer {token}"} if token else {}
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    with httpx.Client(headers=headers, timeout=timeout, follow_redirects=True) as client:
        for wait in (*WAITS_SECONDS, None):
            try:
                _try(client, url, target, clock)
            except _PassingError as error:
                if wait is None:
                    tries = len(WAITS_SECONDS) + 1
                    raise DataError(f"{shown(url)}: download failed {tries} times, at last with: {error}") from error
                clock.sleep(min(error.wait or wait, LONGEST_WAIT_SECONDS))
            else:
                return


def _try(client: httpx.Client, url: str, target: Path, clock: Clock) -> None:
    import httpx

    give_up_at = clock.now() + LONGEST_DOWNLOAD_SECONDS
    try:
        with client.stream("GET", url) as response, target.open("wb") as handle:
            _check(response, url)
            for chunk in response.iter_bytes():
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
        raise DataError(
            f"{shown(url)}: there is no such file (HTTP 404); a private data set looks the same without HF_TOKEN"
        )
    if status in _PASSING:
        after = response.headers.get("retry-after", "")
        raise _PassingError(f"HTTP {status}", float(after) if after.isdigit() else None)
    raise DataError(f"{shown(url)}: download refused (HTTP {status})")


def shown(source: str) -> str:
    """A source fit for messages: a URL without its user, query and fragment, where secrets travel."""
    if "://" not in source:
        return source
    try:
        parts = urlsplit(source)
    except ValueError:
        return source.partition("://")[0] + "://…"
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))
