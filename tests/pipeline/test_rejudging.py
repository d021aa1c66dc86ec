"""Labels belong to the jury that judged: those of another jury are judged again, trusted by name, or refused."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from layton_batch.errors import ManifestError
from layton_batch.scoring.evidence import PREDICTION
from layton_batch.scoring.gold import GoldSet, read_gold
from layton_batch.scoring.leaderboard import OTHER_JURY
from layton_batch.settings import Settings
from layton_batch.stages.rank import evidence, judge_drift
from tests.support.lab import (
    BUNDLED,
    MODELS,
    Lab,
    Preview,
    RunState,
    lab,
    manifest_text,
    set_aside,
    write_few_labels,
)

GOLD = BUNDLED / "gold_llm.jsonl"
JURY = "[jury]\nseats = 1\n"


def asked(how: str = "", *, source: str | Path = "gold.jsonl", limit: int = 3, anchor_round: int = 0) -> str:
    """One judge sits, so the jury is never that of the gold set. ``anchor_round``: of four anchors; 0: none."""
    text = manifest_text(limit=limit, top=f'[gold]\nsource = "{source}"\n{how}')
    anchors = f"anchors = 4\nanchor_round = {anchor_round}\n" if anchor_round else ""
    return text.replace(JURY, JURY + anchors)


@contextmanager
def labelled_lab(folder: Path) -> Iterator[Lab]:
    """A lab with a few labelled answers."""
    write_few_labels(folder)
    with lab(folder) as bench:
        yield bench


def gold_set(path: Path) -> GoldSet:
    return read_gold(str(path), path.parent, Settings.from_environment({}, path.parent))


def labelled_answers(path: Path = GOLD) -> pl.DataFrame:
    return gold_set(path).labelled.filter(pl.col("answer").is_not_null())


def labelled(bench: Lab, text: str) -> pl.DataFrame:
    """The labelled answers to items of the run, less those that the run got as well: its jury judges them anyway."""
    rows = labelled_answers(bench.folder / "gold.jsonl")
    rows = rows.join(bench.table(text, "items"), on="item_id", how="semi", maintain_order="left")
    got = rows.filter(pl.col("model") == MODELS["openai"])
    said = ["item_id", "answer", "justification"]
    got = got.join(bench.table(text, "predictions"), on=said, how="semi", nulls_equal=True)
    return rows.join(got, on=PREDICTION, how="anti", maintain_order="left")


def rejudged(bench: Lab, text: str) -> list[str]:
    """The labelled items that went before this run's jury, once for each answer."""
    return bench.requests(text).filter(role="rejudge")["item_id"].to_list()


def is_of_another_jury(bench: Lab, text: str) -> set[bool]:
    return {OTHER_JURY in flags for flags in bench.table(text, "leaderboard")["flags"]}


@dataclass(frozen=True)
class Done:
    """A finished run that had the labelled answers of another jury judged again, and the plan before it."""

    bench: Lab
    plan: Preview


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Done]:
    """Tests leave the run as it was."""
    with labelled_lab(tmp_path_factory.mktemp("done")) as bench:
        plan = bench.plan(asked())
        bench.finish_paid_once(asked())
        yield Done(bench, plan)


def test_labelled_answers_of_another_jury_go_before_this_one_and_the_labels_stand_beside_its_votes(done: Done) -> None:
    bench, answers = done.bench, labelled(done.bench, asked())
    assert sorted(rejudged(bench, asked())) == sorted(answers["item_id"])
    verdicts = bench.table(asked(), "rejudged")
    assert verdicts.height == len(answers)
    assert set(verdicts["judge"]) == {"tern-3-referee", "sirocco-referee"}  # not of the model's own family
    with bench.open(asked()) as run:
        _, labels = evidence(run, "both_correct")
    assert set(labels["total"]) == {1}  # one seat: never the three votes of the gold set
    assert len(labels) >= len(answers) - verdicts["both_correct"].null_count()
    assert is_of_another_jury(bench, asked()) == {False}


