"""What the raw results of a batch say: in short, in memory, for each line; in full, from disk, one reply at a time.

A batch may hold 50,000 answers of many pages. Which of them counts is told by their ids and outcomes alone.
"""

from __future__ import annotations

import os
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import count
from pathlib import Path
from typing import IO

import polars as pl

from layton_batch.batches import raw_results
from layton_batch.batches.cut_lines import Decode, decoded
from layton_batch.batches.spilled import packed, unpacked_reply
from layton_batch.errors import file_error
from layton_batch.files import atomic, tables
from layton_batch.providers import answer_keys, connect, damaged_rows
from layton_batch.records import Response
from layton_batch.runs.engine import Engine
from layton_batch.states import ErrorClass, RequestOutcome

_IN_FULL = "replies"
_PATIENCE = 0.2
_DIGEST = 16


@dataclass(frozen=True, slots=True)
class ReplyIndex:
    """A reply without its text. Two of one custom_id are equal where the replies are.

    ``place``: where its text is in UTF-8, half surrogate pairs as they are, start and length; ``rest``: what else it
    says. Without a ``rest`` that is where the reply is whole, packed.
    """

    custom_id: str
    outcome: RequestOutcome
    error_class: ErrorClass
    content: bytes
    place: tuple[int, int] = field(compare=False)
    rest: Response | None = field(compare=False, default=None)

    def __reduce__(self) -> tuple[object, ...]:
        """From a worker to this process in half the time that records within records take."""
        rest = None if self.rest is None else _packed(self.rest) or self.rest
        return _arrived, (self.custom_id, str(self.outcome), str(self.error_class), self.content, self.place, rest)


def _arrived(
    custom_id: str, outcome: str, cause: str, content: bytes, place: tuple[int, int], rest: bytes | Response | None
) -> ReplyIndex:
    said = unpacked_reply(rest) if isinstance(rest, bytes) else rest
    return ReplyIndex(custom_id, RequestOutcome(outcome), ErrorClass(cause), content, place, said)


def characters(reply: Response | ReplyIndex) -> int:
    """About how much text is in a reply."""
    return reply.place[1] if isinstance(reply, ReplyIndex) else len(reply.text or "")


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
        return reply if isinstance(reply, Response) else _whole(reply, self._file())

    def together(self, some: Sequence[Response | ReplyIndex]) -> tuple[Sequence[Response], pl.Series]:
        """Some replies, which may have a stand-in for their texts, and the texts as a table can hold them."""
        found = [self._parted(one) for one in some]
        return [said for said, _ in found], tables.text_column([text for _, text in found])

    def _parted(self, reply: Response | ReplyIndex) -> tuple[Response, bytes | None]:
        return (reply, _encoded(reply.text)) if isinstance(reply, Response) else _parted(reply, self._file())

    def _file(self) -> IO[bytes]:
        if self._spilled is None:
            raise ValueError("the file of the replies in full is not open")
        return self._spilled


def _parted(reply: ReplyIndex, spilled: IO[bytes]) -> tuple[Response, bytes | None]:
    """The reply, which may have the stand-in for its text, and the text in UTF-8, half surrogate pairs as they are."""
    start, length = reply.place
    content = os.pread(spilled.fileno(), length, start)
    if reply.rest is not None:
        return reply.rest, content
    whole = unpacked_reply(content)
    return whole, _encoded(whole.text)


def _whole(reply: ReplyIndex, spilled: IO[bytes]) -> Response:
    said, text = _parted(reply, spilled)
    if reply.rest is None or text is None:
        return said
    return replace(said, text=text.decode("utf-8", "surrogatepass"))


def _encoded(text: str | None) -> bytes | None:
    return None if text is None else text.encode("utf-8", "surrogatepass")


