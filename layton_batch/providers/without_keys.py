"""A provider as the stages see it: no key of ours is in anything it says.

A gateway that repeats what it was sent puts our key into result files. Keys are covered in the bytes as they come in,
before anything is kept, so that nothing that is made of those bytes can show them: the raw results, tables, pages,
exports. A cover is as long as what it covers: places in a download, where a broken one is taken up again, and its size
stay what the provider says they are.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import cast

from layton_batch.errors import ProviderError
from layton_batch.log import Redactor, forms, is_telling
from layton_batch.providers.protocol import Provider, ResultPart
from layton_batch.records import Snapshot

_COVER = b"[hidden]"


def without_keys(provider: Provider, secrets: Iterable[str]) -> Provider:
    """The provider, with ``secrets`` taken out of results, messages and errors as they come in."""
    known = tuple(secrets)
    return cast("Provider", _WithoutKeys(provider, Cover.of(known), Redactor.of(known)))


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


@dataclass(eq=False)
class _WithoutKeys:
    _provider: Provider
    _cover: Cover
    _redact: Redactor

    def __getattr__(self, name: str) -> object:
        """Everything else is the provider's own; its calls raise errors without keys."""
        value = getattr(self._provider, name)
        return self._telling(value) if callable(value) else value

    def snapshot(self, provider_id: str) -> Snapshot:
        with self._errors():
            found = self._provider.snapshot(provider_id)
        message = None if found.message is None else self._redact(found.message)
        return replace(found, provider_status=self._redact(found.provider_status), message=message)

    def results(self, snapshot: Snapshot) -> Iterator[ResultPart]:
        with self._errors():
            for part in self._provider.results(snapshot):
                resume = part.resume and functools.partial(self._resumed, part.resume)
                yield replace(part, chunks=self._chunks(part.chunks), resume=resume)

    def _resumed(self, resume: Callable[[int], Iterator[bytes]], start: int) -> Iterator[bytes]:
        with self._errors():
            rest = resume(start)
        return self._chunks(rest)

    def _chunks(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        with self._errors():
            yield from self._cover.stream(chunks)

    def _telling(self, call: Callable[..., object]) -> Callable[..., object]:
        def called(*arguments: object, **named: object) -> object:
            with self._errors():
                return call(*arguments, **named)

        return called

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except ProviderError as error:
            error.args = (self._redact(str(error)),)
            error.code = error.code and self._redact(error.code)
            raise
