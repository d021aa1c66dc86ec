"""What hostile cases share. Every change plays one case in seven of each claim, in turns; the rest is nightly."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import pytest

from layton_batch.records import Submission

STRIDE = 7
_HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as ``nightly`` what is not in the quick selection. Claims take turns with the dialect they begin at."""
    claims: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if item.path.is_relative_to(_HERE):
            claims[item.nodeid.partition("[")[0]].append(item)
    for turn, cases in enumerate(claims.values()):
        for number, case in enumerate(cases):
            if len(cases) > 1 and number % STRIDE != turn % min(STRIDE, len(cases)):
                case.add_marker(pytest.mark.nightly)


@pytest.fixture
def submission(tmp_path: Path) -> Submission:
    path = tmp_path / "b1.jsonl"
    path.write_bytes(b'{"custom_id": "a", "body": {}}\n')
    return Submission("b1", "tag-b1", path, path.name, "0" * 64, 1, "the-model", "files/in", 1_795_000_000.0)
