"""An answer that is there, or on its way, is used: by another run of the workspace, and by another name of a model."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import orjson
import polars as pl
import pytest

from layton_batch.sandbox import Fault
from layton_batch.settings import Settings
from tests.support.cli_harness import call
from tests.support.lab import MODELS, Lab, RunState, lab, manifest_text, named, quiz_text, with_twin
from tests.support.tiers import tiered

JUDGED = manifest_text(limit=1)
ONE, TWO = quiz_text(("openai",), limit=2), quiz_text(("openai", "anthropic"), limit=2)
OTHER = named("other", JUDGED)


def with_policy(text: str, line: str) -> str:
    return text.replace("[[models]]", f"[policy]\n{line}\n[[models]]", 1)


# ---- another run -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A run that paid, and another one of the same questions. Tests leave them as they are."""
    with lab(tmp_path_factory.mktemp("shared")) as bench:
        bench.finish_paid_once(JUDGED)
        assert bench.finish(OTHER).state is RunState.DONE
        yield bench


def test_another_run_of_the_same_questions_costs_nothing_and_says_what_they_cost(shared: Lab) -> None:
    first, other = shared.read(JUDGED), shared.read(OTHER)
    assert (other.unanswered, other.spent_usd, len(shared.billed())) == (0, 0, 2)
    board = ["model", "score", "lower", "upper"]
    assert shared.table(OTHER, "leaderboard").select(board).equals(shared.table(JUDGED, "leaderboard").select(board))
    reused = call("cost", "other", "--runs", shared.runs, "--format", "json").table()["reused"]
    assert reused == {"requests": 2, "paid_usd": f"{first.spent_usd:f}"}
    together = shared.bill("lab", "other")
    assert (together.reused.requests, together.total.requests) == (0, 2)  # the sums have what the first run paid


def test_an_answer_that_was_taken_over_is_as_traceable_as_ones_own_when_the_other_run_is_gone(
    shared: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "runs", Path(shutil.copytree(shared.runs, tmp_path / "runs")))
    third, texts = named("third", JUDGED), shared.table(JUDGED, "predictions")["raw_text"].to_list()
    shutil.rmtree(shared.run_folder(JUDGED).root)
    shared.finish(third)
    shutil.rmtree(shared.run_folder(OTHER).root)
    assert shared.table(third, "predictions")["raw_text"].to_list() == texts
    reused = shared.table(third, "reused")
    assert (set(reused["run"]), len(shared.billed())) == ({"lab"}, 2)
    assert call("export", "third", "--runs", shared.runs, "--to", "parquet", "--out", tmp_path / "out").code == 0
    assert pl.read_parquet(tmp_path / "out" / "predictions.parquet")["raw_text"].to_list() == texts


def test_what_a_sandbox_or_another_address_answered_is_no_answer_of_the_providers(tmp_path: Path) -> None:
    """Names of requests carry digits of their fingerprints."""
    places = {"provider": None, "other": "https://other.example/v1", "gateway": "https://gateway.example/v1"}
    places["same gateway"] = f"{places['gateway']}/"
    with lab(tmp_path) as bench:
        bench.finish(ONE)
        assert bench.plan(ONE).to_send == 0
        digits = {}
        for place, address in {"sandbox": bench.server.environment()["OPENAI_BASE_URL"], **places}.items():
            if place != "sandbox":
                variables = {"OPENAI_API_KEY": "key"} | ({"OPENAI_BASE_URL": address} if address else {})
                bench.settings = Settings.from_environment(variables, tmp_path)
            anew = named(place.replace(" ", "-"), ONE)
            assert bench.plan(anew, tmp_path / place).to_send == (0 if place == "sandbox" else 2)
            lines = b"".join(path.read_bytes() for path in (tmp_path / place).rglob("*.jsonl")).splitlines()
            digits[place] = {str(orjson.loads(line)["custom_id"]).rpartition("-")[2] for line in lines}
        assert digits.pop("sandbox") == set()
        assert digits["gateway"] == digits.pop("same gateway")
        assert len(set.union(*digits.values())) == 2 * len(digits)


def damage(batches: Path) -> None:
    for part in batches.rglob("*.parquet"):
        part.write_bytes(b"damaged")


@pytest.mark.parametrize("trouble", tiered((damage, shutil.rmtree), ci=(damage,)))
def test_nothing_is_bought_again_where_the_answers_of_the_run_beside_it_cannot_be_read(
    tmp_path: Path, trouble: Callable[[Path], None]
) -> None:
    other = named("other", ONE)
    with lab(tmp_path) as bench:
        bench.finish(ONE)
        billed = bench.billed()
        trouble(bench.runs / "batches" / "lab")
        bench.finish(other)
        (event,) = bench.events(other, "table_damaged")
        assert "batches/lab" in event.detail or "run lab" in event.detail
        assert bench.billed() == billed


def test_a_model_that_comes_back_is_asked_for_what_was_given_up_while_it_was_gone(tmp_path: Path) -> None:
    half = Fault(on="batch", action="expire", provider="anthropic", times=1, share=0.5)
    with lab(tmp_path, half) as bench:
        bench.begin(TWO)
        assert bench.finish(ONE).unanswered == 0
        bench.finish_paid_once(TWO)
        assert bench.table(TWO, "predictions").height == 4


# ---- another name of a model -----------------------------------------------------------------------------------------


def has_each_once(bench: Lab, text: str, questions: int = 2) -> None:
    """Both names have the same answers, and so many questions were billed for both."""
    said = bench.table(text, "predictions").sort("item_id")
    own, other = (said.filter(model=name)["raw_text"].to_list() for name in (MODELS["openai"], "twin"))
    assert own == other
    assert None not in own
    assert sum(bench.billed().values()) == questions
    assert bench.finish(text).spent_usd == bench.server.ledger().total_usd


@pytest.mark.parametrize(
    ("comes_later", "action"), tiered((False, True), ("malformed_text", "truncated"), ci=[(True, "truncated")])
)
def test_an_unusable_reply_is_asked_for_again_once_for_both_names(
    tmp_path: Path, comes_later: bool, action: str
) -> None:
    one = with_policy(ONE, "reask_unparsed = 1\nreask_truncated = 1")
    text = with_twin(one)
    with lab(tmp_path, Fault(on="row", action=action, provider="openai", times=1)) as bench:
        if comes_later:
            bench.finish(one)
        status = bench.finish(text)
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        assert set(bench.table(text, "predictions")["kind"]) == {"answered"}
        has_each_once(bench, text, 3)
