"""Every benchmark graded by rule, end to end: manifest, batches at several providers, grades, leaderboard, bill."""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from decimal import Decimal
from pathlib import Path

import polars as pl
import pytest

from layton_batch.cli.demo import DEMO_MANIFESTS, demo_manifest, run_demo
from layton_batch.errors import ManifestError
from layton_batch.files import tables
from layton_batch.manifest.asked import load_items as task_items
from layton_batch.manifest.asked import manifest_task
from layton_batch.pipeline import advance
from layton_batch.records import Response
from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from layton_batch.stages.preview import preview
from layton_batch.stages.rank import item_scores
from layton_batch.states import FinishReason, PredictionKind, RequestOutcome
from layton_batch.tasks.protocol import TaskOptions
from layton_batch.tasks.rome.task import RomeTask
from layton_batch.tasks.zebralogic.task import ZebraLogicTask
from tests.support.lab import JUDGES, MODELS, Lab, demo_prices, lab
from tests.support.tiers import tiered

CASES = {
    "mcq_idk": (("openai", "anthropic"), "demo", "idk_score", (-1.0, 0.0, 1.0)),
    "zebralogic": (("gemini", "mistral"), "all", "cell_accuracy", None),
    "rome": (("together", "groq", "doubleword"), "llm", "accuracy", (0.0, 0.5, 1.0)),
}


FULL = {"mcq_idk": "trad_score", "zebralogic": "puzzle_accuracy", "rome": "accuracy"}
"""The metric on which 1 is a pass, and anything else a failure of one kind."""
READS_PAGES = True
PRINTED = 0.0501
"""The leaderboard's scores are in percent with one decimal."""


def manifest_text(task: str, providers: tuple[str, ...], split: str, metric: str, more: str = "") -> str:
    text = f'name = "lab"\ntask = "{task}"\n{more}\n[items]\nsource = "bundled"\nsplit = "{split}"\nlimit = 20\n'
    text += f'[scoring]\nmetric = "{metric}"\n'
    for provider in providers:
        text += f'[[models]]\nname = "{MODELS[provider]}"\nprovider = "{provider}"\nmodel = "{MODELS[provider]}"\n'
        text += "max_output_tokens = 8000\n"
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
        rows.append({"item_id": item.id, "model": row["model"], "grade": mark})
    return pl.DataFrame(rows)


@pytest.mark.parametrize("task", CASES)
def test_a_run_grades_every_reply_ranks_the_models_and_accounts_for_the_sandboxs_bill(
    task: str, tmp_path: Path
) -> None:
    providers, split, metric, values = CASES[task]
    text = manifest_text(task, providers, split, metric)
    with lab(tmp_path) as bench:
        status = bench.finish(text)
        assert status.state is RunState.DONE
        assert status.unanswered == 0
        assert {job.role for job in status.jobs} == {"predict"}
        assert status.spent_usd == bench.server.ledger().total_usd > 0
        assert set(bench.billed().values()) == {1}
        assert len(bench.billed()) == 20 * len(providers)
        usage = bench.table(text, "usage")
        assert sum(map(Decimal, usage["cost_usd"])) == status.spent_usd
        assert sum(map(Decimal, bench.table(text, "cost")["cost_usd"])) == status.spent_usd
        marks = regraded(bench, text, metric)
        if values is not None:
            assert set(marks["grade"]) <= set(values)
        scores = bench.table(text, "scores").filter(pl.col("metric") == metric)
        joined = marks.join(scores, on=["item_id", "model"], validate="1:1")
        assert joined.height == marks.height == scores.height == 20 * len(providers)
        assert joined["grade"].to_list() == joined["vote"].to_list()
        means = dict(marks.group_by("model").agg(pl.col("grade").mean()).iter_rows())
        board = bench.table(text, "leaderboard").filter(pl.col("metric") == metric)
        with bench.open(text) as run:
            kinds = {item.id: item.category for item in run.items}
            sheets = item_scores(run, metric)
        stratified = [[kinds[item] for item in sheet.item_ids] if task == "zebralogic" else [] for sheet in sheets]
        assert [list(sheet.strata) for sheet in sheets] == stratified
        in_percent = {model: pytest.approx(100 * mean, abs=PRINTED) for model, mean in means.items()}
        assert dict(board.select("model", "score").iter_rows()) == in_percent
        assert board["score"].is_sorted(descending=True)
        grades = bench.table(text, "grades").filter(pl.col("metric") == FULL[task])
        passes = grades["grade"] == 1
        assert grades.filter(passes)["tag"].null_count() == passes.sum() > 0
        assert grades.filter(~passes)["tag"].null_count() == 0 < (~passes).sum()
        pages = bench.run_folder(text).site.rglob("*.html")
        shown = "\n".join(page.read_text("utf-8") for page in pages)
        assert "no vote" not in shown
        assert "A rule graded every answer" in shown
        assert "every judge" not in shown
        assert all(tag.replace("_", " ") in shown for tag in set(grades["tag"].drop_nulls()))


