"""Downloads: from what a provider sends of an ended batch to exactly one outcome for each of its requests.

Two rules hold, however often results are downloaded:

1. A later download may only add rows. Each file is kept byte for byte beside the earlier ones (``output.jsonl.zst``,
   ``output.2.jsonl.zst`` …), and none is written over. One that adds no row is removed.
2. Rows that the provider does not count as completed are missing, and go again. Rows that it counts as completed, or
   may have completed, and that no file has after the last try, are out of reach: a person decides (``retry``).
"""

from __future__ import annotations

import io
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import groupby
from pathlib import Path

import zstandard

from layton_batch.errors import (
    DamagedTableError,
    LaytonBatchError,
    ProviderError,
    ProviderReplyError,
    RequestRefusedError,
    TransientProviderError,
    file_error,
)
from layton_batch.files import atomic
from layton_batch.providers.protocol import NO_REASON, NO_REPLY, ResultPart
from layton_batch.providers.wire_errors import named_in, unreadable, unreadable_reply
from layton_batch.providers.wire_json import clean
from layton_batch.records import Batch, End, Response, Snapshot
from layton_batch.states import BatchOutcome, ErrorClass, RequestOutcome
from layton_batch.text import without_surrogates

Decode = Callable[[bytes], Response]

RESUMES = 20
"""The number of times that one download is taken up where it broke, before the connection is given a rest."""
LONGEST_LINE = 64 << 20
"""Bytes of one result line that are read: a longer line is no reply of any provider, and would fill the memory."""
EXAMPLES = 3
"""The number of a batch's odd rows of one kind that an event describes."""
_CHUNK = 1 << 20


# ---- raw files -------------------------------------------------------------------------------------------------------


def raw_files(folder: Path) -> Mapping[str, list[Path]]:
    """Return a batch's stored result files by kind (``output``, ``errors``), in the order in which they came."""
    paths = sorted((kind_of(path), _number(path), path) for path in folder.glob("*.jsonl.zst"))
    return {kind: [path for _, _, path in group] for kind, group in groupby(paths, key=lambda entry: entry[0])}


def kind_of(path: Path) -> str:
    """Return the kind of a result file: ``output`` or ``errors``."""
    return path.name.partition(".")[0]


def _number(path: Path) -> int:
    number = path.name.removesuffix(".jsonl.zst").partition(".")[2]
    return int(number) if number.isdecimal() else 1


@dataclass(frozen=True, slots=True)
class RawResultFile:
    """A file of this download: the bytes that arrived, before compression, and its size by the provider's record."""

    path: Path
    arrived: int
    size: int | None = None

    @property
    def is_short(self) -> bool:
        """Return whether fewer bytes arrived than the provider's record has."""
        return self.size is not None and self.arrived < self.size


def store(folder: Path, parts: Iterable[ResultPart]) -> list[RawResultFile]:
    """Stream each part into a new file in ``folder``; one chunk is in memory at a time. Raises ProviderError."""
    return [_store(folder, part) for part in parts]


def _store(folder: Path, part: ResultPart) -> RawResultFile:
    number = max(map(_number, raw_files(folder).get(part.kind, ())), default=0) + 1
    path = folder / (f"{part.kind}.jsonl.zst" if number == 1 else f"{part.kind}.{number}.jsonl.zst")
    arrived = 0
    with (
        atomic.writing(path) as handle,
        zstandard.ZstdCompressor(level=3, write_checksum=True).stream_writer(handle, closefd=False) as out,
    ):
        for chunk in _whole(part):
            arrived += out.write(chunk)
    return RawResultFile(path, arrived, part.size)


def _whole(part: ResultPart) -> Iterator[bytes]:
    """Yield the part's bytes; a download that breaks off goes on from there, as long as that brings anything new.

    Raises the ProviderError of the last break.
    """
    arrived, since, breaks = 0, 0, 0
    chunks = part.chunks
    while True:
        try:
            for chunk in chunks:
                arrived += len(chunk)
                yield chunk
        except TransientProviderError as broken:
            breaks += 1
            if part.resume is None or arrived == since or breaks > RESUMES:
                raise
            since = arrived
            chunks = _rest(part.resume, arrived, broken)
        else:
            return


