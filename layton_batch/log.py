"""Log records, warnings and tracebacks of this program and of the SDKs, without secrets."""

from __future__ import annotations

import logging
import sys
import threading
import traceback
import warnings
from collections.abc import Callable, Iterable
from types import TracebackType

from layton_batch.redaction import Redactor

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
    warnings.formatwarning = lambda *parts, **named: redactor(_FORMAT_WARNING(*parts, **named))
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
"""Hooks that get the traceback of a thread and that of a ``__del__``."""
_ours: list[object] = []


def _hook(show: Show) -> None:
    """Have every traceback shown this way. A hook that somebody else put in place stays: it is theirs to show it."""

    def elsewhere(failure: threading.ExceptHookArgs | sys.UnraisableHookArgs) -> None:
        show(failure.exc_type, failure.exc_value or failure.exc_type(), failure.exc_traceback)

    sys.excepthook = show
    for module, name, default in _OTHER_HOOKS:
        if getattr(module, name) in (default, *_ours):
            setattr(module, name, elsewhere)
    _ours[:] = [elsewhere]
