"""A third judge is asked only where the verdicts of two differ: what is saved and counted, and what a plan says."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from layton_batch.errors import ManifestError
from layton_batch.manifest.checks import load_manifest
from layton_batch.scoring.evidence import third_judge
from layton_batch.stages.rank import evidence
from tests.support.cli_harness import call, write
from tests.support.lab import JUDGES, Lab, Preview, RunState, lab, manifest_text

FIELDS = ("is_answer_correct", "is_justification_correct", "both_correct")
NAMES = sorted(("wagtail-5-referee", "larch-2-referee", "sirocco-referee"))
ITEMS = 30


def asked(ask: str = "two, then the third", more: str = "", *, limit: int = ITEMS, top: str = "") -> str:
    return manifest_text(("gemini",), limit=limit, jury=f'[jury]\nask = "{ask}"\n{more}{JUDGES}', top=top)


TEXT = asked()


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A finished run, each tick of which was another process. Tests leave it as it was."""
    with lab(tmp_path_factory.mktemp("turns")) as bench:
        for _ in range(60):
            if bench.once(TEXT).state is RunState.DONE:
                break
            bench.clock.sleep(120.0)
        bench.finish_paid_once(TEXT)
        yield bench


def verdicts(bench: Lab, text: str) -> dict[str, dict[str, tuple[bool | None, ...]]]:
    """What each judge says, by item and judge."""
    given: dict[str, dict[str, tuple[bool | None, ...]]] = {}
    for row in bench.table(text, "verdicts").iter_rows(named=True):
        given.setdefault(row["item_id"], {})[row["judge"]] = tuple(row[name] for name in FIELDS)
    return given


def test_the_third_judge_is_asked_where_the_two_first_differ_and_votes_are_of_two_or_three(done: Lab) -> None:
    """Or where one of the two cannot be read."""
    given = verdicts(done, TEXT)
    asked_thirds = 0
    for item_id, by_judge in given.items():
        third = NAMES[third_judge(item_id)]
        first, second = (by_judge[name] for name in NAMES if name != third)
        differ = first != second or None in first
        assert (third in by_judge) == differ
        asked_thirds += differ
    assert 0 < asked_thirds < len(given) / 2 > 10
    assert {NAMES[third_judge(item_id)] for item_id in given} == set(NAMES)  # each judge is first somewhere
    with done.open(TEXT) as run:
        votes, _ = evidence(run, "both_correct")
    for row in votes.filter(pl.col("total") > 0).iter_rows(named=True):
        said = [decision[2] for decision in given[row["item_id"]].values()]
        assert row["judges"] in (2, 3)
        assert (row["total"] == 2) == (said.count(said[0]) == len(said) or len(said) == 2)
        if row["total"] == 2 == row["judges"]:
            assert row["yes"] in (0, 2)
    assert not done.table(TEXT, "scores")["flag"].is_in(["short_jury"]).any()
    assert call("verify", "lab", "--runs", done.runs).code == 0


def cost_of_the_jury(plan: Preview) -> Decimal:
    return sum((job.expected_usd or Decimal(0) for job in plan.jobs if job.job.depends_on), Decimal(0))


def test_a_plan_bounds_what_the_run_costs_says_what_it_saves_and_has_nothing_to_send_afterwards(
    done: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert done.plan(TEXT).to_send == 0
    spent = done.read(TEXT).spent_usd
    monkeypatch.setattr(done, "runs", tmp_path / "elsewhere")
    before, everybody = done.plan(TEXT), done.plan(asked("all"))
    assert before.requests == everybody.requests == 4 * ITEMS
    assert spent < (before.max_usd or 0) == everybody.max_usd
    assert 0.55 < cost_of_the_jury(before) / cost_of_the_jury(everybody) < 0.8
    assert set(before.caveats) - set(everybody.caveats)


def test_asking_everybody_afterwards_buys_only_the_verdicts_that_are_missing(tmp_path: Path) -> None:
    some = asked(limit=9)
    with lab(tmp_path) as bench:
        bench.finish_paid_once(some)
        missing = sum(3 - len(by_judge) for by_judge in verdicts(bench, some).values())
        bought = len(bench.billed()) + missing
        for text in (asked("all", limit=9), some):
            bench.finish_paid_once(text)
            assert len(bench.billed()) == bought


@pytest.mark.parametrize(
    "text",
    [
        asked(more="seats = 2\n"),
        asked(top='[scoring]\nmethod = "paper"\n'),
        asked("all", "anchors = 5\n"),  # without labels
    ],
)
def test_what_no_jury_can_do_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(ManifestError):
        load_manifest(write(tmp_path, text))
