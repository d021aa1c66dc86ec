"""Whether results can be all there is: by what they name, whatever the provider counts."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.batches import raw_results
from layton_batch.batches.completeness import DOWNLOADS, DOWNLOADS_UNCOUNTED, Lack, Reading, counted, lack
from layton_batch.batches.replies import unpacked
from layton_batch.providers.protocol import ResultPart
from layton_batch.records import Batch, Snapshot
from layton_batch.states import BatchOutcome, Lifecycle
from tests.stages.test_outcomes import batch
from tests.stages.test_replies import decode, line

IDS = frozenset(f"c{number}" for number in range(5))
COUNTS = [(None, None, None), (0, 0, 0), (2, 0, 5), (2, 0, None), (9, 0, 5), (2, 0, 4)]


def ended(counts: tuple[int | None, int | None, int | None], **more: str) -> Snapshot:
    succeeded, failed, total = counts
    return Snapshot("b", "ended", Lifecycle.ENDED, total=total, succeeded=succeeded, failed=failed, **more)  # type: ignore[arg-type]


def lacking(folder: Path, one: Batch, snapshot: Snapshot, *answered: str) -> Lack | None:
    content = b"".join(line(name, "text") + b"\n" for name in answered)
    parts = raw_results.store(folder, [ResultPart("output", iter([content]))] if answered else [])
    with unpacked(folder, decode, folder.parent) as replies:
        reading = Reading(replies, IDS)
        return lack(one, counted(one, snapshot, reading), parts, reading)


@pytest.mark.parametrize("outcome", BatchOutcome)
@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_results_that_lack_requests_are_downloaded_again_however_the_batch_ended(
    tmp_path: Path, outcome: BatchOutcome, counts: tuple[int | None, int | None, int | None]
) -> None:
    found = lacking(tmp_path / "raw", batch(outcome), ended(counts), "c0", "c1")
    assert found == Lack("2 of 5 requests are named", billed=False, downloads=DOWNLOADS_UNCOUNTED)


@pytest.mark.parametrize("outcome", BatchOutcome)
def test_so_are_those_that_do_not_show_any_file_yet(tmp_path: Path, outcome: BatchOutcome) -> None:
    found = lacking(tmp_path / "raw", batch(outcome), ended((0, 0, 0)))
    assert found is not None
    assert found.billed == (outcome is BatchOutcome.COMPLETED)
    assert (found.downloads or DOWNLOADS) >= DOWNLOADS_UNCOUNTED


@pytest.mark.parametrize("outcome", BatchOutcome)
def test_a_file_that_is_named_and_stays_empty_may_hold_answers_however_the_batch_ended(
    tmp_path: Path, outcome: BatchOutcome
) -> None:
    found = lacking(tmp_path / "raw", batch(outcome), ended((None, None, None), results_ref="file-1"))
    assert found is not None
    assert found.billed


@pytest.mark.parametrize("outcome", BatchOutcome)
@pytest.mark.parametrize("counts", [*COUNTS, (5, 0, 5)], ids=str)
def test_results_that_name_every_request_are_believed_whatever_is_counted(
    tmp_path: Path, outcome: BatchOutcome, counts: tuple[int | None, int | None, int | None]
) -> None:
    assert lacking(tmp_path / "raw", batch(outcome), ended(counts), *IDS) is None


@pytest.mark.parametrize("outcome", BatchOutcome)
def test_fewer_answers_than_are_counted_are_not_all_there_is(tmp_path: Path, outcome: BatchOutcome) -> None:
    found = lacking(tmp_path / "raw", batch(outcome), ended((3, 2, 5)), "c0", "c1")
    assert found == Lack("2 answers came, the provider counts 3", billed=True, downloads=DOWNLOADS)
