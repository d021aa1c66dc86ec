"""What the raw results of a batch say: in short, in memory, for each line; in full, from disk, one reply at a time.

A batch may hold 50,000 answers of many pages. Which of them counts is told by their ids and outcomes alone.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import IO

from layton_batch.batches import raw_results
from layton_batch.batches.spilled import packed, unpacked_reply
from layton_batch.errors import ProviderError, ProviderReplyError, file_error
from layton_batch.files import atomic
from layton_batch.providers import connect, damaged_rows
from layton_batch.records import Response
from layton_batch.run.engine import Engine
from layton_batch.states import ErrorClass, RequestOutcome

Decode = Callable[[bytes], Response]
_IN_FULL = "replies"
_PATIENCE = 0.2


@dataclass(frozen=True, slots=True)
class ReplyIndex:
    """A reply without its text. Two of them are equal where the replies are; ``place``: where it is whole, start and
    length."""

    custom_id: str
    outcome: RequestOutcome
    error_class: ErrorClass
    content: bytes
    place: tuple[int, int] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Replies:
    """Every line of the stored parts, in their order: a reply in short (whole where it has no text), or why it cannot
    be read; a damaged line speaks for the requests it names. Of several copies of one file it is what they say
    together: each line once, and damage only where no other copy has what it hides.

    ``named``: the custom_ids of lines that can be read. ``damaged``: how many lines cannot. ``cut``: the parts that end
    in the middle of such a line. ``foreign``: the parts with lines of which none names a request, such as a page of
    HTML. ``parts``: by part, the custom_ids that its lines name, damaged ones too. Usable while :func:`unpacked` is
    open.
    """

    entries: Sequence[Response | ReplyIndex | str]
    named: frozenset[str]
    damaged: int
    cut: frozenset[Path]
    foreign: frozenset[Path]
    parts: Mapping[Path, frozenset[str]]
    _spilled: IO[bytes] | None = None

    def whole(self, reply: Response | ReplyIndex) -> Response:
        """The reply with its text."""
        if isinstance(reply, Response):
            return reply
        if self._spilled is None:
            raise ValueError("the file of the replies in full is not open")
        start, length = reply.place
        return unpacked_reply(os.pread(self._spilled.fileno(), length, start))


@contextmanager
def unpacked(folder: Path, decode: Decode, room: Path) -> Iterator[Replies]:
    """The replies in the parts under ``folder``, each line decoded once, in full in a nameless file in ``room``
    meanwhile.

    Raises FileError where there is no space for that.
    """
    try:
        spilled = tempfile.TemporaryFile(dir=room)  # noqa: SIM115  closed below; the block's own errors are not ours
        try:
            found = _read(folder, decode, _Spill(spilled))
            spilled.flush()
        except BaseException:
            spilled.close()
            raise
    except OSError as error:
        said = f"cannot unpack the results in {folder}: {error.strerror or error}; they are kept as they came"
        raise file_error(said, error) from error
    with spilled:
        yield replace(found, _spilled=spilled)


@contextmanager
def unpacked_apart(folder: Path, provider: str, engine: Engine, heed_stop: Callable[[], None]) -> Iterator[Replies]:
    """The same, read by a worker of the engine.

    Raises FileError, and BrokenExecutor where the worker ended.
    """
    with atomic.scratch(folder / _IN_FULL) as room:
        reading = engine.submit(read_apart, folder, provider, room)
        while not wait([reading], _PATIENCE).done:
            heed_stop()
        found = reading.result()
        with (room / _IN_FULL).open("rb") as spilled:
            yield replace(found, _spilled=spilled)


def read_apart(folder: Path, provider: str, room: Path) -> Replies:
    """In a worker: the replies in the parts under ``folder``, in full in a file in ``room``."""
    room.mkdir()
    with (room / _IN_FULL).open("wb") as spilled:
        return _read(folder, connect(provider, None).decode, _Spill(spilled))


@dataclass(slots=True)
class _Spill:
    """Replies in full, one after another."""

    file: IO[bytes]
    end: int = 0

    def add(self, content: bytes) -> tuple[int, int]:
        """Where it is now: start and length."""
        self.file.write(content)
        self.end += len(content)
        return self.end - len(content), len(content)


@dataclass(slots=True)
class _Copy:
    """What one stored part says."""

    replies: list[Response | ReplyIndex] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    hidden: list[Response | str] = field(default_factory=list)
    damaged: int = 0
    is_cut: bool = False

    @property
    def all_named(self) -> frozenset[str]:
        return frozenset(self.named) | {one.custom_id for one in self.hidden if isinstance(one, Response)}

    @property
    def is_foreign(self) -> bool:
        return bool(self.hidden) and not self.all_named

    def explains(self, other: _Copy) -> bool:
        """Whether this copy of a file has readable lines for all that the other's lines name, and for as many more as
        it has lines that name nobody."""
        theirs = other.all_named
        nameless = sum(isinstance(one, str) for one in other.hidden)
        return theirs <= self.named and len(self.named) - len(theirs) >= nameless


def _read(folder: Path, decode: Decode, spilled: _Spill) -> Replies:
    entries: list[Response | ReplyIndex | str] = []
    found: dict[Path, _Copy] = {}
    damaged = 0
    for paths in raw_results.copies(folder).values():
        seen = set[tuple[str, bytes]]()
        copies: dict[Path, _Copy] = {}
        for path in paths:
            with suppress(FileNotFoundError):  # the process that has the batch by now removed a copy of no use
                copies[path] = _read_copy(path, decode, spilled, seen)
        told = [copy for copy in copies.values() if not copy.is_foreign] or list(copies.values())
        for copy in told:
            entries += copy.replies
            if not any(other.explains(copy) for other in told if other is not copy):
                entries += _still_hidden(copy, told)
                damaged += copy.damaged
        found |= copies
    return Replies(
        entries=entries,
        named=frozenset().union(*(copy.named for copy in found.values())),
        damaged=damaged,
        cut=frozenset(path for path, copy in found.items() if copy.is_cut),
        foreign=frozenset(path for path, copy in found.items() if copy.is_foreign),
        parts={path: copy.all_named for path, copy in found.items()},
    )


def _still_hidden(copy: _Copy, told: Iterable[_Copy]) -> Iterator[Response | str]:
    """The damage of a copy, less what another copy of the file lets read."""
    others = frozenset[str]().union(*(other.named for other in told if other is not copy))
    return (one for one in copy.hidden if isinstance(one, str) or one.custom_id not in others)


def _read_copy(path: Path, decode: Decode, spilled: _Spill, seen: set[tuple[str, bytes]]) -> _Copy:
    """``seen``: the replies that earlier copies of the file have, which are not kept twice."""
    copy, own = _Copy(), set[tuple[str, bytes]]()
    for number, (line, complete) in enumerate(raw_results.lines(path), 1):
        try:
            if len(line) > raw_results.LONGEST_LINE:
                raise ProviderReplyError(f"the line is longer than {raw_results.LONGEST_LINE} bytes")
            response = decode(line)
        except ProviderError as error:
            copy.hidden += _damaged(line, f"{path.name} line {number}: {error}")
            copy.damaged += 1
            copy.is_cut |= not complete
            continue
        copy.named.add(response.custom_id)
        content = _packed(response)
        key = response.custom_id, sha256(content or repr(response).encode()).digest()[:16]
        if key not in seen:
            copy.replies.append(_brief(response, key[1], content, spilled))
        own.add(key)
    seen |= own
    return copy


def _damaged(line: bytes, said: str) -> Sequence[Response | str]:
    return [damaged_rows.unreadable(custom_id, said) for custom_id in damaged_rows.named_in(line)] or [said]


def _packed(response: Response) -> bytes | None:
    try:
        return packed(response)
    except ValueError:
        return None


def _brief(response: Response, digest: bytes, content: bytes | None, spilled: _Spill) -> Response | ReplyIndex:
    """Whole where there is no text in it, or something of a dialect's own."""
    if content is None or (response.text is None and response.refusal is None):
        return response
    return ReplyIndex(response.custom_id, response.outcome, response.error_class, digest, spilled.add(content))