def _rest(resume: Callable[[int], Iterator[bytes]], start: int, broken: ProviderError) -> Iterator[bytes]:
    """Yield the rest of a file. Raises the error that broke the download if the server sends no rest."""
    try:
        yield from resume(start)
    except (ProviderReplyError, RequestRefusedError):
        raise broken from None


def lines(path: Path) -> Iterator[tuple[bytes, bool]]:
    """Yield the lines of a stored file, and whether each ended in a newline. Only LF ends a line: U+2028 does not.

    Of a line longer than LONGEST_LINE come its first LONGEST_LINE + 1 bytes. Raises ZstdError if the disk has damaged
    the file.
    """
    with path.open("rb") as handle, zstandard.ZstdDecompressor().stream_reader(handle) as stream:
        reader = io.BufferedReader(stream, _CHUNK)
        while line := reader.readline(LONGEST_LINE + 1):
            end = line
            while end and len(line) > LONGEST_LINE and not end.endswith(b"\n"):
                end = reader.readline(_CHUNK)
            if line.strip():
                yield line.removesuffix(b"\n"), end.endswith(b"\n")


# ---- replies ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Reply:
    """The response to a request, and the file that has it. Its text is kept as UTF-8: Python keeps up to four bytes a
    character."""

    response: Response
    path: Path | None = None
    utf8: bytes | None = None

    @classmethod
    def of(cls, response: Response, path: Path) -> Reply:
        """Take the text out of a response."""
        if response.text is None:
            return cls(response, path)
        try:
            utf8 = response.text.encode()
        except UnicodeEncodeError:
            utf8 = without_surrogates(response.text).encode()
        return cls(replace(response, text=None), path, utf8)

    @property
    def text(self) -> str | None:
        """Return the text of the reply, with U+FFFD for half surrogate pairs."""
        return None if self.utf8 is None else self.utf8.decode()

    @property
    def is_answer(self) -> bool:
        """Return whether the reply was paid for."""
        return self.response.outcome is RequestOutcome.SUCCEEDED

    @property
    def is_unreadable(self) -> bool:
        """Return whether the line is damaged that names the request."""
        return self.response.error_class is ErrorClass.UNREADABLE

    def beats(self, earlier: Reply | None) -> bool:
        """Return whether this line counts instead of an earlier one about the same request: an answer beats the rest,
        and what may have been paid for beats an error. Another download of a file mends its damaged lines."""
        if earlier is None:
            return True
        paths = self.path, earlier.path
        mends = None not in paths and paths[0] != paths[1] and len({kind_of(path) for path in paths if path}) == 1
        return self._rank(mends=mends) > earlier._rank(mends=mends)

    def _rank(self, *, mends: bool) -> int:
        return 2 if self.is_answer else int(self.is_unreadable is not mends)


@dataclass(slots=True)
class Replies:
    """The rows that all downloads of a batch have together.

    ``by_id``: the line that counts, of each custom_id that a line names, also a damaged one. ``nameless``: reasons why
    damaged lines that name nobody cannot be read. ``duplicates``: descriptions of rows that came twice in a file.
    ``useless``: files that add no row. ``foreign``: files with lines of which none names a request, such as a page of
    HTML. ``cut``: files that end in the middle of a line.
    """

    by_id: dict[str, Reply] = field(default_factory=dict)
    nameless: list[str] = field(default_factory=list)
    duplicates: list[str] = field(default_factory=list)
    useless: list[Path] = field(default_factory=list)
    foreign: list[Path] = field(default_factory=list)
    cut: list[Path] = field(default_factory=list)


