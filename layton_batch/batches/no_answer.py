"""A provider that does not answer holds up its own batches for one call, and no other provider."""

from __future__ import annotations

from layton_batch.errors import AmbiguousCallError, ProviderError, TransientProviderError


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
