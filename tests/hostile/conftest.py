"""What hostile cases share."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from layton_batch.errors import AmbiguousCallError, ProviderError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Submission
from tests.providers.conftest import submission as submission
from tests.support.pages import without_pages as without_pages

Call = tuple[Callable[[], object], type[ProviderError]]


def calls(provider: Provider, submission: Submission, failure: type[ProviderError]) -> Sequence[Call]:
    """Return calls with the error of each when its reply fails so; the first one has been made, as it imports the
    SDK."""
    with pytest.raises(ProviderError):
        provider.snapshot("batches/b")
    return (
        (lambda: provider.snapshot("batches/b"), failure),
        (lambda: provider.find(submission), failure),
        (lambda: provider.create(submission), AmbiguousCallError),
    )
