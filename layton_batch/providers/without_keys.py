"""A provider as the stages see it: nothing it says holds the key that it was sent, and no reply of it ends a run.

A gateway that repeats what it was sent puts our key into result files. That key is covered in the bytes as they come
in, before anything is kept, so that nothing made of those bytes can show it: raw results, tables, pages, exports. All
other bytes are kept as they came. A reply with a time of 400 digits raises OverflowError in a dialect: that ends one
call, not the run.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import cast

from layton_batch.errors import AmbiguousCallError, LaytonBatchError, ProviderError, ProviderReplyError
from layton_batch.providers.protocol import Provider, ResultPart
from layton_batch.providers.wire_errors import unreadable_reply
from layton_batch.records import Snapshot, Submission
from layton_batch.redaction import Redactor


def without_keys(provider: Provider, key: str) -> Provider:
    """The provider, with the ``key`` that is sent to it taken out of results, messages and errors as they come in."""
    return cast("Provider", _WithoutKeys(provider, Redactor.of([key.strip()])))


@dataclass(eq=False)
class _WithoutKeys:
    _provider: Provider
    _redact: Redactor

    def __getattr__(self, name: str) -> object:
        """Everything else is the provider's own; its calls raise errors without keys."""
        value = getattr(self._provider, name)
        return self._telling(value) if callable(value) else value

    def snapshot(self, provider_id: str) -> Snapshot:
        with self._errors():
            reading = self._provider.snapshot(provider_id)
        message = None if reading.message is None else self._redact(reading.message)
        return replace(reading, provider_status=self._redact(reading.provider_status), message=message)

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
            yield from self._redact.stream(chunks)

    def create(self, submission: Submission) -> str:
        with self._errors(AmbiguousCallError):
            return self._provider.create(submission)

    def _telling(self, call: Callable[..., object]) -> Callable[..., object]:
        def called(*arguments: object, **named: object) -> object:
            with self._errors():
                return call(*arguments, **named)

        return called

    @contextmanager
    def _errors(self, kind: type[ProviderError] = ProviderReplyError) -> Iterator[None]:
        """Raise errors of this package without keys; anything else that a dialect raises is an error of this ``kind``:
        the provider sent a reply that the dialect cannot read."""
        try:
            yield
        except ProviderError as error:
            error.args = (self._redact(str(error)),)
            error.code = error.code and self._redact(error.code)
            raise
        except LaytonBatchError:
            raise
        except Exception as error:
            if isinstance(error, OSError) and error.filename is not None:
                raise  # a file of ours
            # from None: a traceback would show the reply, and with it keys
            raise kind(self._redact(f"{self._provider.name}: {unreadable_reply(error)}")) from None
