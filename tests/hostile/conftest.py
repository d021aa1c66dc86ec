"""What hostile cases share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from pathlib import Path

import pytest

from layton_batch.errors import AmbiguousCallError, ProviderError
from layton_batch.providers.protocol import Provider
from layton_batch.records import Submission
from tests.support.pages import without_pages as without_pages


@pytest.fixture
def submission(tmp_path: Path) -> Submission:
    path = tmp_path / "b1.jsonl"
    path.write_bytes(b'{"custom_id": "a", "body": {}}\n')
    digest = sha256(path.read_bytes()).hexdigest()
    return Submission("b1", "tag-b1", path, path.name, digest, 1, "the-model", "files/in", 1_795_000_000.0)


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
