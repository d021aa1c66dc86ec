"""Secrets (keys, tokens, a database's password) taken out of texts for people and out of bytes that providers send.

A secret is hidden as it is, and as JSON and URLs write it. In bytes the cover is as long as the
secret: the size of a download, and the place at which a broken download continues, stay what the provider says.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import AnyStr
from urllib.parse import quote

HIDDEN = "[hidden]"
_COVER = HIDDEN.encode()
SHORTEST_SECRET = 6
"""Values shorter than this are no keys; hiding them would eat ordinary words."""

_HEADER = re.compile(
    r"""(?ix) ( ["']? (?: (?:proxy-)?authorization | (?:x-|x-goog-)?api-?key | cookie | set-cookie ) ["']?
    \s* [:=,] \s* (?: b? ["'] )? (?! (?: (?:bearer|basic|token) \s+ )? \[hidden )
    (?: (?:bearer|basic|token) \s+ )? ) [^\s"',;}\])]{4,}""",
)
_BEARER = re.compile(r"(?i)\b(bearer\s+)(?!\[hidden)[A-Za-z0-9._~+/=-]{6,}")
_QUERY = re.compile(r"(?i)([?&](?:key|api_key|access_token)=)(?!\[hidden)[^&\s\"']+")
_PASSWORD = re.compile(r"(?i)(\b[a-z][a-z0-9+]*://[^\s:/@]*:)[^\s@/]+(@)")
_LONG, _LONG_WITH_DIGITS = 16, 10


def is_telling(secret: str) -> bool:
    """Tell whether this value is too unusual to occur in an answer by chance.

    Some environments have ``ollama`` or ``postgres`` as keys. Covering such words would falsify models' answers.
    """
    has_both = any(char.isdigit() for char in secret) and any(char.isalpha() for char in secret)
    return len(secret) >= _LONG or (len(secret) >= _LONG_WITH_DIGITS and has_both)


def forms(secret: str) -> Iterator[bytes]:
    """The secret as it is, and as JSON and URLs write it."""
    yield secret.encode()
    yield (escaped := json.dumps(secret)[1:-1]).encode()
    yield escaped.replace("/", "\\/").encode()
    yield (quoted := quote(secret, safe="")).encode()
    yield re.sub("%..", lambda code: code[0].lower(), quoted).encode()


def _longest_first(value: AnyStr) -> tuple[int, AnyStr]:
    return -len(value), value


@dataclass(frozen=True, slots=True)
class Redactor:
    """Takes known secrets, and whatever stands where keys stand, out of texts and streams of bytes.

    ``secrets``: hidden in texts; ``telling``: covered in bytes. Both have the longest first, so that no part of it
    stays.
    """

    secrets: tuple[str, ...] = ()
    telling: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, values: Iterable[str]) -> Redactor:
        """Make a redactor of these values, however they are written."""
        secrets = {value for value in values if len(value) >= SHORTEST_SECRET}
        telling = {form for value in secrets if is_telling(value) for form in forms(value)}
        secrets |= {form.decode() for form in telling}
        return cls(tuple(sorted(secrets, key=_longest_first)), tuple(sorted(telling, key=_longest_first)))

    # ---- texts -----------------------------------------------------------------------------------------------------

    def __call__(self, text: str) -> str:
        """Replace secrets, and what stands where keys stand, by ``[hidden]``."""
        for secret in self.secrets:
            if secret in text:
                text = text.replace(secret, HIDDEN)
        text = _HEADER.sub(rf"\g<1>{HIDDEN}", text)
        text = _BEARER.sub(rf"\g<1>{HIDDEN}", text)
        text = _QUERY.sub(rf"\g<1>{HIDDEN}", text)
        return _PASSWORD.sub(rf"\g<1>{HIDDEN}\g<2>", text)

    def without_keys(self, identifier: str) -> str:
        """Replace keys, and nothing else, in a provider's id.

        An id is no text for people: it may contain a short or usual secret by chance, and is of no use when changed.
        """
        for form in self.telling:
            identifier = identifier.replace(form.decode(), HIDDEN)
        return identifier

    # ---- bytes -----------------------------------------------------------------------------------------------------

    def stream(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """Cover secrets in the chunks, also secrets that lie over the ends of chunks, at the same length.

        Bytes that may be the beginning of a secret are held back until the next chunk. Where ``chunks`` raises, these
        bytes were not given out, so that a download that continues behind the last byte brings them again.
        """
        held = b""
        for chunk in chunks:
            text = held + chunk
            text, end = self._covered(text, self._open_end(text))
            held = text[end:]
            if end:
                yield text[:end]
        if held:
            yield self._covered(held, len(held))[0]

    def _covered(self, text: bytes, end: int) -> tuple[bytes, int]:
        """The text with what begins before ``end`` covered, and where that ends."""
        if not any(form in text for form in self.telling):
            return text, end
        covered = bytearray(text)
        for match in re.finditer(b"|".join(map(re.escape, self.telling)), text):
            if match.start() >= end:
                break
            covered[match.start() : match.end()] = _COVER.ljust(len(match[0]), b"*")
            end = max(end, match.end())
        return bytes(covered), end

    def _open_end(self, text: bytes) -> int:
        """Return the start of the longest suffix of ``text`` that may begin a secret."""
        end = len(text)
        for form in self.telling:
            place = text.find(form[:1], max(0, len(text) - len(form) + 1))
            while 0 <= place < end:
                if form.startswith(text[place:]):
                    end = place
                place = text.find(form[:1], place + 1)
        return end
