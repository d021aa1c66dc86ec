"""Errors, told to the person who sees them.

One root class. Each leaf is *transient* (trying again later may help: the program does so by itself, within bounds) or
*terminal* (it will not go away by itself), and carries the exit code that a command ends with when nothing
caught it.
"""

from __future__ import annotations

import errno
from pathlib import Path


class LaytonBatchError(Exception):
    """Root of every error this package raises on purpose. The message says what happened, to what, and what to do."""

    transient: bool = False
    exit_code: int = 1


class ManifestError(LaytonBatchError):
    """A manifest, panel file, item file or command argument is wrong; nothing was sent."""

    exit_code = 2


class DataError(LaytonBatchError):
    """A data file (items, gold, predictions) cannot be read or lacks what is needed; nothing was sent."""

    exit_code = 2


class MissingSourceError(DataError):
    """A stranger's bundle names a source that is not in it: the source is not read."""


class MissingKeyError(LaytonBatchError):
    """A provider's API key is not in the environment."""

    exit_code = 2


class NotAgreedError(LaytonBatchError):
    """There is something to pay for, no budget, and nobody said yes; nothing was sent."""

    exit_code = 3


class OverBudgetError(LaytonBatchError):
    """The budget does not allow what is left to send, or nobody can say what it would cost."""

    exit_code = 3


class StoreError(LaytonBatchError):
    """The state store, or what a run's folder holds, cannot be gone on with as it is: newer schema, damaged, unknown
    run, older than what was paid for."""

    exit_code = 2


class IllegalMoveError(LaytonBatchError):
    """A state change that the table of moves does not allow; a bug, not the user's doing."""


class StaleStateError(LaytonBatchError):
    """A row is not in the state in which it was read: nothing was written. The next call reads it again."""

    transient = True
    exit_code = 75


class AnotherDriverError(LaytonBatchError):
    """Another process holds the lock of the run: this one writes nothing of it. ``driver``: its process and host, for a
    person."""

    transient = True
    exit_code = 75

    def __init__(self, message: str, driver: str = "another process") -> None:
        super().__init__(message)
        self.driver = driver


class RunCancelledError(LaytonBatchError):
    """A person cancelled the run before the batch was paid for: it is not sent."""


class SentElsewhereError(LaytonBatchError):
    """Another batch of the workspace, perhaps of another run, asks for some of a batch's answers, or has brought them
    since it was planned: the batch is not sent, and its job is planned again."""

    transient = True
    exit_code = 75


class BatchWaitError(LaytonBatchError):
    """Nothing may be sent to the provider now: ``until`` then (epoch seconds), or until another batch has an answer."""

    transient = True
    exit_code = 75

    def __init__(self, reason: str, until: float | None) -> None:
        super().__init__(reason)
        self.until = until


class StoppedError(LaytonBatchError):
    """The program was told to stop while a call was on its way: nothing is noted of the call, as after a kill."""

    transient = True
    exit_code = 75


class FileError(LaytonBatchError):
    """A file is not what it must be: missing, changed, a folder in its place."""

    exit_code = 2


class DamagedTableError(FileError):
    """A part of a run's tables, or a batch file, at ``path`` is gone, cannot be read or was changed."""

    def __init__(self, message: str, path: Path) -> None:
        super().__init__(message)
        self.path = path

    def __reduce__(self) -> tuple[type[DamagedTableError], tuple[str, Path]]:
        return type(self), (str(self), self.path)  # it may be raised in another process


class StorageError(StoreError, FileError):
    """The place where state and files are kept does not take or give them now: full disk, locked or unreachable
    database, read-only folder. Nothing is lost; the same command goes on when it is mended."""

    transient = True
    exit_code = 74


class EngineError(LaytonBatchError):
    """The engine that makes tables cannot be reached. Nothing is lost; the same command continues when it can."""

    transient = True
    exit_code = 75


_PASSING = frozenset(
    {
        errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM, errno.EIO, errno.EMFILE,
        errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EBUSY, errno.ESTALE, errno.ETIMEDOUT, errno.ENODEV, errno.ENXIO,
        errno.ENOLCK, errno.EREMOTEIO, errno.EBADF,
    }
)  # fmt: skip
"""Numbers of errors of a place that is full, locked or out of reach; all others are about a name."""


def is_storage_trouble(error: OSError) -> bool:
    """Return whether the operating system's error is about the storage, and passes when that is repaired."""
    return error.errno is None or error.errno in _PASSING  # libraries that are not Python's give no number


def refusal_of_system(error: OSError, again: str) -> FileError | None:
    """Return the error of this package for what the operating system refused where nobody expected it. ``again``: what
    to do when the storage is repaired. None: neither the storage nor a name is the reason, so it is a bug.
    """
    about = f" ({' '.join(str(error.filename).split())[:_LONGEST_NAME]})" if error.filename else ""
    if is_storage_trouble(error):
        return StorageError(f"{error.strerror or error}{about}; {again}")
    if error.errno in _OF_A_NAME:
        return FileError(f"{error.strerror}{about}; name a file, a folder or a run")
    return None


_OF_A_NAME = frozenset({errno.ENAMETOOLONG, errno.ELOOP})
_LONGEST_NAME = 100


def file_error(message: str, error: OSError) -> FileError:
    """The error of a file operation that failed for this reason."""
    return StorageError(message) if is_storage_trouble(error) else FileError(message)


class ProviderError(LaytonBatchError):
    """A provider's API refused a call. ``status`` is the HTTP status where there was one. Not ``is_sent``: the call did
    not leave this machine, and nobody was asked."""

    exit_code = 2
    is_sent = True

    def __init__(self, message: str, *, status: int | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class TransientProviderError(ProviderError):
    """The call failed but certainly did nothing, and may work later: rate limit, refused connection, 5xx on a read."""

    transient = True

    def __init__(
        self, message: str, *, status: int | None = None, code: str | None = None, retry_after: float | None = None,
        is_sent: bool = True,
    ) -> None:  # fmt: skip
        super().__init__(message, status=status, code=code)
        self.retry_after = retry_after
        self.is_sent = is_sent


class AmbiguousCallError(ProviderError):
    """The call may or may not have been carried out (timeout, dropped reply, 5xx on a write): look before sending."""

    transient = True


class RequestRefusedError(ProviderError):
    """The provider understood the call and refused it for good (400, 401, 403, 404, 413, 422)."""


class NotFoundError(RequestRefusedError):
    """The provider does not know the object (404). Right after a create this can pass."""

    transient = True


class LookUpRefusedError(ProviderError):
    """The provider refused a free look-up before a paid call. That says nothing of what is to be sent."""

    transient = True


class UnknownStatusError(ProviderError):
    """The provider reports a status that its documents do not name."""


class ProviderReplyError(ProviderError):
    """The provider's reply is not what its documents promise (not JSON, fields missing)."""

    transient = True
