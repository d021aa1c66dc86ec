"""Export, import: the same board, digit for digit, in every form that some door takes in again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import polars as pl
import pytest

import layton_batch as lb
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import JsonValue
from tests.support.cli_harness import call
from tests.support.finished_runs import rule_lab, rule_text
from tests.support.lab import Lab, lab, manifest_text
from tests.support.pages import without_pages as without_pages
from tests.support.tiers import tiered

Row = dict[str, JsonValue]
GOLD = '[gold]\nsource = "bundled"\ntrust = true'
JURY_METRICS = ("both_correct",)
PROVIDERS = ("openai", "anthropic", "groq")


def _twice(text: str) -> str:
    """The first model is asked twice, the others once."""
    return text.replace("max_output_tokens = 4000", "max_output_tokens = 4000\nsamples = 2", 1)


JURIES = {
    "nothing of people": manifest_text(PROVIDERS[:2], limit=5),
    "labels": manifest_text(PROVIDERS, limit=6),
    "gold set and labels": manifest_text(PROVIDERS, limit=12, top=GOLD),
    "hints, samples and labels": _twice(manifest_text(PROVIDERS[:2], limit=4, top="hints = [0, 1]")),
    "hints, samples, gold set and labels": _twice(manifest_text(PROVIDERS[:2], limit=4, top=f"hints = [0, 1]\n{GOLD}")),
}
CI = ("hints, samples and labels",)
RULES = {name: rule_text(name) for name in ("rome", "zebralogic")} | {"samples": _twice(rule_text("mcq_idk"))}


@dataclass(frozen=True, slots=True)
class Whole:
    """A run that is done, labels on some of its answers, and the lab it was made in."""

    bench: Lab
    text: str
    folder: RunFolder
    metrics: tuple[str, ...]

    @property
    def boards(self) -> dict[str, list[Row]]:
        return _own_boards(self.folder.root, self.metrics)

    def export(self, form: str, out: Path, *more: str) -> Path:
        ended = call("export", self.folder.root, "--to", form, "--out", out, *more)
        assert ended.code == 0, ended.err
        return out

    def part(self, name: str) -> tuple[str, RunFolder]:
        """A run that differs in its models alone: it asks the last one, and takes over what that said. With the same
        labels."""
        head, *models = self.text.split("[[models]]")
        text = head.replace('name = "lab"', f'name = "{name}"') + "[[models]]" + models[-1]
        self.bench.finish(text)
        folder, labels = self.bench.run_folder(text), self.bench.folder / "labels.jsonl"
        if labels.exists():
            assert call("label", "import", folder.root, labels).code == 0
        return text, folder

    def others(self, part: RunFolder) -> pl.DataFrame:
        """The models that a part does not ask: a row of each."""
        mine = tables.read(part.tables, "predictions")["model"]
        said = tables.read(self.folder.tables, "predictions").unique("model", maintain_order=True)
        return said.filter(~pl.col("model").is_in(mine.implode()))


@pytest.fixture(scope="module", params=tiered(JURIES, ci=CI))
def jury(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Whole]:
    text = JURIES[request.param]
    with lab(tmp_path_factory.mktemp("jury")) as bench:
        bench.finish(text)
        found = Whole(bench, text, bench.run_folder(text), JURY_METRICS)
        if request.param.endswith("labels"):
            _label(found)
        yield found


@pytest.fixture(scope="module", params=tiered(RULES, ci=("samples",)))
def rule(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Whole]:
    text = RULES[request.param]
    with rule_lab(tmp_path_factory.mktemp("rule")) as bench:
        bench.finish(text)
        folder = bench.run_folder(text)
        metrics = tuple(tables.read(folder.tables, "grades")["metric"].unique(maintain_order=True))[:2]
        yield Whole(bench, text, folder, metrics)


def _label(found: Whole) -> None:
    """Two people on some of the answers, one of them on the very words."""
    said = tables.read(found.folder.tables, "predictions").filter(pl.col("kind") == "answered")
    rows: list[Row] = []
    for number, row in enumerate(said.iter_rows(named=True)):
        about = {name: row[name] for name in ("item_id", "model", "provider", "n_hints")}
        marks = {"answer_correct": number % 3 > 0, "justification_correct": number % 2 > 0}
        if number % 2:
            words = {name: row[name] for name in ("answer", "justification")}
            rows.append({**about, **words, **marks, "annotator": "ann"})
        if number % 5 == 0 and row["sample"] == 1:
            rows.append({**about, **marks, "annotator": "bob"})
    path = found.bench.folder / "labels.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ended = call("label", "import", found.folder.root, path)
    assert ended.code == 0, ended.err


def _board(*sources: str | Path, metric: str) -> list[Row]:
    ended = call("leaderboard", *sources, "--format", "json", "--metric", metric)
    assert ended.code == 0, ended.err
    found: list[Row] = json.loads(ended.out)
    return found


def _boards(found: Whole, source: str | Path) -> dict[str, list[Row]]:
    return {metric: _board(source, metric=metric) for metric in found.metrics}


@cache
def _own_boards(root: Path, metrics: tuple[str, ...]) -> dict[str, list[Row]]:
    """By metric: the board of a whole run, which no test changes."""
    return {metric: _board(root, metric=metric) for metric in metrics}


# ---- a jury's runs -------------------------------------------------------------------------------------------------


def test_ppi_gives_the_board_again(jury: Whole, tmp_path: Path) -> None:
    path = jury.export("ppi", tmp_path / "ppi.jsonl")
    assert _boards(jury, path) == jury.boards


def test_votes_in_a_folder_and_the_labels_beside_them_give_the_board_again(jury: Whole, tmp_path: Path) -> None:
    folder = tmp_path / "votes"
    folder.mkdir()
    jury.export("votes", folder / "tonight.parquet")
    gold = jury.export("ppi", tmp_path / "ppi.jsonl")
    for metric in jury.metrics:
        assert _board(folder, "--labels", gold, metric=metric) == jury.boards[metric]


@pytest.mark.parametrize(
    "jury",
    tiered((name for name in JURIES if name.endswith("labels")), ci=CI),
    indirect=True,
)
def test_annotations_give_a_run_of_the_same_answers_the_same_board(jury: Whole, tmp_path: Path) -> None:
    path, name = jury.export("annotations", tmp_path / "annotations.jsonl"), tmp_path.name
    other = jury.text.replace('name = "lab"', f'name = "{name}"')
    paid = jury.bench.billed()
    jury.bench.finish(other)
    folder = jury.bench.run_folder(other)
    metric = jury.metrics[0]
    assert _board(folder.root, metric=metric) != jury.boards[metric]
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    own = [row for row in rows if row["annotator"] != "gold set"]  # the other run has that of its own
    path.write_text("".join(json.dumps(row) + "\n" for row in own))
    assert call("label", "import", folder.root, path).code == 0
    assert _boards(jury, folder.root) == jury.boards
    assert jury.bench.billed() == paid


# ---- every run -----------------------------------------------------------------------------------------------------


def _model_of(path: Path) -> str:
    model: str = json.loads(path.read_text().splitlines()[0])["metadata"]["layton_batch.model"]
    return model


def _sorted(boards: dict[str, list[Row]]) -> dict[str, list[Row]]:
    """Rows that are alike stand in the order of their jobs."""
    return {name: sorted(rows, key=lambda row: (row["model"], row["n_hints"])) for name, rows in boards.items()}


def test_a_jury_run_comes_back_from_every_eval_ever_lines(jury: Whole, tmp_path: Path) -> None:
    out = tmp_path / f"eee-{tmp_path.name}"
    jury.export("eee", out)
    _, part = jury.part(out.name)
    paid = jury.bench.billed()
    others = set(jury.others(part)["model"])
    files = [path for path in sorted(out.glob("data/*/*/*/*_samples.jsonl")) if _model_of(path) in others]
    ended = call("import", part.root, *(word for path in files for word in ("--eee", path)))
    assert ended.code == 0, ended.err
    assert _sorted(_boards(jury, part.root)) == _sorted(jury.boards)
    assert jury.bench.billed() == paid


@pytest.mark.parametrize("form", tiered(("parquet", "csv"), ci=("csv",)))
def test_a_jury_run_comes_back_from_its_predictions(jury: Whole, tmp_path: Path, form: str) -> None:
    """A jury's verdicts on them are questions that were paid for already."""
    out = tmp_path / f"{form}-{tmp_path.name}"
    path = jury.export(form, out) / f"predictions.{form}"
    text, part = jury.part(out.name)
    paid = jury.bench.billed()
    for row in jury.others(part).iter_rows(named=True):
        who = ("--model", row["model"], "--provider", row["provider"], "--family", row["family"])
        ended = call("import", part.root, *who, "--predictions", path)
        assert ended.code == 0, ended.err
    jury.bench.finish(text)
    assert _sorted(_boards(jury, part.root)) == _sorted(jury.boards)
    assert jury.bench.billed() == paid