@pytest.mark.parametrize("task", tiered(CASES, ci=("zebralogic",)))
def test_rows_that_fail_at_the_provider_are_sent_again_and_paid_once(task: str, tmp_path: Path) -> None:
    providers, split, metric, _ = CASES[task]
    text = manifest_text(task, providers[:1], split, metric)
    lost = Fault(on="row", action="missing", times=3), Fault(on="row", action="error", status=500, times=2)
    with lab(tmp_path, *lost) as bench:
        bench.finish_paid_once(text)
        kinds = set(bench.table(text, "predictions")["kind"])
    assert PredictionKind.MISSING not in kinds


@pytest.mark.parametrize(
    ("task", "protocol"), [("mcq_idk", "original"), ("zebralogic", "zeroeval"), ("rome", "original")]
)
def test_the_published_protocols_run_as_well(task: str, protocol: str, tmp_path: Path) -> None:
    providers, split, metric, _ = CASES[task]
    text = manifest_text(task, providers[:1], split, metric, f'[task_options]\nprotocol = "{protocol}"')
    with lab(tmp_path) as bench:
        assert bench.finish(text).state is RunState.DONE
        marks, board = regraded(bench, text, metric), bench.table(text, "leaderboard")
        assert board.filter(pl.col("metric") == metric)["score"].to_list() == [
            pytest.approx(100 * marks["grade"].sum() / marks.height, abs=PRINTED)
        ]


# ---- room for the answer -------------------------------------------------------------------------------------------

LIMIT_KEYS = {"openai": '"max_completion_tokens":', "gemini": '"maxOutputTokens":', "anthropic": '"max_tokens":'}
ADVICE = {"2*2": 7_168, "4*4": 16_384, "6*6": 31_744}


def without_limits(text: str) -> str:
    return text.replace("max_output_tokens = 8000\n", "")


def limits_of(lines: bytes, provider: str) -> Counter[int]:
    """The output limits of a batch file, and how many of its lines have each."""
    return Counter(int(found) for found in re.findall(LIMIT_KEYS[provider] + r"(\d+)", lines.decode()))


def advised(folder: Path, bench: Lab) -> Counter[int]:
    manifest = bench.manifest((folder / "manifest.toml").read_text())
    items = task_items(manifest, manifest_task(manifest), bench.settings)
    task = ZebraLogicTask(TaskOptions("all"))
    assert {
        size: task.output_tokens(next(item for item in items if item.category == size)) for size in ADVICE
    } == ADVICE
    return Counter(map(task.output_tokens, items))


def test_every_grid_gets_the_output_limit_it_needs_in_the_batch_file_itself(tmp_path: Path) -> None:
    providers = tuple(LIMIT_KEYS)
    text = without_limits(manifest_text("zebralogic", providers, "all", "cell_accuracy")).replace("limit = 20\n", "")
    with lab(tmp_path) as bench:
        plan = preview(bench.manifest(text), bench.settings, bench.clock, tmp_path / "planned")
        with bench.open(text) as run:
            advance(run)
            files = {batch.job_id: (bench.runs / batch.path).read_bytes() for batch in run.store.batches()}
        wanted = advised(tmp_path, bench)
    assert len(wanted) > 5
    for provider in providers:
        job = next(one.job.id for one in plan.jobs if one.job.spec.provider == provider)
        (planned,) = (tmp_path / "planned").rglob(f"{job}/*")
        assert limits_of(files[job], provider) == limits_of(planned.read_bytes(), provider) == wanted


def test_a_budget_for_reasoning_comes_on_top_of_the_advised_limit(tmp_path: Path) -> None:
    text = without_limits(manifest_text("zebralogic", ("anthropic",), "all", "cell_accuracy"))
    text = text.replace("[[prices]]", "[models.reasoning]\nbudget_tokens = 32000\n[[prices]]", 1)
    with lab(tmp_path) as bench, bench.open(text) as run:
        advance(run)
        (batch,) = run.store.batches()
        lines = (bench.runs / batch.path).read_bytes()
        least = min(run.task.output_tokens(item) for item in run.items)  # type: ignore[attr-defined]
    assert min(limits_of(lines, "anthropic")) == 32_000 + least


def test_a_grid_that_was_cut_off_is_asked_for_again_with_twice_the_advised_room(tmp_path: Path) -> None:
    text = without_limits(manifest_text("zebralogic", ("openai",), "all", "cell_accuracy"))
    text = text.replace("limit = 20", "limit = 1").replace("[scoring]", "[policy]\nreask_truncated = 1\n[scoring]")
    with lab(tmp_path, Fault(on="row", action="truncated", times=1)) as bench:
        status = bench.finish(text)
        again = next(batch for batch in status.batches if batch.parent_id is not None)
        lines = (bench.runs / again.path).read_bytes()
    assert limits_of(lines, "openai") == {2 * ADVICE["2*2"]: 1}


