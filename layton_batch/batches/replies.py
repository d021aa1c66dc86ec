"""The replies in the raw results of a batch: each line decoded once, the texts of all replies in one column."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import polars as pl
import zstandard

from layton_batch.batches import raw_results
from layton_batch.errors import DamagedTableError, LaytonBatchError, ProviderError, file_error
from layton_batch.files import tables
from layton_batch.providers import damaged_rows
from layton_batch.providers.wire_errors import unreadable_reply
from layton_batch.records import Response

Decode = Callable[[bytes], Response]


@dataclass(frozen=True, slots=True)
class Reply:
    """A response whose text is in a column with other texts. Two replies are equal where their whole responses are.

    ``response``: without the text. ``row``: of the text in the column; None where the response has no text.
    ``characters``: of the text. ``digest``: the text's hash in this process.
    """

    response: Response
    digest: int = 0
    row: int | None = field(compare=False, default=None)
    characters: int = field(compare=False, default=0)

    @property
    def custom_id(self) -> str:
        """The custom_id of the request."""
        return self.response.custom_id


class _Texts:
    """The column that grows: strings become UTF-8 in portions, for Python keeps up to four bytes a character."""

    def __init__(self) -> None:
        self._columns = [tables.text_column([])]
        self._last: list[str] = []
        self._characters = 0
        self.rows = 0

    def add(self, text: str) -> None:
        """Append a text; its row is ``rows`` before."""
        self._last.append(text)
        self._characters += len(text)
        self.rows += 1
        if self._characters >= _PORTION:
            self._flush()

    def _flush(self) -> None:
        self._columns.append(tables.text_column(self._last))
        self._last, self._characters = [], 0

    def column(self) -> pl.Series:
        """All texts, by row."""
        self._flush()
        return pl.concat(self._columns)


_PORTION = 4_000_000
"""Characters of texts that are strings at a time."""


@dataclass(frozen=True, slots=True)
class Replies:
    """Every line of the stored parts, in their order: a reply, or the reason why the line cannot be read.

    A damaged line gives a reply for each request that it names. Several copies of one file are merged: each line once,
    and damage only where no other copy has what it hides.

    ``named``: the custom_ids of readable lines. ``damaged``: the number of damaged lines. ``cut``: the parts that end
    in the middle of such a line. ``foreign``: the parts with lines of which none names a request, such as
    a page of HTML. ``parts``: by part, the custom_ids that its lines name, damaged lines included. ``texts``: by row.
    """

    entries: Sequence[Reply | str]
    named: frozenset[str]
    damaged: int
    cut: frozenset[Path]
    foreign: frozenset[Path]
    parts: Mapping[Path, frozenset[str]]
    texts: pl.Series

    def texts_of(self, replies: Sequence[Reply]) -> pl.Series:
        """Return the texts of these replies as a column; null where a reply has none."""
        return self.texts.gather(pl.Series([reply.row for reply in replies], dtype=pl.UInt32))


def read_replies(folder: Path, decode: Decode) -> Replies:
    """Read the replies in the parts under ``folder``. Raises FileError if a part cannot be read, DamagedTableError if
    the disk has damaged one."""
    entries: list[Reply | str] = []
    copies: dict[Path, _Copy] = {}
    texts = _Texts()
    damaged = 0
    for paths in raw_results.copies(folder).values():
        of_kind: dict[Path, _Copy] = {}
        seen = set[Reply]()
        for path in paths:
            try:
                copy = _read_copy(path, decode, texts, seen)
            except FileNotFoundError:
                continue  # the process that has the batch by now removed a copy of no use
            except zstandard.ZstdError as error:
                raise DamagedTableError(f"{path} was changed since it came: put it back from a copy", path) from error
            except OSError as error:
                raise file_error(f"cannot read {path}: {error.strerror or error}", error) from error
            of_kind[path] = copy
        merged = [copy for copy in of_kind.values() if not copy.is_foreign] or list(of_kind.values())
        for copy in merged:
            entries += copy.replies
            if not any(other.explains(copy) for other in merged if other is not copy):
                entries += _still_hidden(copy, merged)
                damaged += copy.damaged
        copies |= of_kind
    return Replies(
        entries=entries,
        named=frozenset().union(*(copy.named for copy in copies.values())),
        damaged=damaged,
        cut=frozenset(path for path, copy in copies.items() if copy.is_cut),
        foreign=frozenset(path for path, copy in copies.items() if copy.is_foreign),
        parts={path: copy.all_named for path, copy in copies.items()},
        texts=texts.column(),
    )


@dataclass(slots=True)
class _Copy:
    """One stored part. ``replies``: without those that an earlier copy of the file has.

    ``hidden``: damage, as replies of the requests that damaged lines name, or as reasons.
    """

    replies: list[Reply] = field(default_factory=list)
    named: set[str] = field(default_factory=set)
    hidden: list[Reply | str] = field(default_factory=list)
    damaged: int = 0
    is_cut: bool = False

    @property
    def all_named(self) -> frozenset[str]:
        return frozenset(self.named) | {entry.custom_id for entry in self.hidden if isinstance(entry, Reply)}

    @property
    def is_foreign(self) -> bool:
        return bool(self.hidden) and not self.all_named

    def explains(self, other: _Copy) -> bool:
        """Return whether this copy has readable lines for all that the other copy's lines name, and for as many more as
        it has lines that name nobody."""
        theirs = other.all_named
        nameless = sum(isinstance(entry, str) for entry in other.hidden)
        return theirs <= self.named and len(self.named) - len(theirs) >= nameless


def _still_hidden(copy: _Copy, merged: Iterable[_Copy]) -> Iterator[Reply | str]:
    """The damage of a copy, without the requests that another copy of the file lets read."""
    readable = frozenset[str]().union(*(other.named for other in merged if other is not copy))
    return (entry for entry in copy.hidden if isinstance(entry, str) or entry.custom_id not in readable)


def _read_copy(path: Path, decode: Decode, texts: _Texts, seen: set[Reply]) -> _Copy:
    """Read one stored part. ``seen``: the replies of the file's copies so far; new ones are added."""
    copy = _Copy()
    for number, (line, is_complete) in enumerate(raw_results.lines(path), 1):
        response = _decoded(line, decode)
        if isinstance(response, str):
            reason = f"{path.name} line {number}: {response}"
            ids = damaged_rows.named_in(line)
            copy.hidden += [Reply(damaged_rows.unreadable(custom_id, reason)) for custom_id in ids] or [reason]
            copy.damaged += 1
            copy.is_cut |= not is_complete
        else:
            copy.named.add(response.custom_id)
            text = response.text
            reply = Reply(response)
            if text is not None:
                reply = Reply(replace(response, text=None), hash((text,)), texts.rows, len(text))
            if reply not in seen:
                seen.add(reply)
                copy.replies.append(reply)
                if text is not None:
                    texts.add(text)
    return copy


def _decoded(line: bytes, decode: Decode) -> Response | str:
    """Decode a line, or return why it cannot be: whatever a dialect raises over a line is about that line alone.
    Raises StoppedError."""
    if len(line) > raw_results.LONGEST_LINE:
        return f"the line is longer than {raw_results.LONGEST_LINE} bytes"
    try:
        return decode(line)
    except ProviderError as error:
        return str(error)
    except LaytonBatchError:
        raise
    except Exception as error:
        return unreadable_reply(error)
