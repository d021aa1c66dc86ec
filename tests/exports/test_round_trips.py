"""Export, import: the same board, digit for digit, in every form that some door takes in again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import polars as pl
import pytest

import layton_batch as lb
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.records import JsonValue
from tests.support.cli_harness import call
from tests.support.harness_files import write_lines
from tests.support.lab import Lab, lab, manifest_text, named, rule_text
from tests.support.pages import without_pages as without_pages
from tests.support.tiers import tiered

Row = dict[str, JsonValue]
GOLD = '[gold]\nsource = "bundled"\ntrust = true'
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


@dataclass(frozen=True)
class Whole:
    """A run that is done, labels on some of its answers, and the lab it was made in."""

    bench: Lab
    text: str
    metrics: tuple[str, ...]

    @cached_property
    def folder(self) -> RunFolder:
        return self.bench.run_folder(self.text)

    @cached_property
    def boards(self) -> list[list[Row]]:
        """The run's own, a board a metric; no test changes them."""
        return self.read(self.folder.root)

    def read(self, *sources: str | Path) -> list[list[Row]]:
        """The boards of these sources."""
        boards = []
        for metric in self.metrics:
            ended = call("leaderboard", *sources, "--format", "json", "--metric", metric)
            assert ended.code == 0, ended.err
            boards.append(json.loads(ended.out))
        return boards

    def export(self, form: str, out: Path, *more: str) -> Path:
        ended = call("export", self.folder.root, "--to", form, "--out", out, *more)
        assert ended.code == 0, ended.err
        return out

    def part(self, name: str) -> tuple[str, RunFolder, pl.DataFrame]:
        """A run that differs in its models alone: it asks the last one, and takes over what that said. With the same
        labels, and a row of each model that it does not ask."""
        head, *models = self.text.split("[[models]]")
        text = named(name, head) + "[[models]]" + models[-1]
        self.bench.finish(text)
        folder, labels = self.bench.run_folder(text), self.bench.folder / "labels.jsonl"
        if labels.exists():
            assert call("label", "import", folder.root, labels).code == 0
        mine = tables.read(folder.tables, "predictions")["model"]
        said = tables.read(self.folder.tables, "predictions").unique("model", maintain_order=True)
        return text, folder, said.filter(~pl.col("model").is_in(mine.implode()))


@pytest.fixture(scope="module", params=tiered(JURIES, ci=CI))
def jury(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Whole]:
    with lab(tmp_path_factory.mktemp("jury")) as bench:
        bench.finish(JURIES[request.param])
        found = Whole(bench, JURIES[request.param], ("both_correct",))
        if request.param.endswith("labels"):
            _label(found)
        yield found


@pytest.fixture(scope="module", params=tiered(RULES, ci=("samples",)))
def rule(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Whole]:
    text = RULES[request.param]
    with lab(tmp_path_factory.mktemp("rule")) as bench:
        bench.finish(text)
        metrics = tuple(bench.table(text, "grades")["metric"].unique(maintain_order=True))[:2]
        yield Whole(bench, text, metrics)


def _label(found: Whole) -> None:
    """Two people on some of the answers, one of them on the very words."""
    said = tables.read(found.folder.tables, "predictions").filter(kind="answered")
    rows: list[Row] = []
    for number, row in enumerate(said.iter_rows(named=True)):
        about = {name: row[name] for name in ("item_id", "model", "provider", "n_hints")}
        about |= {"answer_correct": number % 3 > 0, "justification_correct": number % 2 > 0}
        if number % 2:
            rows.append({**about, "answer": row["answer"], "justification": row["justification"], "annotator": "ann"})
        if number % 5 == 0 and row["sample"] == 1:
            rows.append({**about, "annotator": "bob"})
    path = write_lines(found.bench.folder / "labels.jsonl", rows)
    assert call("label", "import", found.folder.root, path).code == 0


