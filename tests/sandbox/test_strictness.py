"""The sandbox refuses what the providers' documents say they refuse, in the form they refuse it in."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from layton_batch.errors import RequestRefusedError
from layton_batch.sandbox import SandboxLimits
from tests.support.sandbox_clients import Bench, bench, client, row

Case = Mapping[str, Any]
REFUSED = [json.loads(line) for line in (Path(__file__).parent / "refused.jsonl").read_bytes().splitlines()]
"""Rows that a provider does not take: the whole file, at once or as a batch that fails, or one row by its body."""


@pytest.fixture(scope="module")
def with_limits() -> Iterator[Callable[..., Bench]]:
    """A sandbox with these limits."""
    with ExitStack() as stack:
        yield cache(lambda **limits: stack.enter_context(bench(limits=SandboxLimits(**limits))))


@pytest.mark.parametrize("case", [case for case in REFUSED if "rows" in case])
def test_a_bad_file_is_refused_at_once_or_fails_the_whole_batch_with_code_and_line(
    with_limits: Callable[..., Bench], case: Case, tmp_path: Path
) -> None:
    b = with_limits(**case.get("limits", {}))
    rows = [line.encode("latin-1") if isinstance(line, str) else line for line in case["rows"]]
    batches = b.listed()
    with client(case["provider"], b, tmp_path) as sent:
        if "status" in case:
            with pytest.raises(RequestRefusedError) as refused:
                sent.submit(rows)
            assert (refused.value.status, b.listed()) == (case["status"], batches)
        else:
            batch = sent.submit(rows)
            b.end()
            found = sent.look(batch)
            assert (found.outcome, found.results_ref, found.errors_ref) == ("failed", None, None)
            assert case["fails"] in str(found.message)
    assert b.sandbox.ledger().rows_billed == 0


def test_a_bad_body_is_one_row_of_the_error_file(tmp_path: Path) -> None:
    bad = {f"bad-{number:02}": case for number, case in enumerate(case for case in REFUSED if "body" in case)}
    rows = [row("openai", name, **case["body"]) for name, case in bad.items()]
    with bench() as b, client("openai", b, tmp_path) as sent:
        batch = sent.submit([row("openai", "good"), *rows])
        b.end()
        found = sent.look(batch)
        lines = sent.lines(batch)
        assert b.sandbox.ledger().rows_billed == 1
    assert (found.outcome, found.succeeded, found.failed) == ("completed", 1, len(bad))
    assert lines.keys() == {"good", *bad}
    for name, case in bad.items():
        response = lines[name]["response"]
        assert (lines[name]["error"], response["status_code"]) == (None, 400)
        assert case["word"].lower() in json.dumps(response["body"]["error"]).lower()
