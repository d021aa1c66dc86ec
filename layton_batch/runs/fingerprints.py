"""Fingerprints: what a request asks its provider, whatever it is called. By its fingerprint it is paid for once."""

from __future__ import annotations

import re
from hashlib import sha256

FIRST_SAMPLE = 1
_LIMIT = re.compile(rb'(?<!\\)"(?:max_tokens|max_completion_tokens|max_output_tokens|maxOutputTokens)":\d+,?')


def fingerprint(provider: str, model: str, line: bytes, custom_id: str, sample: int = FIRST_SAMPLE) -> str:
    """Return the SHA-256, in hex, of provider, model, sample number and the encoded line without its ``custom_id``.

    The dialect puts the ``custom_id`` before what is asked, which may hold the same characters.
    """
    return fingerprint_bytes(provider, model, line, custom_id, sample).hex()


def without_limit(line: bytes) -> bytes:
    """Return the encoded line without its output limit. Within a text the quotes around such a name are escaped."""
    return _LIMIT.sub(b"", line)


def fingerprint_bytes(provider: str, model: str, line: bytes, custom_id: str, sample: int = FIRST_SAMPLE) -> bytes:
    """Return the 32 bytes of the same fingerprint."""
    digest = sha256(f"{provider}\x1f{model}\x1f{sample}\x1f".encode("utf-8", "surrogatepass"))
    digest.update(line.replace(custom_id.encode(), b"", 1))
    return digest.digest()


def scoped(fingerprint: bytes, scope: str) -> bytes:
    """Return the fingerprint within a scope, where it is another answer than in every other one; "" is all of them."""
    return sha256(f"{scope}\x1f".encode() + fingerprint).digest() if scope else fingerprint