@contextmanager
def unpacked(folder: Path, decode: Decode, room: Path, keys: Sequence[str] = ()) -> Iterator[Replies]:
    """The replies in the parts under ``folder``, each line decoded once, in full in a nameless file in ``room``
    meanwhile. ``keys``: the dialect's ``answer_keys``.

    Raises FileError where there is no space for that.
    """
    try:
        spilled = tempfile.TemporaryFile(dir=room)  # noqa: SIM115  closed below; the block's own errors are not ours
        try:
            found = _read(folder, decode, keys, _Spill(spilled))
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
    with (room / _IN_FULL).open("wb+") as spilled:
        dialect = connect(provider, None)
        return _read(folder, dialect.decode, answer_keys(dialect), _Spill(spilled))


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

    def digest(self, reply: Response | ReplyIndex) -> bytes:
        """Of all that a reply says."""
        if isinstance(reply, ReplyIndex):
            self.file.flush()
            reply = _whole(reply, self.file)
        return sha256(_packed(reply) or repr(reply).encode()).digest()[:_DIGEST]


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

    def leave_out(self, seen: set[tuple[str, bytes]], spilled: _Spill) -> None:
        """Keep no reply that an earlier copy of the file has."""
        keys = [(one.custom_id, spilled.digest(one)) for one in self.replies]
        self.replies = [one for one, key in zip(self.replies, keys, strict=True) if key not in seen]
        seen.update(keys)

    @property
    def is_foreign(self) -> bool:
        return bool(self.hidden) and not self.all_named

    def explains(self, other: _Copy) -> bool:
        """Whether this copy of a file has readable lines for all that the other's lines name, and for as many more as
        it has lines that name nobody."""
        theirs = other.all_named
        nameless = sum(isinstance(one, str) for one in other.hidden)
        return theirs <= self.named and len(self.named) - len(theirs) >= nameless


def _read(folder: Path, decode: Decode, keys: Sequence[str], spilled: _Spill) -> Replies:
    entries: list[Response | ReplyIndex | str] = []
    found: dict[Path, _Copy] = {}
    damaged = 0
    for paths in raw_results.copies(folder).values():
        seen = set[tuple[str, bytes]]()
        copies: dict[Path, _Copy] = {}
        for path in paths:
            with suppress(FileNotFoundError):  # the process that has the batch by now removed a copy of no use
                copies[path] = _read_copy(path, decode, keys, spilled)
                if len(paths) > 1:
                    copies[path].leave_out(seen, spilled)
        told = [copy for copy in copies.values() if not copy.is_foreign] or list(copies.values())
        for copy in told:
            entries += copy.replies
            if not any(other.explains(copy) for other in told if other is not copy):
                entries += _still_hidden(copy, told)
                damaged += copy.damaged
        found |= copies
    return Replies(
        entries=_told_apart(entries, spilled),
        named=frozenset().union(*(copy.named for copy in found.values())),
        damaged=damaged,
        cut=frozenset(path for path, copy in found.items() if copy.is_cut),
        foreign=frozenset(path for path, copy in found.items() if copy.is_foreign),
        parts={path: copy.all_named for path, copy in found.items()},
    )


def _told_apart(
    entries: Sequence[Response | ReplyIndex | str], spilled: _Spill
) -> Sequence[Response | ReplyIndex | str]:
    """The entries, with the digests of those that are not the only one about their request."""
    names = Counter(one.custom_id for one in entries if not isinstance(one, str))
    if len(names) == names.total():
        return entries
    return [
        replace(one, content=spilled.digest(one)) if isinstance(one, ReplyIndex) and names[one.custom_id] > 1 else one
        for one in entries
    ]


def _still_hidden(copy: _Copy, told: Iterable[_Copy]) -> Iterator[Response | str]:
    """The damage of a copy, less what another copy of the file lets read."""
    others = frozenset[str]().union(*(other.named for other in told if other is not copy))
    return (one for one in copy.hidden if isinstance(one, str) or one.custom_id not in others)


def _read_copy(path: Path, decode: Decode, keys: Sequence[str], spilled: _Spill) -> _Copy:
    copy, numbers = _Copy(), count(1)
    for portion, texts in decoded(raw_results.lines(path), decode, keys):
        begin, _ = spilled.add(texts)
        for one in portion:
            number = next(numbers)
            if isinstance(one.said, Response):
                copy.named.add(one.said.custom_id)
                copy.replies.append(_brief(one.said, one.place, begin, spilled))
            else:
                copy.hidden += _damaged(one.line, f"{path.name} line {number}: {one.said}")
                copy.damaged += 1
                copy.is_cut |= not one.is_complete
    return copy


def _damaged(line: bytes, said: str) -> Sequence[Response | str]:
    return [damaged_rows.unreadable(custom_id, said) for custom_id in damaged_rows.named_in(line)] or [said]


def _brief(said: Response, place: tuple[int, int] | None, begin: int, spilled: _Spill) -> Response | ReplyIndex:
    """Whole where there is no text in it, or something of a dialect's own."""
    if place is not None:
        at = begin + place[0], place[1]
        return ReplyIndex(said.custom_id, said.outcome, said.error_class, b"", at, said)
    if said.text is None and said.refusal is None:
        return said
    content = _packed(said)
    return (
        said
        if content is None
        else ReplyIndex(said.custom_id, said.outcome, said.error_class, b"", spilled.add(content))
    )


def _packed(response: Response) -> bytes | None:
    try:
        return packed(response)
    except ValueError:
        return None