# ---- marks alone ---------------------------------------------------------------------------------------------------


def test_lines_and_frames_of_marks_give_the_board_of_a_run_graded_by_rule(rule: Whole, tmp_path: Path) -> None:
    rule.export("eee", tmp_path / "eee")
    rule.export("parquet", tmp_path / "parquet")
    files = sorted((tmp_path / "eee").glob("data/*/*/*/*_samples.jsonl"))
    found = {metric: _board(*files, metric=metric) for metric in rule.metrics}
    assert _sorted(found) == _sorted(rule.boards)
    frame = pl.read_parquet(tmp_path / "parquet" / "predictions.parquet")
    for metric in rule.metrics:
        marks = frame.with_columns(score=pl.col(metric))
        least = -1.0 if metric == "idk_score" else 0.0
        told = lb.leaderboard(marks, min_score=least).frame.sort("model").with_columns(metric=pl.lit(metric))
        assert told.equals(lb.leaderboard(rule.folder.root, metric=metric).frame.sort("model"))


# ---- forms that hold a board, and nothing to make it from ----------------------------------------------------------


def test_tables_and_the_hub_s_files_have_the_jury_s_board(jury: Whole, tmp_path: Path) -> None:
    rows = jury.boards[jury.metrics[0]]
    printed = call("leaderboard", jury.folder.root, "--format", "csv").out
    assert (jury.export("csv", tmp_path / "csv") / "leaderboard.csv").read_text(encoding="utf-8") == printed
    jury.export("hf", tmp_path / "hf", "--dataset", "a/b")
    for row in rows:
        name = str(row["model"]).replace("/", "-")
        told = f"_{row['n_hints']}_hints" if len({one["n_hints"] for one in rows}) > 1 else ""
        (path,) = (tmp_path / "hf").glob(f"*{name}*/.eval_results/*{told}.yaml")
        assert f"\n  value: {row['score']:g}\n" in path.read_text(encoding="utf-8")
    path = jury.export("results", tmp_path / "results.jsonl")
    same = ("rank", "model", "score", "provider", "n_hints", "lower", "upper", "target", "level", "method", "metric")
    written = [json.loads(line) for line in path.read_text().splitlines()]
    board = jury.boards[jury.metrics[0]]
    assert [[row[name] for name in same] for row in written] == [[row[name] for name in same] for row in board]
    ranks = [(row["best_possible_rank"], row["worst_possible_rank"], row["95% CI (±)"]) for row in written]
    assert ranks == [(row["rank_best"], row["rank_worst"], row["half_width"]) for row in board]
