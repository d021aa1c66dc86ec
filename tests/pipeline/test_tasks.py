"""Every benchmark graded by rule, end to end: manifest, batches at several providers, grades, leaderboard, bill."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from layton_batch.manifest.asked import load_items as task_items
from layton_batch.manifest.asked import manifest_task
from layton_batch.manifest.checks import load_manifest
from layton_batch.records import Response
from layton_batch.sandbox import Fault
from layton_batch.states import FinishReason, RequestOutcome
from layton_batch.tasks import BUILT_IN
from layton_batch.tasks.protocol import TaskOptions
from layton_batch.tasks.zebralogic.task import ZebraLogicTask
from tests.support.cli_harness import call, refused
from tests.support.lab import MODELS, Lab, demo_prices, lab
from tests.support.paths import ROOT

PRINTED = 0.0501
"""The leaderboard's scores are in percent with one decimal."""


@dataclass(frozen=True, slots=True)
class Case:
    """``full``: the metric on which 1 is a pass, and anything else a failure of one kind."""

    providers: tuple[str, ...]
    split: str
    metric: str
    full: str


CASES = {
    "mcq_idk": Case(("openai", "anthropic"), "demo", "idk_score", "trad_score"),
    "zebralogic": Case(("gemini", "mistral"), "all", "cell_accuracy", "puzzle_accuracy"),
    "rome": Case(("together", "groq", "doubleword"), "llm", "accuracy", "accuracy"),
}


def manifest_text(
    task: str, providers: tuple[str, ...], split: str, metric: str, *, limit: int = 20, tokens: int | None = 8000
) -> str:
    text = f'name = "lab"\ntask = "{task}"\n[items]\nsource = "bundled"\nsplit = "{split}"\nlimit = {limit}\n'
    text += f'[scoring]\nmetric = "{metric}"\n'
    for provider in providers:
        text += f'[[models]]\nname = "{MODELS[provider]}"\nprovider = "{provider}"\nmodel = "{MODELS[provider]}"\n'
        text += f"max_output_tokens = {tokens}\n" if tokens else ""
    return text + demo_prices()


def regraded(bench: Lab, text: str, metric: str) -> pl.DataFrame:
    """The predictions' raw texts parsed and graded once more, by the task alone: item_id, model, mark."""
    manifest = bench.manifest(text)
    task = manifest_task(manifest)
    items = {item.id: item for item in task_items(manifest, task, bench.settings)}
    rows = []
    for row in bench.table(text, "predictions").iter_rows(named=True):
        finish = FinishReason(row["finish_reason"])
        reply = Response(row["custom_id"], RequestOutcome.SUCCEEDED, text=row["raw_text"], finish_reason=finish)
        item = items[row["item_id"]]
        mark = task.grade(item, task.parse(item, row["model"], reply)).marks[metric]
        rows.append({"item_id": item.id, "model": row["model"], "mark": mark})
    return pl.DataFrame(rows)


@pytest.mark.parametrize("name", CASES)
def test_a_run_grades_every_reply_ranks_the_models_and_accounts_for_the_sandboxs_bill(
    name: str, tmp_path: Path
) -> None:
    """Rows that the provider loses are sent again."""
    case = CASES[name]
    text = manifest_text(name, case.providers, case.split, case.metric)
    lost = Fault(on="row", action="missing", times=3), Fault(on="row", action="error", status=500, times=2)
    with lab(tmp_path, *lost) as bench:
        status = bench.finish_paid_once(text)
        assert len(bench.billed()) == 20 * len(case.providers)
        for table in ("usage", "cost"):
            assert sum(map(Decimal, bench.table(text, table)["cost_usd"])) == status.spent_usd > 0
        marks = regraded(bench, text, case.metric)
        votes = bench.table(text, "scores").filter(metric=case.metric)
        joined = marks.join(votes, on=["item_id", "model"], validate="1:1")
        assert joined.height == marks.height == votes.height
        assert joined["mark"].to_list() == joined["vote"].to_list()
        board = bench.table(text, "leaderboard").filter(metric=case.metric)
        means = dict(marks.group_by("model").agg(pl.col("mark").mean()).iter_rows())
        in_percent = {model: pytest.approx(100 * mean, abs=PRINTED) for model, mean in means.items()}
        assert dict(board.select("model", "score").iter_rows()) == in_percent
        grades = bench.table(text, "grades").filter(metric=case.full)
        passes = grades["grade"] == 1
        assert grades.filter(passes)["tag"].null_count() == passes.sum() > 0
        assert grades.filter(~passes)["tag"].null_count() == 0 < (~passes).sum()


# ---- room for the answer ---------------------------------------------------------------------------------------------

LIMIT_KEYS = {"openai": '"max_completion_tokens":', "gemini": '"maxOutputTokens":', "anthropic": '"max_tokens":'}
ADVICE = {"2*2": 7_168, "4*4": 16_384, "6*6": 31_744}


def limits_of(lines: bytes, provider: str) -> Counter[int]:
    """The output limits of a batch file, and how many of its lines have each."""
    return Counter(int(found) for found in re.findall(LIMIT_KEYS[provider] + r"(\d+)", lines.decode()))


def test_every_grid_gets_the_output_limit_it_needs_in_the_batch_file_and_reasoning_comes_on_top(tmp_path: Path) -> None:
    text = manifest_text("zebralogic", tuple(LIMIT_KEYS), "all", "cell_accuracy", limit=999, tokens=None)
    text = text.replace("[[prices]]", "[models.reasoning]\nbudget_tokens = 32000\n[[prices]]", 1)  # of Anthropic
    task = ZebraLogicTask(TaskOptions("all"))
    with lab(tmp_path) as bench:
        manifest = bench.manifest(text)
        items = task_items(manifest, manifest_task(manifest), bench.settings)
        by_size = {item.category: task.output_tokens(item) for item in items}
        assert {size: by_size[size] for size in ADVICE} == ADVICE
        advised = Counter(map(task.output_tokens, items))
        assert len(advised) > 5
        for batch in bench.plan_only(text).batches:
            room = 32_000 if batch.provider == "anthropic" else 0
            wanted = {limit + room: number for limit, number in advised.items()}
            assert limits_of((bench.runs / batch.path).read_bytes(), batch.provider) == wanted


# ---- the demonstrations ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", BUILT_IN)
def test_every_demonstration_shows_its_task_with_the_same_models_at_the_same_prices(task: str) -> None:
    name = "demo.toml" if task == "layton" else f"demo-{task}.toml"
    shown, first = (load_manifest(ROOT / "manifests" / file) for file in (name, "demo.toml"))
    assert shown.task == task
    paid = [(model.provider, model.model) for model in shown.models]
    assert paid == [(model.provider, model.model) for model in first.models]
    prices = [[price for price in one.prices if (price.provider, price.model) in paid] for one in (first, shown)]
    assert prices[0] == prices[1]
    assert (not shown.panel()) is (task not in {"layton", "qa"})


def test_a_demonstration_of_a_task_there_is_none_of_names_those_there_are(tmp_path: Path) -> None:
    message = refused("demo", "--task", "zebra", "--out", tmp_path)
    assert all(task in message for task in ("zebra", *BUILT_IN))
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
def test_a_demonstration_runs_to_its_end_and_its_bill_is_the_sandboxs(tmp_path: Path) -> None:
    ending = call("demo", "--task", "mcq_idk", "--out", tmp_path)
    assert ending.code == 0
    billed, accounted = (part.rsplit("$", 1)[1] for part in ending.err.splitlines()[-1].split(";"))
    assert Decimal(billed) == Decimal(accounted) > 0
