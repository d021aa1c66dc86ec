"""Whether results can be all there is: by what they name, whatever the provider counts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import orjson
import pytest

from layton_batch.batches import raw_results
from layton_batch.batches.completeness import (
    DOWNLOADS,
    DOWNLOADS_UNCOUNTED,
    CompletenessCheck,
    MissingResults,
    counted,
    lack,
)
from layton_batch.batches.replies import read_replies
from layton_batch.providers.protocol import NO_REASON, ResultPart
from layton_batch.records import Batch, Snapshot
from layton_batch.states import BatchOutcome, Lifecycle
from tests.batches.test_outcomes import batch
from tests.batches.test_replies import decode, line

IDS = frozenset(f"c{number}" for number in range(5))
COUNTS = [(None, None, None), (0, 0, 0), (2, 0, 5), (2, 0, None), (9, 0, 5), (2, 0, 4)]


def ended(counts: tuple[int | None, int | None, int | None], **more: str) -> Snapshot:
    succeeded, failed, total = counts
    return Snapshot("b", "ended", Lifecycle.ENDED, total=total, succeeded=succeeded, failed=failed, **more)  # type: ignore[arg-type]


def lacking(
    folder: Path, one: Batch, snapshot: Snapshot, *answered: str, errors: Sequence[bytes] = (), page: bytes = b""
) -> MissingResults | None:
    content = page or b"".join(line(name, "text") + b"\n" for name in answered)
    output = [ResultPart("output", iter([content]))] if content else []
    failed = [ResultPart("errors", iter([b"\n".join(errors) + b"\n"]))] if errors else []
    parts = raw_results.store(folder, [*output, *failed])
    reading = CompletenessCheck(read_replies(folder, decode), IDS)
    return lack(one, counted(one, snapshot, reading), parts, reading)


@pytest.mark.parametrize("outcome", BatchOutcome)
@pytest.mark.parametrize("counts", COUNTS, ids=str)
def test_results_that_lack_requests_are_downloaded_again_however_the_batch_ended(
    tmp_path: Path, outcome: BatchOutcome, counts: tuple[int | None, int | None, int | None]
) -> None:
    found = lacking(tmp_path / "raw", batch(outcome), ended(counts), "c0", "c1")
    assert found == MissingResults("2 of 5 requests are named", billed=False, downloads=DOWNLOADS_UNCOUNTED)


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
def test_a_page_in_place_of_the_answers_is_no_results_and_never_all_there_is(
    tmp_path: Path, outcome: BatchOutcome
) -> None:
    page = b"<html>\n<body>502 Bad Gateway</body>\n</html>\n"
    found = lacking(tmp_path, batch(outcome), ended((None, None, None), results_ref="file-1"), page=page)
    assert found == MissingResults(
        "what came in place of the answers is no results: not one line of it names a request", billed=True
    )


@pytest.mark.parametrize("outcome", BatchOutcome)
@pytest.mark.parametrize("counts", [*COUNTS, (5, 0, 5)], ids=str)
def test_results_that_name_every_request_are_believed_whatever_is_counted(
    tmp_path: Path, outcome: BatchOutcome, counts: tuple[int | None, int | None, int | None]
) -> None:
    assert lacking(tmp_path / "raw", batch(outcome), ended(counts), *IDS) is None


@pytest.mark.parametrize("outcome", BatchOutcome)
def test_fewer_answers_than_are_counted_are_not_all_there_is(tmp_path: Path, outcome: BatchOutcome) -> None:
    found = lacking(tmp_path / "raw", batch(outcome), ended((3, 2, 5)), "c0", "c1")
    assert found == MissingResults("2 answers came, the provider counts 3", billed=True, downloads=DOWNLOADS)


def error_row(custom_id: str, status: int) -> bytes:
    body = {"error": {"code": "server_error", "message": "no reply"}}
    return orjson.dumps({"custom_id": custom_id, "response": {"status_code": status, "body": body}, "error": None})


@pytest.mark.parametrize("outcome", BatchOutcome)
@pytest.mark.parametrize("answered", [(), ("c0", "c1")])
def test_rows_that_never_got_a_reply_may_be_counted_as_completed_where_every_request_is_named(
    tmp_path: Path, outcome: BatchOutcome, answered: tuple[str, ...]
) -> None:
    rows = [error_row(name, 0) for name in sorted(IDS - {*answered})]
    assert lacking(tmp_path / "all", batch(outcome), ended((5, 0, 5)), *answered, errors=rows) is None
    assert lacking(tmp_path / "short", batch(outcome), ended((5, 0, 5)), *answered, errors=rows[1:]) is not None


def test_rows_with_a_reply_of_another_status_explain_no_answer_that_is_counted(tmp_path: Path) -> None:
    rows = [error_row(name, 500) for name in sorted(IDS - {"c0"})]
    found = lacking(tmp_path, batch(BatchOutcome.COMPLETED), ended((5, 0, 5)), "c0", errors=rows)
    assert found == MissingResults("1 answers came, the provider counts 5", billed=True, downloads=DOWNLOADS)


def test_a_row_without_a_reply_beside_an_answer_explains_nothing_else(tmp_path: Path) -> None:
    rows = [error_row("c0", 0), *(error_row(name, 500) for name in ("c2", "c3", "c4"))]
    found = lacking(tmp_path, batch(BatchOutcome.COMPLETED), ended((3, 2, 5)), "c0", "c1", errors=rows)
    assert found == MissingResults("2 answers came, the provider counts 3", billed=True, downloads=DOWNLOADS)


@pytest.mark.parametrize(
    ("outcome", "counts", "more", "is_over"),
    [
        (BatchOutcome.FAILED, (None, None, None), {}, True),
        (BatchOutcome.FAILED, (0, 0, 0), {}, True),
        (BatchOutcome.EXPIRED, (0, 0, 0), {}, False),
        (BatchOutcome.FAILED, (0, 0, 0), {"message": NO_REASON}, False),
        (BatchOutcome.FAILED, (0, 0, 0), {"results_ref": "file-1"}, False),
        (BatchOutcome.FAILED, (0, 0, 0), {"errors_ref": "file-2"}, False),
        (BatchOutcome.FAILED, (2, 3, 5), {}, False),
    ],
)
def test_a_batch_that_failed_at_validation_ends_at_once_with_the_provider_s_sentence(
    tmp_path: Path,
    outcome: BatchOutcome,
    counts: tuple[int | None, int | None, int | None],
    more: dict[str, str],
    is_over: bool,
) -> None:
    failed = ended(counts, **{"message": "Enqueued token limit reached", **more})
    assert (lacking(tmp_path / "raw", batch(outcome), failed) is None) == is_over
