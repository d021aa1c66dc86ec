"""Keys that come back: a gateway that repeats what it was sent puts our key into result files.

They are covered in the bytes as they come in, before anything is kept, so that nothing that is made of those bytes can
show them: the raw results, tables, pages, exports. A cover is as long as what it covers: places in a download, where a
broken one is taken up again, and its size stay what the provider says they are.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from urllib.parse import quote

_COVER = b"[hidden]"
_LONG, _LONG_WITH_DIGITS = 16, 10


def is_telling(secret: str) -> bool:
    """Whether no answer holds this value by chance. ``ollama`` or ``postgres``, which stand for keys in some
    environments, are also words, and to cover those would falsify what models said."""
    has_both = any(char.isdigit() for char in secret) and any(char.isalpha() for char in secret)
    return len(secret) >= _LONG or (len(secret) >= _LONG_WITH_DIGITS and has_both)


@dataclass(frozen=True, slots=True)
class Cover:
    """Covers secrets in bytes: as they are, and as JSON, URLs and basic authorization write them."""

    forms: tuple[bytes, ...] = ()

    @classmethod
    def of(cls, secrets: Iterable[str]) -> Cover:
        found = {form for secret in secrets if is_telling(secret) for form in forms(secret)}
        return cls(tuple(sorted(found, key=lambda form: (-len(form), form))))

    def stream(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        """The chunks with secrets covered, also those that lie over the ends of chunks.

        Held back is only what may be the beginning of one; where ``chunks`` raises, that was not handed out, so that a
        download taken up behind what was brings it again.
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
        if not any(form in text for form in self.forms):
            return text, end
        covered = bytearray(text)
        for match in re.finditer(b"|".join(map(re.escape, self.forms)), text):
            if match.start() >= end:
                break
            covered[match.start() : match.end()] = _COVER.ljust(len(match[0]), b"*")
            end = max(end, match.end())
        return bytes(covered), end

    def _open_end(self, text: bytes) -> int:
        """Where the longest end of ``text`` begins that a secret may begin with."""
        end = len(text)
        for form in self.forms:
            place = text.find(form[:1], max(0, len(text) - len(form) + 1))
            while 0 <= place < end:
                if form.startswith(text[place:]):
                    end = place
                place = text.find(form[:1], place + 1)
        return end


def forms(secret: str) -> Iterator[bytes]:
    """The secret as it is, and as JSON, URLs and base64 write it."""
    yield (raw := secret.encode())
    yield (escaped := json.dumps(secret)[1:-1]).encode()
    yield escaped.replace("/", "\\/").encode()
    yield (quoted := quote(secret, safe="")).encode()
    yield re.sub("%..", lambda code: code[0].lower(), quoted).encode()
    for before in range(3):  # bytes of something else that share the first characters of base64 with it
        whole = base64.b64encode(bytes(before) + raw)
        certain = whole[(0, 2, 3)[before] : (before + len(raw)) * 8 // 6]
        yield certain
        yield certain.translate(bytes.maketrans(b"+/", b"-_"))