def read_replies(folder: Path, decode: Decode) -> Replies:
    """Read the result files of a batch. Raises FileError if a file cannot be read, DamagedTableError if the disk has
    damaged it."""
    replies = Replies()
    for paths in raw_files(folder).values():
        names: set[str] = set()
        nameless: list[str] = []
        unnamed: list[Path] = []
        for path in paths:
            try:
                file = _read_file(path, decode, replies)
            except zstandard.ZstdError as error:
                raise DamagedTableError(f"{path} was changed since it came: put it back from a copy", path) from error
            except OSError as error:
                raise file_error(f"cannot read {path}: {error.strerror or error}", error) from error
            if not file.names:
                unnamed.append(path)
                replies.foreign += [path] if file.nameless else []
            elif file.is_better or file.names - names or len(file.nameless) > len(nameless):
                nameless = max(nameless, file.nameless, key=len)  # downloads of one file repeat its damaged lines
                names |= file.names
            else:
                replies.useless.append(path)
        replies.nameless += nameless
        replies.useless += [path for path in unnamed if names or path != paths[-1]]
    return replies


@dataclass(slots=True)
class _FileReading:
    """A reading of one file. ``names``: the custom_ids that its lines name. ``nameless``: reasons why lines that name
    nobody cannot be read. ``is_better``: a line counts instead of an earlier file's."""

    names: set[str] = field(default_factory=set)
    nameless: list[str] = field(default_factory=list)
    is_better: bool = False


def _read_file(path: Path, decode: Decode, replies: Replies) -> _FileReading:
    file = _FileReading()
    is_cut = False
    for number, (line, is_whole) in enumerate(lines(path), 1):
        response = decoded(line, decode)
        if isinstance(response, str):
            reason = f"{path.name} line {number}: {response}"
            responses = [unreadable(custom_id, reason) for custom_id in named_in(line)]
            file.nameless += [] if responses else [reason]
            is_cut = not is_whole
        else:
            responses = [response]
        for response in responses:
            custom_id, reply = response.custom_id, Reply.of(response, path)
            earlier = replies.by_id.get(custom_id)
            if reply.beats(earlier):
                replies.by_id[custom_id] = reply
                file.is_better |= earlier is not None
            if earlier is not None and earlier.path == path:
                replies.duplicates.append(f"{custom_id} came more than once in {path.name}: the first answer counts")
            file.names.add(custom_id)
    replies.cut += [path] if is_cut and file.names else []
    return file


def decoded(line: bytes, decode: Decode) -> Response | str:
    """Decode a line, or return why it cannot be: whatever a dialect raises over a line is about that line alone.
    Raises StoppedError."""
    if len(line) > LONGEST_LINE:
        return f"the line is longer than {LONGEST_LINE} bytes"
    try:
        return decode(line)
    except ProviderError as error:
        return str(error)
    except LaytonBatchError:
        raise
    except Exception as error:
        return unreadable_reply(error)


# ---- whether these are all -------------------------------------------------------------------------------------------


class Lack(Enum):
    """Kind of a shortfall, which decides how long more is waited for."""

    ROWS = auto()  # no line names some requests, and the provider does not count them as answered
    ANSWERS = auto()  # the provider counts more answers, or a damaged file may hold more
    EVERYTHING = auto()  # no line names any request: results may be late
    CONTENT = auto()  # the provider counts answers and names their file, and the file names no request

    @property
    def may_be_billed(self) -> bool:
        """Return whether requests that no line names may have been answered."""
        return self is not Lack.ROWS


@dataclass(frozen=True, slots=True)
class Shortfall:
    """Reason why the files on disk may not have all rows."""

    lack: Lack
    reason: str


@dataclass(frozen=True, slots=True)
class DownloadResult:
    """Result of a download. ``shortfall`` None: every row is on disk. ``error``: of a call that failed, or of what came
    in place of results. ``answers``: the number that the provider counts. ``grew``: it added rows."""

    shortfall: Shortfall | None = None
    error: ProviderError | None = None
    answers: int | None = None
    grew: bool = False


