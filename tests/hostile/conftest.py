"""What hostile cases share."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.files.digests import file_digest
from layton_batch.records import Submission
from tests.support.pages import without_pages as without_pages


@pytest.fixture
def submission(tmp_path: Path) -> Submission:
    path = tmp_path / "b1.jsonl"
    path.write_bytes(b'{"custom_id": "a", "body": {}}\n')
    return Submission(
        "b1", "tag-b1", path, path.name, file_digest(path, "").sha256, 1, "the-model", "files/in", 1_795_000_000.0
    )
