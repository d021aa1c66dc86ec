"""A third judge is asked only where the verdicts of two differ: what is saved and counted, and what a plan says."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from layton_batch.errors import ManifestError
from layton_batch.loop import drive
from layton_batch.manifest.checks import load_manifest
from layton_batch.runs.status import RunState
from layton_batch.scoring.turns import count_by_answer, third_judge
from layton_batch.stages.plan_counts import DIFFERING
from layton_batch.stages.preview import preview
from layton_batch.stages.rank import evidence
from tests.support.cli_harness import call
from tests.support.lab import JUDGES, Lab, lab, manifest_text

FIELDS = ("is_answer_correct", "is_justification_correct", "both_correct")
NAMES = sorted(("wagtail-5-referee", "larch-2-referee", "sirocco-referee"))
ITEMS = 30


def asked(ask: str = "two, then the third", more: str = "", *, limit: int = ITEMS) -> str:
    return manifest_text(("gemini",), limit=limit, jury=f'[jury]\nask = "{ask}"\n{more}{JUDGES}')


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A finished run, each tick of which was another process. Tests leave it as it was."""
    with lab(tmp_path_factory.mktemp("turns")) as bench:
        text = asked()
        for _ in range(60):
            with bench.open(text) as run:
                if drive(run, once=True, stop_at=float("inf")).state is RunState.DONE:
                    break
            bench.clock.sleep(120.0)
        bench.finish_paid_once(text)
        yield bench


def verdicts(bench: Lab, text: str) -> dict[str, dict[str, tuple[bool | None, ...]]]:
    """What each judge says, by item and judge."""
    given: dict[str, dict[str, tuple[bool | None, ...]]] = {}
    for row in bench.table(text, "verdicts").iter_rows(named=True):
        given.setdefault(row["item_id"], {})[row["judge"]] = tuple(row[name] for name in FIELDS)
    return given


def test_the_third_judge_is_asked_where_the_two_first_differ_or_cannot_be_read_and_nowhere_else(done: Lab) -> None:
    given = verdicts(done, asked())
    assert len(given) > 20
    asked_thirds = 0
    for item_id, by_judge in given.items():
        third = NAMES[third_judge(item_id)]
        first, second = (by_judge[name] for name in NAMES if name != third)
        differ = first != second or None in first
        assert (third in by_judge) == differ
        asked_thirds += differ
    assert 0 < asked_thirds < len(given) / 2
    assert {NAMES[third_judge(item_id)] for item_id in given} == set(NAMES)  # each judge is first somewhere


def test_votes_are_of_two_judges_or_of_three_and_the_majority_is_that_of_the_verdicts(done: Lab) -> None:
    given = verdicts(done, asked())
    with done.open(asked()) as run:
        assert run.rules.in_turn
        votes, _ = evidence(run, "both_correct")
    for row in votes.filter(pl.col("total") > 0).iter_rows(named=True):
        said = [decision[2] for decision in given[row["item_id"]].values()]
        assert row["judges"] in (2, 3)
        assert (row["total"] == 2) == (said.count(said[0]) == len(said) or len(said) == 2)
        if row["total"] == 2 == row["judges"]:
            assert row["yes"] in (0, 2)
    assert not done.table(asked(), "scores")["flag"].is_in(["short_jury"]).any()


def test_a_plan_bounds_what_the_run_costs_says_what_it_saves_and_has_nothing_to_send_afterwards(
    done: Lab, tmp_path: Path
) -> None:
    settings, clock = done.settings, done.clock
    before, everybody = (
        preview(done.manifest(text), settings, clock, runs=tmp_path / "elsewhere") for text in (asked(), asked("all"))
    )
    assert before.requests == everybody.requests == 4 * ITEMS
    assert before.max_usd == everybody.max_usd
    jury, all_of_it = (
        sum((job.expected_usd or Decimal(0) for job in plan.jobs if job.job.depends_on), Decimal(0))
        for plan in (before, everybody)
    )
    assert 0.55 < jury / all_of_it < 0.8
    assert any(f"{100 * (1 - DIFFERING) / 3:.0f} % of the verdicts are saved" in line for line in before.caveats)
    spent = done.finish(asked()).spent_usd
    assert spent < (before.max_usd or Decimal(0))
    assert preview(done.manifest(asked()), settings, clock, runs=done.runs).to_send == 0


def test_asking_everybody_afterwards_buys_only_the_verdicts_that_are_missing(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.finish_paid_once(asked(limit=9))
        given = verdicts(bench, asked(limit=9))
        before = sum(bench.billed().values())
        bench.finish_paid_once(asked("all", limit=9))
        missing = sum(3 - len(by_judge) for by_judge in given.values())
        assert sum(bench.billed().values()) == before + missing
        bench.finish_paid_once(asked(limit=9))
        assert sum(bench.billed().values()) == before + missing


def test_a_recorded_jury_is_read_in_the_same_form() -> None:
    said = {("a", "j1"): True, ("a", "j2"): True, ("a", "j3"): False, ("b", "j1"): False, ("b", "j2"): None,
            ("b", "j3"): False, ("c", "j1"): False, ("c", "j2"): True, ("c", "j3"): True}  # fmt: skip
    for name in ("x", "y", "z", "w"):
        rows = [(item + name, judge, verdict) for (item, judge), verdict in said.items()]
        frame = pl.DataFrame(rows, schema={"item_id": pl.String, "judge": pl.String, "v": pl.Boolean}, orient="row")
        counts = count_by_answer(frame, ["item_id"], ["v"], in_turn=True)
        found = {row["item_id"][0]: (row["yes v"], row["total v"]) for row in counts.iter_rows(named=True)}
        third = {item: third_judge(item + name) for item in "abc"}
        assert found["a"] == ((2, 2) if third["a"] == 2 else (2, 3))
        assert found["b"] == ((0, 2))
        assert found["c"] == ((2, 2) if third["c"] == 0 else (2, 3))


@pytest.mark.parametrize(
    ("ask", "more", "top", "words"),
    [
        ("two, then the third", "seats = 2\n", "", "jury of three"),
        ("two, then the third", "", '[scoring]\nmethod = "paper"\n', "paper's method"),
        ("all", "anchors = 5\n", "", r"give \[gold\] source"),
    ],
)
def test_what_no_jury_can_do_is_refused(tmp_path: Path, ask: str, more: str, top: str, words: str) -> None:
    path = tmp_path / "manifest.toml"
    path.write_text(manifest_text(("gemini",), jury=f'[jury]\nask = "{ask}"\n{more}{JUDGES}', top=top))
    with pytest.raises(ManifestError, match=words):
        load_manifest(path)


def test_what_is_published_can_be_verified(done: Lab) -> None:
    ended = call("verify", "lab", "--runs", str(done.runs))
    assert ended.code == 0, ended.err
