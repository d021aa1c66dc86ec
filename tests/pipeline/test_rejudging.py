"""Labels belong to the jury that judged: those of another jury are judged again, trusted by name, or refused."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from layton_batch.errors import ManifestError
from layton_batch.pipeline import advance, is_finished
from layton_batch.runs.rejudging import rejudge_jobs
from layton_batch.runs.status import RunState
from layton_batch.scoring.evidence import PREDICTION
from layton_batch.scoring.gold import GoldSet
from layton_batch.scoring.gold_file import read_gold
from layton_batch.scoring.judge_quality import diagnose
from layton_batch.scoring.jury_board import JuryBoard
from layton_batch.scoring.leaderboard import OTHER_JURY
from layton_batch.scoring.rules import ScoringRules
from layton_batch.settings import Settings
from layton_batch.stages.rank import board, evidence, judge_drift, judged, reader_notes
from layton_batch.states import Role
from tests.support.evidence import Rows, frames
from tests.support.lab import BUNDLED, MODELS, Lab, lab, manifest_text, write_few_labels

GOLD = BUNDLED / "gold_llm.jsonl"


def asked(how: str = "", *, source: str | Path = "gold.jsonl", limit: int = 5) -> str:
    """One judge sits, so the jury is never that of the gold set."""
    return manifest_text(limit=limit, top=f'[gold]\nsource = "{source}"\n{how}')


@contextmanager
def labelled_lab(folder: Path) -> Iterator[Lab]:
    """A lab with a few labelled answers."""
    write_few_labels(folder)
    with lab(folder) as bench:
        yield bench


def labelled(bench: Lab, text: str) -> pl.DataFrame:
    """The labelled answers to items of the run, less those that the run got as well: its jury judges them anyway."""
    rows = labelled_answers(bench.folder / "gold.jsonl")
    rows = rows.join(bench.table(text, "items"), on="item_id", how="semi", maintain_order="left")
    said = ["item_id", "answer", "justification"]
    got = rows.filter(pl.col("model") == MODELS["openai"])
    got = got.join(bench.table(text, "predictions"), on=said, how="semi", nulls_equal=True)
    return rows.join(got, on=PREDICTION, how="anti", maintain_order="left")


def labelled_answers(path: Path = GOLD) -> pl.DataFrame:
    return gold_set(path).labelled.filter(pl.col("answer").is_not_null())


def gold_set(path: Path) -> GoldSet:
    return read_gold(str(path), path.parent, Settings.from_environment({}, path.parent))


def rejudged(bench: Lab, text: str) -> list[str]:
    """The labelled items that went before this run's jury, once for each answer."""
    return [row["item_id"] for row in bench.requests(text).filter(role="rejudge").iter_rows(named=True)]


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A finished run that had the labelled answers of another jury judged again. Tests leave it as it was."""
    with labelled_lab(tmp_path_factory.mktemp("done")) as bench:
        assert bench.finish(asked()).state is RunState.DONE
        yield bench


def test_labelled_answers_of_another_jury_go_before_this_one_and_the_labels_stand_beside_its_votes(done: Lab) -> None:
    answers = labelled(done, asked())
    assert sorted(rejudged(done, asked())) == sorted(answers["item_id"])
    assert set(done.billed().values()) == {1}
    verdicts = done.table(asked(), "rejudged")
    assert verdicts.height == len(answers)
    assert set(verdicts["judge"]) == {"tern-3-referee", "sirocco-referee"}  # not of the model's own family
    with done.open(asked()) as run:
        _, labels = evidence(run, "both_correct")
        rows = Rows(board(run, run.rules))
    assert set(labels["total"]) == {1}  # one seat: never the three votes of the gold set
    assert len(labels) >= len(answers) - verdicts["both_correct"].null_count()
    assert not any(OTHER_JURY in row.flags for row in rows)


def test_a_judge_of_the_gold_set_that_judges_its_answers_again_is_compared_with_what_it_said(done: Lab) -> None:
    judge = "tern-3-referee"
    with done.open(asked()) as run:
        verdicts = judged(run, "both_correct")
        found = {one.judge: one for one in diagnose(verdicts, JuryBoard(*frames([]), ScoringRules())).drift}
    twice = verdicts.explode("verdicts").unnest("verdicts").drop_nulls(["verdict", "recorded"])
    assert found[judge].answers == twice.filter(pl.col("judge") == judge).height > 0
    moved = twice.filter(pl.col("judge") == judge, pl.col("verdict") != pl.col("recorded")).height
    assert found[judge].more_yes + found[judge].fewer_yes == moved


def test_what_rejudging_costs_is_a_stage_of_its_own_and_a_second_start_pays_nothing(done: Lab) -> None:
    before, spent = done.billed(), done.finish(asked()).spent_usd
    usage = done.table(asked(), "usage")
    by_stage = {role: sum(map(Decimal, rows["cost_usd"]), Decimal(0)) for (role,), rows in usage.group_by("role")}
    assert set(by_stage) == {"predict", "judge", "rejudge"}
    assert by_stage["rejudge"] > 0
    assert sum(by_stage.values()) == spent == done.server.ledger().total_usd
    assert done.billed() == before


def test_verdicts_on_labelled_answers_that_are_gone_are_read_from_the_answers_again(done: Lab) -> None:
    before, billed = done.table(asked(), "rejudged"), done.billed()
    with done.open(asked()) as run:
        jobs = [job for job in run.store.jobs() if job.role is Role.REJUDGE]
        run.folder.part("rejudged", jobs[0].id).unlink()
        advance(run)
    assert done.table(asked(), "rejudged").sort("item_id", "model").equals(before.sort("item_id", "model"))
    assert done.billed() == billed


def test_labels_of_another_jury_are_refused_where_the_manifest_does_not_rejudge_and_nothing_is_sent(
    tmp_path: Path,
) -> None:
    with labelled_lab(tmp_path) as bench:
        with pytest.raises(ManifestError, match=r"(?s)votes of another jury.*`rejudge = 0`.*\[jury\].*`trust = true`"):
            bench.finish(asked("rejudge = 0"))
        assert bench.billed() == {}


def test_rejudging_and_trust_are_not_asked_for_together(tmp_path: Path) -> None:
    with labelled_lab(tmp_path) as bench, pytest.raises(ManifestError, match="both rejudge and trust"):
        bench.manifest(asked('rejudge = "all"\ntrust = true'))


def test_a_sample_is_as_large_as_asked_has_every_vote_and_is_the_same_each_time(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        manifest = bench.manifest(asked("rejudge = 9", source=GOLD))
    gold, items = gold_set(GOLD), set(labelled_answers()["item_id"])
    orders = (gold, replace(gold, rows=gold.rows.reverse()))
    found = [rejudge_jobs(manifest, order, items) for order in orders]
    key = ("item_id", "model")
    chosen = [{answer for one in jobs for answer in one.rows.select(key).iter_rows()} for jobs in found]
    assert chosen[0] == chosen[1]
    assert len(chosen[0]) == 9
    rows = gold.on("both_correct").join(labelled_answers(), on=PREDICTION, how="semi")
    voted = list(rows.select(*key, "yes", "total").iter_rows())
    votes = Counter(tuple(vote) for _, _, *vote in voted)
    kept = Counter(tuple(vote) for item, model, *vote in voted if (item, model) in chosen[0])
    assert all(abs(kept[vote] - 9 * votes[vote] / len(voted)) < 1 for vote in votes)


def test_trusted_labels_are_named_as_another_jurys_in_every_row_until_a_manifest_has_them_judged_again(
    tmp_path: Path,
) -> None:
    with labelled_lab(tmp_path) as bench:
        for text in (asked("trust = true"), asked()):  # a run that is done pays nothing where nothing is said of it
            assert bench.finish(text).state is RunState.DONE
            assert rejudged(bench, text) == []
            assert all(OTHER_JURY in flags for flags in bench.table(text, "leaderboard")["flags"])
        before = bench.billed()
        status = bench.finish(asked('rejudge = "all"'))
        assert status.state is RunState.DONE
        after = bench.billed()
        assert set(after.values()) == {1}
        reused = bench.table(asked("trust = true"), "reused")  # the judge had the very same answer before it
        assert len(after) - len(before) + reused.height == len(labelled(bench, asked('rejudge = "all"')))
        assert not any(OTHER_JURY in flags for flags in bench.table(asked(), "leaderboard")["flags"])


def test_an_answer_that_this_run_got_as_well_is_not_judged_twice(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        bench.finish(manifest_text())
        said = bench.table(manifest_text(), "predictions").filter(kind="answered")
        own = tmp_path / "own.jsonl"
        own.write_text(
            "".join(json.dumps(gold_row(row)) + "\n" for row in said.iter_rows(named=True)), encoding="utf-8"
        )
        text = asked(source=own, limit=4).replace('name = "lab"', 'name = "again"')
        status = bench.finish(text)
        assert status.state is RunState.DONE
        assert rejudged(bench, text) == []
        with bench.open(text) as run:
            _, labels = evidence(run, "both_correct")
        assert len(labels) == said.height > 0


def gold_row(row: dict[str, object]) -> dict[str, object]:
    marks = {"is_answer_correct_somebody": True, "is_justification_correct_somebody": True}
    people = {"human_answer_correct": True, "human_justification_correct": False}
    named = {name: row[name] for name in ("provider", "model", "n_hints", "answer", "justification")}
    return {"riddle_id": row["item_id"], **named, **marks, **people}


@pytest.mark.nightly
def test_a_run_that_is_opened_anew_for_every_tick_pays_each_verdict_on_a_labelled_answer_once(tmp_path: Path) -> None:
    with labelled_lab(tmp_path) as bench:
        for _ in range(60):
            with bench.open(asked()) as run:
                advance(run)
                is_over = is_finished(run)
            if is_over:
                break
            bench.clock.sleep(30)
        assert is_over
        assert set(bench.billed().values()) == {1}
        assert len(rejudged(bench, asked())) == len(labelled(bench, asked()))


def test_a_run_ends_though_labelled_answers_wait_for_a_model_whose_answers_are_damaged(tmp_path: Path) -> None:
    with labelled_lab(tmp_path) as bench:
        assert bench.finish(asked()).state is RunState.DONE
        with bench.open(asked()) as run:
            waiting = next(job_id for job_id, rejudging in run.rejudging.items() if rejudging.own is not None)
            own = str(run.rejudging[waiting].own)
            for job_id in (own, waiting):
                run.store.ask_anew(job_id)
            assert not is_finished(run)
            run.trouble[own] = "its answers are damaged"
            advance(run)
            assert [job.id for job in run.store.jobs() if not job.planned] == [own, waiting]
            assert is_finished(run)


ANCHORS = """[jury]
seats = 1
anchors = 4
anchor_round = {round}
[[jury.judges]]
name = "tern-3-referee"
provider = "gemini"
model = "tern-3-referee"
max_output_tokens = 2000
[[jury.judges]]
name = "sirocco-referee"
provider = "mistral"
model = "sirocco-referee"
max_output_tokens = 2000
"""


def with_anchors(round_: int = 1, how: str = "trust = true") -> str:
    return manifest_text(
        limit=5, top=f'[gold]\nsource = "gold.jsonl"\n{how}', jury=ANCHORS.replace("{round}", str(round_))
    )


def anchors(bench: Lab, text: str) -> Counter[str]:
    requests = bench.requests(text).filter(pl.col("job_id").str.starts_with("anchor-"), ~pl.col("retired"))
    return Counter(requests["job_id"].str.extract(r"@(\d+)--").to_list())


def test_anchors_are_asked_once_a_round_and_leave_labels_and_votes_as_they_are(tmp_path: Path) -> None:
    with labelled_lab(tmp_path) as bench:
        plain = manifest_text(limit=5, top='[gold]\nsource = "gold.jsonl"\ntrust = true')
        bench.finish(plain)
        with bench.open(plain) as run:
            votes, labels = evidence(run, "both_correct")
        billed = bench.billed()
        assert bench.finish(with_anchors()).state is RunState.DONE
        assert anchors(bench, with_anchors()) == {"2": 4}
        assert sum(bench.billed().values()) == sum(billed.values()) + 4
        assert set(bench.billed().values()) == {1}
        with bench.open(with_anchors()) as run:
            assert all(map(pl.DataFrame.equals, evidence(run, "both_correct"), (votes, labels)))
            (drift, *_) = judge_drift(run, "both_correct")
            assert drift.answers > 0
            assert any(note.startswith("judges asked again about") for note in reader_notes(run))
        bench.finish(with_anchors(2))
        assert anchors(bench, with_anchors(2))["3"] == 4
        assert sum(bench.billed().values()) == sum(billed.values()) + 8


def test_anchors_are_recommended_where_judges_were_asked_more_than_a_week_after_the_labels(tmp_path: Path) -> None:
    text = manifest_text(limit=3, top='[gold]\nannotations = "labels.jsonl"')
    with lab(tmp_path) as bench:
        for day, is_late in (("2020-01-01", True), ("2035-01-01", False)):
            label = {
                "item_id": "lb-t-001",
                "model": MODELS["openai"],
                "answer_correct": True,
                "time": f"{day}T09:00:00Z",
            }
            (tmp_path / "labels.jsonl").write_text(json.dumps(label | {"justification_correct": True}) + "\n")
            bench.finish(text)
            with bench.open(text) as run:
                notes = [note for note in reader_notes(run) if "anchors = 20" in note]
            assert bool(notes) is is_late
