"""Lines of a gold set that are alike, found many at a time: one that was read says what the others mean.

Lines of one form differ from each other in what stands between two of the values of an item's id, an answer and a
justification: a model writes few such stretches, and a thousand lines have the same. What a stretch means is asked of
the decoder once, in a line with other values in these three places. Any line made of the same stretches means the same,
with its own values: a JSON decoder is where it was after each of them, as long as each value is by itself a value of
JSON. That is what is asked of every one. Whatever is not so is left to whoever reads line by line.
"""

from __future__ import annotations

import itertools
import marshal
import re
from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import orjson

from layton_batch.errors import DataError
from layton_batch.files.long_list import LongList
from layton_batch.files.sources import Place, Row

ITEM, ANSWER, JUSTIFICATION = FREE = ("riddle_id", "answer", "justification")
_PLAIN, _ESCAPED = rb'"[^"]*+"', rb'"[^"]*(?:(?<=\\)"[^"]*)*"'
_OTHER = {ITEM: rb"[0-9]++", ANSWER: b"null", JUSTIFICATION: b"null"}
_TRIED = (b'"a"', b'"b"', b'"c"'), (b'"b"', b'"c"', b'"a"')
"""Two values for each place: a key that is there again would hide one of them."""

Said = tuple[str | None, str | None]
_TOGETHER = 100


@dataclass(frozen=True, slots=True)
class Alike:
    """Lines of one form: ``between``, the stretches of each that may differ; ``items``, as they stand there; ``texts``:
    answers and justifications as lists that are JSON where each of them is."""

    between: Sequence[tuple[bytes, ...]]
    items: Sequence[bytes]
    texts: tuple[bytes, bytes]


class LineForm:
    """The form of a line: what it has between its values, in order."""

    def __init__(self, names: Sequence[str], stretches: Sequence[bytes]) -> None:
        self._names, self._stretches = names, stretches
        self._fixed = [stretch.count(b'"') == 2 for stretch in stretches[:-1]] + [False]
        self._least = 0  # bytes that no line has fewer of after its last value: they need not be looked at
        self._patterns: dict[bytes, re.Pattern[bytes]] = {}
        there = [dict(zip(names, values, strict=False)) for values in _TRIED]
        self._tried = [
            (list(values.values()), {name: orjson.loads(values.get(name, b"null")) for name in FREE})
            for values in there
        ]

    @classmethod
    def of(cls, content: bytes) -> LineForm | None:
        """Of the first line. None for one without an item's id, and where a backslash hides what is a quote."""
        line, found = content[: content.find(b"\n")], []
        for name in FREE:
            at = re.search(rb'"%b": ?(%b|%b)' % (name.encode(), _ESCAPED, _OTHER[name]), line)
            found += [(at.start(1), at.end(1), name)] if at else []
        found.sort()
        names = [name for *_, name in found]
        ends = [0, *(end for _, end, _ in found)]
        stretches = [line[end:start] for end, start in zip(ends, [start for start, *_ in found], strict=False)]
        if ITEM not in names or any(b"\\" in one for one in stretches):
            return None
        return cls(names, [*stretches, line[ends[-1] :]])

    def _found(self, content: bytes, text: bytes) -> list[tuple[bytes, ...]]:
        """Lines; where the bytes that are not looked at hold the end of one, there are fewer than in the content."""
        if text not in self._patterns:
            parts = [b"(?m)^"]
            for name, stretch, fixed in zip(self._names, self._stretches, self._fixed, strict=False):
                parts += [re.escape(stretch) if fixed else b"(" + b'[^"]*+"' * stretch.count(b'"') + b": ?+)"]
                parts += [b"(%b|%b)" % (text, _OTHER[name])]
            self._patterns[text] = re.compile(b"".join([*parts, rb"((?s:.{%d}).*+)\n" % self._least]))
        return self._patterns[text].findall(content)

    def _skip(self, least: int) -> None:
        self._least = least
        self._patterns.clear()

    def read(self, content: bytes, count: int) -> Alike | None:
        """Of so many lines. None where one is not of this form. Raises orjson.JSONDecodeError for values that are
        none."""
        has_escapes = b"\\" in content
        text = _ESCAPED if has_escapes else _PLAIN
        lines = self._found(content, text)
        if len(lines) != count and self._least:
            self._skip(0)
            lines = self._found(content, text)
        if len(lines) != count:
            return None
        if not self._least:
            self._skip(min(len(line[-1]) for line in lines))
        between, values, columns = [], {}, iter(zip(*lines, strict=True))
        for name, fixed in zip(self._names, self._fixed, strict=False):
            between += [] if fixed else [next(columns)]
            values[name] = next(columns)
        if has_escapes:  # what follows a backslash that is escaped itself may end a text or not: each is looked at
            for one in itertools.chain.from_iterable(values.values()):
                orjson.loads(one)
        answers, justifications = (b"[%b]" % b",".join(values.get(name, [b"null"] * len(lines))) for name in FREE[1:])
        return Alike(list(zip(*between, next(columns), strict=True)), values[ITEM], (answers, justifications))

    def meant(self, between: tuple[bytes, ...], place: Place) -> Row:
        """The row of a line with these stretches and some values. Raises DataError where there is no such row."""
        for values, wanted in self._tried:
            row: object = orjson.loads(self._line(between, values))
            if not isinstance(row, dict) or {name: row.get(name) for name in FREE} != wanted:
                raise DataError(f"{place}: not of the form of lines before")
        return cast(Row, row)

    def _line(self, between: Sequence[bytes], values: Sequence[bytes]) -> bytes:
        rest, parts = iter(between), list[bytes]()
        for stretch, fixed, value in zip(self._stretches, self._fixed, values, strict=False):
            parts += (stretch if fixed else next(rest)), value
        return b"".join([*parts, *rest])


class Texts:
    """What the answers of many rows say, some together: as they are, or as two JSON lists until somebody asks."""

    def __init__(self) -> None:
        self._parts = LongList[list[Said] | tuple[bytes, bytes]](marshal.loads)
        self._starts = array("q")
        self._last: list[Said] = []
        self._read: tuple[int, list[Said]] | None = None
        """The part that was looked at last: its rows are mostly asked for one after another."""
        self._count = 0

    def append(self, said: Said) -> None:
        self._last.append(said)
        if len(self._last) == _TOGETHER:
            self._put_down()

    def extend(self, lists: tuple[bytes, bytes], count: int) -> None:
        self._put_down()
        self._keep(lists, count)

    def _put_down(self) -> None:
        if self._last:
            self._keep(self._last, len(self._last))
            self._last = []

    def _keep(self, part: list[Said] | tuple[bytes, bytes], count: int) -> None:
        self._parts.keep(part, marshal.dumps(part))
        self._starts.append(self._count)
        self._count += count

    def __getitem__(self, at: int) -> Said:
        if at >= self._count:
            return self._last[at - self._count]
        part = bisect_right(self._starts, at) - 1
        if self._read is None or self._read[0] != part:
            self._read = part, _said(self._parts[part])
        return self._read[1][at - self._starts[part]]

    def __iter__(self) -> Iterator[Said]:
        for part in self._parts:
            yield from _said(part)
        yield from self._last


def _said(part: list[Said] | tuple[bytes, bytes]) -> list[Said]:
    return part if isinstance(part, list) else list(zip(*map(orjson.loads, part), strict=True))