def test_what_rejudging_costs_is_bounded_by_the_plan_is_a_stage_of_its_own_and_is_paid_once(done: Done) -> None:
    bench, before = done.bench, done.bench.billed()
    aside, bounds = set_aside(bench, asked(), "rejudge"), {one.job.id: one.max_usd for one in done.plan.jobs}
    assert all(0 < usd <= (bounds[job_id] or 0) for job_id, usd in aside.items())
    spent, usage = bench.finish(asked()).spent_usd, bench.table(asked(), "usage")
    by_stage = {role: sum(map(Decimal, rows["cost_usd"]), Decimal(0)) for (role,), rows in usage.group_by("role")}
    assert by_stage.keys() == {"predict", "judge", "rejudge"}
    assert by_stage["rejudge"] > 0
    assert sum(by_stage.values()) == spent
    assert bench.billed() == before


def test_labels_of_another_jury_are_refused_where_the_manifest_does_not_rejudge_and_nothing_is_sent(
    tmp_path: Path,
) -> None:
    with labelled_lab(tmp_path) as bench:
        with pytest.raises(ManifestError) as refused:
            bench.finish(asked("rejudge = 0"))
        assert all(word in str(refused.value) for word in ("`rejudge = 0`", "[jury]", "`trust = true`"))
        assert bench.billed() == {}
        with pytest.raises(ManifestError):  # not both of them
            bench.manifest(asked('rejudge = "all"\ntrust = true'))


def test_a_sample_is_as_large_as_asked_has_every_vote_and_is_the_same_each_time(tmp_path: Path) -> None:
    backwards, chosen, key = tmp_path / "backwards.jsonl", list[set[tuple[object, ...]]](), ("item_id", "model")
    backwards.write_bytes(b"".join(reversed(GOLD.read_bytes().splitlines(keepends=True))))
    with lab(tmp_path) as bench:
        for source in (GOLD, backwards):
            text = asked("rejudge = 9", source=source, limit=99)
            bench.plan_only(text)
            with bench.open(text) as run:
                chosen.append({answer for one in run.wanted_rejudging for answer in one.rows.select(key).iter_rows()})
    assert chosen[0] == chosen[1]
    assert len(chosen[0]) == 9
    rows = gold_set(GOLD).on("both_correct").join(labelled_answers(), on=PREDICTION, how="semi")
    voted = list(rows.select(*key, "yes", "total").iter_rows())
    votes = Counter(tuple(vote) for _, _, *vote in voted)
    kept = Counter(tuple(vote) for item, model, *vote in voted if (item, model) in chosen[0])
    assert all(abs(kept[vote] - 9 * votes[vote] / len(voted)) < 1 for vote in votes)


def anchors(bench: Lab, text: str) -> Counter[str]:
    requests = bench.requests(text).filter(pl.col("job_id").str.starts_with("anchor-"), ~pl.col("retired"))
    return Counter(requests["job_id"].str.extract(r"@(\d+)--").to_list())


def test_trusted_labels_are_another_jurys_until_they_are_judged_again_and_anchors_ask_once_a_round(
    tmp_path: Path,
) -> None:
    """Anchors leave labels and votes as they are."""
    with labelled_lab(tmp_path) as bench:
        trusted = asked("trust = true")
        for text in (trusted, asked()):  # a run that is done pays nothing where nothing is said of it
            assert bench.finish(text).state is RunState.DONE
            assert rejudged(bench, text) == []
            assert is_of_another_jury(bench, text) == {True}
        with bench.open(trusted) as run:
            before = evidence(run, "both_correct")
        billed = len(bench.billed())
        for round_, bought in ((1, 4), (2, 8)):
            text = asked("trust = true", anchor_round=round_)
            bench.finish_paid_once(text)
            assert anchors(bench, text)[str(round_ + 1)] == 4
            assert len(bench.billed()) == billed + bought
        with bench.open(text) as run:
            assert all(map(pl.DataFrame.equals, evidence(run, "both_correct"), before))
            assert judge_drift(run, "both_correct")[0].answers > 0
        everything = asked('rejudge = "all"')
        billed = len(bench.billed())
        bench.finish_paid_once(everything)
        reused = bench.table(everything, "reused")  # the judge had the very same answer before it
        assert len(bench.billed()) - billed + reused.height == len(labelled(bench, everything))
        assert is_of_another_jury(bench, everything) == {False}
