"""What is told on the side: the run's log file, and log records of this program and of the SDKs without secrets.

The log file is for people and their tools; the store's events are the truth, and a log that cannot be written never
stops a run.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import re
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING
from urllib.parse import quote

import orjson

from layton_batch.clock import iso
from layton_batch.errors import file_error

if TYPE_CHECKING:
    from layton_batch.records import Event

HIDDEN = "[hidden]"
_CUT = "…"
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
    """Whether no answer holds this value by chance. ``ollama`` or ``postgres``, which stand for keys in some
    environments, are also words, and to cover those would falsify what models said."""
    has_both = any(char.isdigit() for char in secret) and any(char.isalpha() for char in secret)
    return len(secret) >= _LONG or (len(secret) >= _LONG_WITH_DIGITS and has_both)


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


@dataclass(frozen=True, slots=True)
class Redactor:
    """Takes known secrets, and whatever stands where keys stand, out of a text."""

    secrets: tuple[str, ...] = ()

    @classmethod
    def of(cls, values: Iterable[str]) -> Redactor:
        """A redactor of these values, however they are written; the longest goes first, so that no part of it stays."""
        kept = {value for value in values if len(value) >= SHORTEST_SECRET}
        kept |= {form.decode() for value in kept if is_telling(value) for form in forms(value)}
        return cls(tuple(sorted(kept, key=lambda value: (-len(value), value))))

    def __call__(self, text: str) -> str:
        for secret in self.secrets:
            if secret in text:
                text = text.replace(secret, HIDDEN)
        text = self._without_beginnings(text)
        text = _HEADER.sub(rf"\g<1>{HIDDEN}", text)
        text = _BEARER.sub(rf"\g<1>{HIDDEN}", text)
        text = _QUERY.sub(rf"\g<1>{HIDDEN}", text)
        return _PASSWORD.sub(rf"\g<1>{HIDDEN}\g<2>", text)

    def _without_beginnings(self, text: str) -> str:
        """The text without secrets of which an excerpt shows the first characters: it was cut before it came here."""
        *heads, last = text.split(_CUT)
        return _CUT.join([*map(self._without_beginning, heads), last])

    def _without_beginning(self, head: str) -> str:
        for secret in self.secrets:
            for size in range(min(len(head), len(secret) - 1), SHORTEST_SECRET - 1, -1):
                if head.endswith(secret[:size]):
                    return head[:-size] + HIDDEN
        return head


_known: list[Redactor] = [Redactor()]


def redact(text: str) -> str:
    """Text for a person, without the secrets that :func:`protect` was told of."""
    return _known[-1](text)


def protect(secrets: Iterable[str]) -> Redactor:
    """From here on no log record, warning or traceback of this process shows one of these values.

    Records are cleaned where they are made, so it holds for every logger, every handler and every SDK, also for those
    that come later. Calling it again replaces what is known.
    """
    redactor = Redactor.of(secrets)
    _known[:] = [redactor]
    logging.setLogRecordFactory(_factory(redactor))
    _hook(_excepthook(redactor))
    warnings.formatwarning = lambda *told, **named: redactor(_FORMAT_WARNING(*told, **named))
    return redactor


def _factory(redactor: Redactor) -> Callable[..., logging.LogRecord]:
    def make(*arguments: object, **named: object) -> logging.LogRecord:
        record = logging.LogRecord(*arguments, **named)  # type: ignore[arg-type]
        try:
            record.msg, record.args = redactor(record.getMessage()), ()
        except Exception:  # a record whose arguments do not fit would be printed raw, by the logging module itself
            record.msg, record.args = f"(a log record of {record.name} that cannot be formatted)", ()
        if record.exc_info and record.exc_info[0] is not None:
            record.exc_text = redactor("".join(traceback.format_exception(*record.exc_info)).rstrip())
        return record

    return make


def _excepthook(redactor: Redactor) -> Show:
    def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        sys.stderr.write(redactor("".join(traceback.format_exception(kind, error, trace))))

    return show


Show = Callable[[type[BaseException], BaseException, TracebackType | None], None]

_FORMAT_WARNING = warnings.formatwarning
_OTHER_HOOKS = (
    (threading, "excepthook", threading.__excepthook__),
    (sys, "unraisablehook", sys.__unraisablehook__),
)
"""Where the traceback of a thread and that of a ``__del__`` come out."""
_ours: list[object] = []


def _hook(show: Show) -> None:
    """Have every traceback shown this way. A hook that somebody else put in place stays: it is theirs to show it."""

    def elsewhere(told: threading.ExceptHookArgs | sys.UnraisableHookArgs) -> None:
        show(told.exc_type, told.exc_value or told.exc_type(), told.exc_traceback)

    sys.excepthook = show
    for module, name, default in _OTHER_HOOKS:
        if getattr(module, name) in (default, *_ours):
            setattr(module, name, elsewhere)
    _ours[:] = [elsewhere]


@dataclass(slots=True)
class EventLog:
    """``log.jsonl``: one line per event. Several processes may append; each line is one write of its own."""

    path: Path
    run: str
    _failed: bool = False

    def __call__(self, event: Event) -> None:
        about = {"batch": event.batch_id} if event.batch_id else {}
        line = {"at": iso(event.at), "run": self.run, "seq": event.seq, "event": event.kind, **about}
        self._append(orjson.dumps({**line, "detail": event.detail}, option=orjson.OPT_APPEND_NEWLINE))

    def _append(self, line: bytes) -> None:
        try:
            descriptor = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
            try:
                os.write(descriptor, (b"" if _ends_well(descriptor) else b"\n") + line)
            finally:
                os.close(descriptor)
        except OSError as error:
            if not self._failed:
                self._failed = True
                reason = error.strerror or error
                logging.getLogger(__name__).warning("%s cannot be written (%s); events are kept", self.path, reason)


PAYING = frozenset({"submitting", "submitted", "found", "adopted", "create_unclear", "looking", "unsure", "lost"})
"""Events without which a store would send again what may have been paid for."""


def last_payment(path: Path, run: str) -> tuple[int, str]:
    """The highest number of a paying event in a log for this run, and what it was; 0 where there is none.

    For runs of versions that kept no marks of their intents (store/marks.py); the whole log is read."""
    found = (0, "")
    try:
        with path.open("rb") as lines:
            for line in lines:
                found = max(found, _payment(line, run))
    except FileNotFoundError:
        pass
    except OSError as error:
        raise file_error(f"{path} cannot be read: {error.strerror or error}", error) from error
    return found


def _payment(line: bytes, run: str) -> tuple[int, str]:
    try:
        told = orjson.loads(line)
        if told["run"] == run and told["event"] in PAYING:
            return int(told["seq"]), f"{told['event']} {told.get('batch', '')}".strip()
    except (ValueError, KeyError, TypeError):
        pass  # torn by a process that died, or by a full disk
    return 0, ""


def _ends_well(descriptor: int) -> bool:
    """Whether the file's last line is whole: a process that died, or a full disk, may have left half of one."""
    size = os.fstat(descriptor).st_size
    return size == 0 or os.pread(descriptor, 1, size - 1) == b"\n"
