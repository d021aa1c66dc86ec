"""How long to wait after a failure that should pass."""

from __future__ import annotations

from layton_batch.errors import AmbiguousCallError, ProviderError, TransientProviderError

FIRST_SECONDS = 5.0
LONGEST_SECONDS = 900.0


def backoff(failures: int, retry_after: float | None = None) -> float:
    """Seconds to the next try after ``failures`` earlier ones: doubling, bounded.

    A provider's ``retry-after`` is honoured within the same bound: "wait an hour" holds back one batch for a quarter
    of an hour at a time, never the rest of the run.
    """
    pause = FIRST_SECONDS * 2.0 ** min(failures, 16)
    return min(max(pause, retry_after or 0.0), LONGEST_SECONDS)


class NoAnswer(Exception):
    """A provider did not answer at all: what else was to be asked of it now would only wait as long."""

    def __init__(self, error: ProviderError) -> None:
        super().__init__(str(error))
        self.error = error

    @classmethod
    def check(cls, error: ProviderError) -> None:
        """Raises NoAnswer where the error is that; what has a status, or was read, is an answer."""
        if error.status is None and isinstance(error, TransientProviderError | AmbiguousCallError):
            raise cls(error) from error