def _lines(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def _sorted(boards: list[list[Row]]) -> list[list[Row]]:
    """Rows that are alike stand in the order of their jobs."""
    return [sorted(rows, key=lambda row: (str(row["model"]), str(row["n_hints"]))) for rows in boards]


# ---- a jury's runs -------------------------------------------------------------------------------------------------


def test_ppi_and_votes_in_a_folder_with_their_labels_give_the_board_again(jury: Whole, tmp_path: Path) -> None:
    path = jury.export("ppi", tmp_path / "ppi.jsonl")
    assert jury.read(path) == jury.boards
    (tmp_path / "votes").mkdir()
    jury.export("votes", tmp_path / "votes" / "tonight.parquet")
    assert jury.read(tmp_path / "votes", "--labels", path) == jury.boards
    table = pl.read_parquet(jury.export("parquet", tmp_path / "parquet") / "predictions.parquet")
    labels = {
        (row["riddle_id"], row["model"], row["n_hints"]): row["human_both_correct"]
        for row in _lines(path)
        if row.get("sample") in (None, 1) and row.get("ranked") is not False
    }
    exported = table.filter(sample=1).select("item_id", "model", "n_hints", "human_both_correct").iter_rows()
    assert {(item_id, model, hints): human for item_id, model, hints, human in exported} == labels


@pytest.mark.parametrize(
    "jury", tiered((name for name in JURIES if name.endswith("labels")), ci=CI), indirect=True
)  # fmt: skip
def test_annotations_give_a_run_of_the_same_answers_the_same_board(jury: Whole, tmp_path: Path) -> None:
    path, other = jury.export("annotations", tmp_path / "annotations.jsonl"), named(tmp_path.name, jury.text)
    paid = jury.bench.billed()
    jury.bench.finish(other)
    root = jury.bench.run_folder(other).root
    assert jury.read(root) != jury.boards
    own = write_lines(path, [row for row in _lines(path) if row["annotator"] != "gold set"])  # the other run has that
    assert call("label", "import", root, own).code == 0
    assert jury.read(root) == jury.boards
    assert jury.bench.billed() == paid


# ---- every run -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", tiered(("eee", "parquet", "csv"), ci=("eee", "csv")))
def test_a_jury_run_comes_back_from_its_lines_and_tables(jury: Whole, tmp_path: Path, form: str) -> None:
    """A jury's verdicts on the answers of a table are questions that were paid for already."""
    out = jury.export(form, tmp_path / f"{form}-{tmp_path.name}")
    text, part, others = jury.part(out.name)
    paid = jury.bench.billed()
    imports: list[list[str | Path]] = []
    if form == "eee":
        about = {path: _lines(path)[0]["metadata"] for path in sorted(out.glob("data/*/*/*/*_samples.jsonl"))}
        files = [path for path, row in about.items() if row["layton_batch.model"] in set(others["model"])]  # type: ignore[index, call-overload]
        imports.append([word for path in files for word in ("--eee", path)])
    else:
        for row in others.iter_rows(named=True):
            who = ["--model", row["model"], "--family", row["family"]]
            imports.append([*who, "--predictions", out / f"predictions.{form}"])
    for words in imports:
        ended = call("import", part.root, *words)
        assert ended.code == 0, ended.err
    jury.bench.finish(text)
    assert _sorted(jury.read(part.root)) == _sorted(jury.boards)
    assert jury.bench.billed() == paid


# ---- marks alone ---------------------------------------------------------------------------------------------------


def test_lines_and_frames_of_marks_give_the_board_of_a_run_graded_by_rule(rule: Whole, tmp_path: Path) -> None:
    rule.export("eee", tmp_path / "eee")
    rule.export("parquet", tmp_path / "parquet")
    files = sorted((tmp_path / "eee").glob("data/*/*/*/*_samples.jsonl"))
    assert _sorted(rule.read(*files)) == _sorted(rule.boards)
    frame = pl.read_parquet(tmp_path / "parquet" / "predictions.parquet")
    for metric in rule.metrics:
        marks = frame.with_columns(score=pl.col(metric))
        least = -1.0 if metric == "idk_score" else 0.0
        told = lb.leaderboard(marks, min_score=least).frame.sort("model").with_columns(metric=pl.lit(metric))
        assert told.equals(lb.leaderboard(rule.folder.root, metric=metric).frame.sort("model"))


# ---- forms that hold a board, and nothing to make it from ----------------------------------------------------------


def test_tables_and_the_hub_s_files_have_the_jury_s_board(jury: Whole, tmp_path: Path) -> None:
    (rows,) = jury.boards
    printed = call("leaderboard", jury.folder.root, "--format", "csv").out
    assert (jury.export("csv", tmp_path / "csv") / "leaderboard.csv").read_text(encoding="utf-8") == printed
    jury.export("hf", tmp_path / "hf", "--dataset", "a/b")
    for row in rows:
        name = str(row["model"]).replace("/", "-")
        told = f"_{row['n_hints']}_hints" if len({one["n_hints"] for one in rows}) > 1 else ""
        (path,) = (tmp_path / "hf").glob(f"*{name}*/.eval_results/*{told}.yaml")
        assert f"\n  value: {row['score']:g}\n" in path.read_text(encoding="utf-8")
    written = _lines(jury.export("results", tmp_path / "results.jsonl"))
    same = ("rank", "model", "score", "provider", "n_hints", "lower", "upper", "target", "level", "method", "metric")
    renamed = {"best_possible_rank": "rank_best", "worst_possible_rank": "rank_worst", "95% CI (±)": "half_width"}
    names = dict(zip(same, same, strict=True)) | renamed
    assert [[row[name] for name in names] for row in written] == [[row[own] for own in names.values()] for row in rows]