# ---- pictures and a jury -------------------------------------------------------------------------------------------


def test_pictures_that_annotations_name_by_path_reach_the_models_of_two_providers(tmp_path: Path) -> None:
    """The bundled questions with their pictures as files beside the annotations, as ROME publishes them."""
    folder = tmp_path / "annotations"
    (folder / "imgs").mkdir(parents=True)
    lines, pictures = [], []
    for row in map(json.loads, RomeTask(TaskOptions("vlm")).bundled("vlm").read_text("utf-8").splitlines()):
        shown = row.pop("img")
        row["img_path"] = []
        for place, picture in enumerate(shown if isinstance(shown, list) else [shown]):
            name = f"imgs/{row['question_id']}-{place}.jpg"
            (folder / name).write_bytes(base64.b64decode(picture))
            row["img_path"].append(name)
            pictures.append(picture)
        lines.append(json.dumps(row))
    (folder / "rome.jsonl").write_text("\n".join(lines))
    text = manifest_text("rome", ("openai", "anthropic"), "vlm", "accuracy")
    text = text.replace('source = "bundled"', 'source = "annotations/rome.jsonl"')
    with lab(tmp_path) as bench:
        status = bench.finish(text)
        assert (status.state, status.unanswered) == (RunState.DONE, 0)
        for batch in status.batches:
            sent = (bench.runs / batch.path).read_text()
            assert all(picture in sent for picture in pictures)
        board = bench.table(text, "leaderboard")
        # As right as where the pictures stand in the rows: the made-up models know the questions by their pictures.
        assert board["n_items"].to_list() == [len(lines)] * 2
        assert (board["score"] > 30).all()
        assert status.spent_usd == bench.server.ledger().total_usd > 0


@pytest.mark.parametrize("protocol", tiered(("corrected", "original"), ci=("corrected",)))
def test_a_model_may_judge_what_a_rule_could_grade_and_no_verdict_is_bought_twice(
    protocol: str, tmp_path: Path
) -> None:
    options = f'[task_options]\njudge = true\nprotocol = "{protocol}"\n[policy]\nreask_unparsed = 1'
    text = manifest_text("rome", ("openai", "gemini"), "llm", "answer_correct", options)
    jury = f"[jury]\nseats = 2\n{JUDGES}"
    with lab(tmp_path) as bench:
        status = bench.finish(text.replace("[[prices]]", f"{jury}\n[[prices]]", 1))
        assert status.state is RunState.DONE
        judged = [job for job in status.jobs if job.role == "judge"]
        assert {job.id.partition("--")[0] for job in judged} == {
            "judge-wagtail-5-referee", "judge-larch-2-referee", "judge-sirocco-referee"
        }  # fmt: skip
        assert status.spent_usd == bench.server.ledger().total_usd
        folder = next(path.parent for path in bench.runs.glob("*/run.json"))
        verdicts = tables.read(folder / "tables", "verdicts")
        # A verdict on the answer alone is whole: asked again are only the few replies that cannot be read.
        assert sum(count > 1 for count in bench.billed().values()) < verdicts.height / 4
        assert verdicts["is_justification_correct"].null_count() == verdicts.height > 30
        board = tables.read(folder / "tables", "leaderboard")
    assert set(board["metric"]) == {"answer_correct"}
    assert board["score"].null_count() == 0


# ---- the demonstrations --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("task", DEMO_MANIFESTS)
def test_every_demonstration_shows_its_task_with_the_same_models_at_the_same_prices(task: str) -> None:
    shown, first = demo_manifest(task), demo_manifest()
    assert shown.task == task
    assert [(model.provider, model.model) for model in shown.models] == [(m.provider, m.model) for m in first.models]
    paid = {(model.provider, model.model) for model in shown.models}
    assert [price for price in first.prices if (price.provider, price.model) in paid] == [
        price for price in shown.prices if (price.provider, price.model) in paid
    ]
    assert (not shown.panel()) is (task not in {"layton", "qa"})


def test_a_demonstration_of_a_task_there_is_none_of_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match="no task 'zebra' to show; there are layton, mcq_idk, zebralogic, rome"):
        run_demo(tmp_path, "zebra")
    assert not list(tmp_path.iterdir())


@pytest.mark.nightly
def test_a_demonstration_runs_to_its_end_and_its_bill_is_the_sandboxs(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_demo(tmp_path, "mcq_idk") == 0
    last = capsys.readouterr().err.splitlines()[-1]
    billed, accounted = (part.rsplit("$", 1)[1] for part in last.split(";"))
    assert Decimal(billed) == Decimal(accounted) > 0
