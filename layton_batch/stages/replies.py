"""What the raw results of a batch say: in short, in memory, for each line; in full, from disk, one line at a time.

A batch may hold 50,000 answers of many pages. Which of them counts is told by their ids and outcomes alone.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import IO

from layton_batch.errors import ProviderError, file_error
from layton_batch.providers import damaged_rows
from layton_batch.records import Response
from layton_batch.stages import raw_results
from layton_batch.states import ErrorClass, RequestOutcome

Decode = Callable[[bytes], Response]


@dataclass(frozen=True, slots=True)
class Brief:
    """A reply without its text. Two of them are equal where the replies are; ``place``: its line's start and length."""

    custom_id: str
    outcome: RequestOutcome
    error_class: ErrorClass
    content: bytes
    place: tuple[int, int] = field(compare=False)


@dataclass(frozen=True, slots=True)
class Replies:
    """Every line of the stored parts, in their order: a reply in short (whole where it has no text), or why it cannot
    be read; a damaged line speaks for the requests it names.

    ``named``: the custom_ids of lines that can be read. ``damaged``: how many lines cannot. ``cut``: the parts that end
    in the middle of such a line. ``foreign``: the parts with lines of which none names a request, such as a page of
    HTML. Usable while :func:`unpacked` is open.
    """

    entries: Sequence[Response | Brief | str]
    named: frozenset[str]
    damaged: int
    cut: frozenset[Path]
    foreign: frozenset[Path]
    _lines: IO[bytes]
    _decode: Decode

    def whole(self, reply: Response | Brief) -> Response:
        """The reply with its text."""
        if isinstance(reply, Response):
            return reply
        start, length = reply.place
        self._lines.seek(start)
        return self._decode(self._lines.read(length))


@contextmanager
def unpacked(folder: Path, decode: Decode, room: Path) -> Iterator[Replies]:
    """The replies in the parts under ``folder``, their lines unpacked in a nameless file in ``room`` meanwhile.

    Raises FileError where there is no space for that.
    """
    try:
        lines = tempfile.TemporaryFile(dir=room)  # noqa: SIM115  closed below; the block's own errors are not ours
        try:
            found = _read(folder, decode, lines)
        except BaseException:
            lines.close()
            raise
    except OSError as error:
        said = f"cannot unpack the results in {folder}: {error.strerror or error}; they are kept as they came"
        raise file_error(said, error) from error
    with lines:
        yield found


def _read(folder: Path, decode: Decode, lines: IO[bytes]) -> Replies:
    entries: list[Response | Brief | str] = []
    named, cut, foreign = set[str](), set[Path](), set[Path]()
    damaged = 0
    for path in sorted(folder.glob("*.jsonl.zst")):
        before = len(entries)
        for number, (line, complete) in enumerate(raw_results.lines(path), 1):
            try:
                response = decode(line)
            except ProviderError as error:
                entries += _damaged(line, f"{path.name} line {number}: {error}")
                damaged += 1
                if not complete:
                    cut.add(path)
                continue
            named.add(response.custom_id)
            entries.append(_brief(response, line, lines))
        if len(entries) > before and all(isinstance(entry, str) for entry in entries[before:]):
            foreign.add(path)
    return Replies(entries, frozenset(named), damaged, frozenset(cut), frozenset(foreign), lines, decode)


def _damaged(line: bytes, said: str) -> Sequence[Response | str]:
    return [damaged_rows.unreadable(custom_id, said) for custom_id in damaged_rows.named_in(line)] or [said]


def _brief(response: Response, line: bytes, lines: IO[bytes]) -> Response | Brief:
    if response.text is None and response.refusal is None:
        return response
    start = lines.tell()
    lines.write(line)
    content = blake2b(repr(response).encode(), digest_size=16).digest()
    return Brief(response.custom_id, response.outcome, response.error_class, content, (start, len(line)))