def check_download(
    batch: Batch,
    snapshot: Snapshot,
    stored: Sequence[RawResultFile],
    replies: Replies,
    sent: Collection[str],
    error: ProviderError | None = None,
) -> DownloadResult:
    """Compare the rows on disk with the requests that were sent, and with the provider's counts.

    ``stored``: the files of this download. ``error``: of the snapshot, which then has no counts, or of the results.
    """
    new = {file.path for file in stored}
    if error is None and (pages := [path for path in replies.foreign if path in new]):
        error = ProviderReplyError(f"{pages[0].name} is no results: not one line of it names a request")
    if _is_of_another(replies, sent) or _counts_others(batch, snapshot):
        snapshot = replace(snapshot, total=None, succeeded=None, failed=None)
    added = new.difference(replies.useless, replies.foreign)
    grew = any(reply.path in added for reply in replies.by_id.values())
    return DownloadResult(_shortfall(batch, snapshot, stored, replies, sent), error, snapshot.succeeded, grew)


def _is_of_another(replies: Replies, sent: Collection[str]) -> bool:
    """Return whether these are another batch's results: they name only requests that we did not send."""
    return bool(replies.by_id) and replies.by_id.keys().isdisjoint(sent)


def _counts_others(batch: Batch, snapshot: Snapshot) -> bool:
    """Return whether the counts cannot be of our requests: of another number (0 of a batch of four), or of more."""
    rows = (snapshot.succeeded or 0) + (snapshot.failed or 0)
    return rows > batch.requests or snapshot.total not in (None, batch.requests)


def _shortfall(
    batch: Batch, snapshot: Snapshot, stored: Sequence[RawResultFile], replies: Replies, sent: Collection[str]
) -> Shortfall | None:
    if _is_of_another(replies, sent):
        reason = f"the results of {batch.provider_id} are of other requests than ours: is it the right batch?"
        return Shortfall(Lack.ANSWERS, reason)
    is_there, succeeded = bool(snapshot.results_ref or snapshot.errors_ref), snapshot.succeeded
    is_explained = batch.outcome is BatchOutcome.FAILED and snapshot.message not in (None, "", NO_REASON)
    if is_explained and not (is_there or succeeded or replies.by_id or replies.foreign):
        return None  # it failed at validation, and no results will come
    readable = [reply for name in sent if (reply := replies.by_id.get(name)) and not reply.is_unreadable]
    answers = sum(reply.is_answer for reply in readable)
    # OpenAI was seen to count rows without a reply as completed
    without_reply = sum(reply.response.error_code == NO_REPLY and not reply.is_answer for reply in readable)
    if len(readable) == batch.requests and answers + without_reply >= (succeeded or 0):
        return None
    if replies.by_id.keys().isdisjoint(sent) and _may_have_rows(batch, snapshot, is_there=is_there):
        reason = f"the batch is {batch.outcome}, and its results name none of its requests"
        return Shortfall(Lack.CONTENT if succeeded and is_there else Lack.EVERYTHING, reason)
    if succeeded is not None and answers < succeeded:
        return Shortfall(Lack.ANSWERS, f"{answers} answers came, the provider counts {succeeded}")
    for file in stored:
        if file.is_short or file.path in replies.cut:
            size = "an unknown number" if file.size is None else file.size
            return Shortfall(Lack.ANSWERS, f"{file.path.name} is cut: {file.arrived} of {size} bytes came")
    is_damaged = bool(replies.nameless) or any(reply.is_unreadable for reply in replies.by_id.values())
    lack = Lack.ANSWERS if is_damaged and succeeded is None else Lack.ROWS
    return Shortfall(lack, f"{len(readable)} of {batch.requests} requests are named")


def _may_have_rows(batch: Batch, snapshot: Snapshot, *, is_there: bool) -> bool:
    """Return whether a batch of which no row came may have rows."""
    completed, succeeded = batch.outcome is BatchOutcome.COMPLETED, snapshot.succeeded
    if succeeded is None:
        return completed or is_there
    return succeeded > 0 or (completed and batch.requests > (snapshot.failed or 0))


# ---- one outcome for each request ------------------------------------------------------------------------------------


