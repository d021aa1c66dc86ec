"""Messages to another program: a JSON document posted to an address that a person gave."""

from __future__ import annotations

import urllib.error
import urllib.request
from http.client import HTTPException
from urllib.parse import urlsplit

import orjson

from layton_batch.clock import Clock
from layton_batch.errors import ManifestError

TRIES, PAUSE, TIMEOUT = 3, 5.0, 20.0
"""Seconds of a pause grow with each try."""


def check_address(address: str | None) -> None:
    """Raise ManifestError for an address that is no URL, without the address."""
    try:
        is_url = address is None or (urlsplit(address).scheme in ("http", "https") and bool(urlsplit(address).hostname))
    except ValueError:
        is_url = False
    if not is_url:
        raise ManifestError("--webhook, or LAYTON_BATCH_WEBHOOK, is no URL; write https://HOST/PATH; nothing was sent")


def post(address: str, document: object, clock: Clock) -> str | None:
    """Post the document as JSON. Return the reason if it was not taken after a few tries, else None.

    The reason never has the address: it often is a secret itself.
    """
    if urlsplit(address).scheme not in ("http", "https"):
        return "its address is no http(s) URL"
    body = orjson.dumps(document, default=str)
    request = urllib.request.Request(address, body, {"Content-Type": "application/json"}, method="POST")  # noqa: S310
    reason = ""
    for number in range(TRIES):
        if number:
            clock.sleep(PAUSE * number)
        try:
            with urllib.request.urlopen(request, timeout=TIMEOUT) as reply:  # noqa: S310
                reply.read(1)
        except urllib.error.HTTPError as error:
            error.close()
            reason = f"HTTP {error.code}"
            if error.code < 500 and error.code not in (408, 429):
                return reason
        except (OSError, ValueError, HTTPException) as error:
            cause = getattr(error, "reason", error)
            reason = getattr(cause, "strerror", None) or type(cause).__name__
        else:
            return None
    return f"{reason}, {TRIES} times"
