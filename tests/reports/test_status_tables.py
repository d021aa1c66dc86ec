"""What `status` tells: where requests are, when they may end, what keeps them, what the provider said."""

from __future__ import annotations

import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from layton_batch.clock import iso
from layton_batch.runs.status import place
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from tests.support.batch_states import ended, flying, planned, submitting
from tests.support.cli_harness import call, desk
from tests.support.lab import quiz_text, several
from tests.support.tampering import Answer, hostile

DAY = 86_400.0


def test_a_batch_is_planned_uploaded_at_the_provider_over_or_lost() -> None:
    batches = (planned(), planned(input_ref="file-1"), submitting(), flying(), ended(), flying(state=Lifecycle.LOST))
    places = [place(batch.state, is_uploaded=bool(batch.input_ref)) for batch in batches]
    assert places == ["planned", "uploaded", "uploaded", "at_provider", "ended", "lost"]


def test_requests_are_told_apart_by_where_they_are_and_json_has_the_moments_of_open_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch has ended, another is at the provider, the third was refused a create and waits."""
    full = Fault(on="create", action="status", status=429, after=2, times=9)
    with desk(tmp_path, monkeypatch, full, Fault(on="batch", action="stuck", after=1, times=1)) as bench:
        path, begun = bench.write(several(3)), bench.lab.clock.now()
        assert call("run", path, "--once").code == 75
        bench.lab.clock.sleep(600.0)
        assert call("run", path, "--once").code == 75
        document: dict[str, Any] = call("status", "lab", "--json").table()
        by_state = {batch["state"]: batch for batch in document["batches"]}
        assert sorted(by_state) == ["collected", "in_flight", "planned"]
        at_provider = by_state["in_flight"]
        assert (at_provider["submitted_at"], at_provider["read_at"]) == (iso(begun), iso(begun + 600))
        assert iso(begun + 600) < at_provider["next_at"] < at_provider["deadline_at"] == iso(begun + 2 * DAY)
        assert at_provider["expected_end"] == document["expected_end"] > iso(begun)
        assert Decimal(at_provider["set_aside_usd"]) == Decimal(document["reserved_usd"]) > 0
        row = next(line for line in call("status", "lab").out.splitlines() if line.startswith("predict"))
    assert row.split() == ["predict", "openai", "3", "9", "–", "3", "3", "3", "–"]


def test_what_the_provider_said_stands_below_and_does_nothing(tmp_path: Path) -> None:
    with hostile(tmp_path, Fault(on="row", action="error", status=400, times=2)) as (bench, between):

        def tamper(_provider: str, _kind: str, _path: str, answer: Answer) -> Answer:
            return answer.of(answer.content.replace(b'"message":"', b'"message":"bad\\u001b[2J '))

        between.tamper = tamper
        bench.finish(quiz_text(limit=3))
        with bench.commands():
            said = call("status", "lab", "--runs", bench.runs).out
    words = " ".join(said.split())
    assert "no answer predict-larch-2-mini: 3 requests = 1 succeeded + 2 errored" in words
    assert "openai said (2): bad" in words
    assert "\x1b[2J" not in said


@pytest.mark.parametrize("factor", [1, 1000])
def test_what_was_spent_above_the_stated_bounds_is_said(tmp_path: Path, factor: int) -> None:
    with hostile(tmp_path) as (bench, between):

        def dearer(tokens: re.Match[bytes]) -> bytes:
            return b"%d" % (factor * int(tokens[0]))

        def tamper(_provider: str, _kind: str, _path: str, answer: Answer) -> Answer:
            return answer.of(re.sub(rb'(?<="completion_tokens":)[0-9]+', dearer, answer.content))

        between.tamper = tamper
        (batch,) = bench.finish(quiz_text()).batches
        with bench.commands():
            document = call("status", "lab", "--runs", bench.runs, "--json").table()
            shown = call("status", "lab", "--runs", bench.runs).out
    above = max((batch.spent_usd or 0) - (batch.max_cost or 0), Decimal(0))
    assert (Decimal(str(document["above_bounds_usd"])), "above the bounds" in shown) == (above, factor > 1)
    assert (above > 0) is (factor > 1)