@dataclass(slots=True)
class RequestOutcomes:
    """One reply for each request, in the order in which the requests were sent, and what was odd about the results."""

    replies: dict[str, Reply] = field(default_factory=dict)
    anomalies: list[tuple[str, str]] = field(default_factory=list)

    @property
    def account_trouble(self) -> str | None:
        """Return the provider's sentence about the account, if it refused a request to the account."""
        responses = (reply.response for reply in self.replies.values())
        refused = (response for response in responses if response.error_class is ErrorClass.ACCOUNT)
        return next((response.error_message for response in refused), None)

    @property
    def ends(self) -> Mapping[str, End]:
        """Return the outcome and error class of each request, by custom_id."""
        return {name: (reply.response.outcome, reply.response.error_class) for name, reply in self.replies.items()}


def assign_outcomes(
    replies: Replies,
    sent: Sequence[str],
    batch: Batch,
    message: str | None = None,
    out_of_reach: Collection[str] = (),
) -> RequestOutcomes:
    """Give each sent custom_id one reply.

    What no line names ends as the batch did; ``message``: what the provider says of the batch as a whole. If the lines
    that name nobody are enough to be about all of it, it may have been paid for, and is unreadable. ``out_of_reach``:
    requests that may have been answered, if no line names them.
    """
    outcomes, sent_ids = RequestOutcomes(), frozenset(sent)
    outcomes.anomalies += [("unreadable_line", reason) for reason in replies.nameless]
    outcomes.anomalies += [("duplicate_result", detail) for detail in replies.duplicates]
    nameless = len(replies.nameless)
    for name, reply in replies.by_id.items():
        if name not in sent_ids:
            nameless += reply.is_unreadable
            outcomes.anomalies.append(("unknown_custom_id", f"a result names {name[:80]!r}, which was not sent"))
    is_explained = len(sent_ids - replies.by_id.keys()) <= nameless
    for name in sent:
        if name in replies.by_id:
            reply = replies.by_id[name]
        elif name in out_of_reach:
            response = _silence(name, batch, message)
            reply = Reply(replace(response, error_class=ErrorClass.OUT_OF_REACH, error_message=_UNNAMED))
        else:
            reply = Reply(unreadable(name, _NAMELESS) if is_explained else _silence(name, batch, message))
        outcomes.replies[name] = reply
        if reply.is_unreadable:
            detail = f"{name}: {reply.response.error_message}. {_UNKNOWN_COST}"
            outcomes.anomalies.append(("unreadable_line", detail))
    return outcomes


def summed(anomalies: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Return one anomaly of each kind: its number and its first examples. A provider may send any number of odd
    rows."""
    by_kind: defaultdict[str, list[str]] = defaultdict(list)
    for kind, detail in anomalies:
        by_kind[kind].append(detail)
    return [(kind, details[0] if len(details) == 1 else _together(details)) for kind, details in by_kind.items()]


def _together(details: Sequence[str]) -> str:
    rest = len(details) - EXAMPLES
    more = f"; and {rest} more" if rest > 0 else ""
    return f"{len(details)} times: " + "; ".join(clean(detail, 500) for detail in details[:EXAMPLES]) + more


_UNNAMED = "no line of the results names it, and it may have been answered and billed"
_NAMELESS = "no line names it, and there are lines that cannot be read"
_UNKNOWN_COST = (
    "It may have been carried out and billed; what it cost is not in this run's bill. It is not sent again by itself: "
    "`layton-batch retry` does that"
)
_OF_BATCH = {
    BatchOutcome.COMPLETED: RequestOutcome.MISSING,
    BatchOutcome.EXPIRED: RequestOutcome.EXPIRED,
    BatchOutcome.CANCELLED: RequestOutcome.CANCELLED,
    BatchOutcome.FAILED: RequestOutcome.ERRORED,
}


def _silence(custom_id: str, batch: Batch, message: str | None) -> Response:
    """Return the response of a request that no line names, with the reason if the batch failed."""
    outcome = _OF_BATCH[batch.outcome or BatchOutcome.COMPLETED]
    if outcome is not RequestOutcome.ERRORED:
        return Response(custom_id, outcome, error_class=ErrorClass.NOT_EXECUTED)
    error_class = ErrorClass.NOT_EXECUTED if batch.error_class is ErrorClass.NONE else batch.error_class
    return Response(custom_id, outcome, error_class=error_class, error_message=message)
