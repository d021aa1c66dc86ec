"""The rank stage: marks of a rule, and a run's verdicts beside a gold set's labels."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

from layton_batch.files.run_folder import RunFolder
from layton_batch.files.tables import frame, read, read_part, write
from layton_batch.records import Job, ModelSpec
from layton_batch.scoring.leaderboard import FLAGS, ScoringRules
from layton_batch.stages import rank
from layton_batch.states import Role


class FinishedJobs:
    def answering_batches(self) -> list[tuple[str, str, str]]:
        return [(f"predict-{name}", "run", f"batch-{name}") for name in ("a", "b")]

    def jobs(self) -> list[Job]:
        return [
            Job(f"predict-{name}", Role.PREDICT, ModelSpec(name, "p", name, "f"), planned=True, graded=True)
            for name in ("a", "b")
        ]


def ranked_by_rule(tmp_path: Path) -> Any:
    """A run of two models whose marks are on disk."""
    folder = RunFolder(tmp_path / "run")
    for name, marks in (("a", (0.0, 0.5, 0.0)), ("b", (1.0, 1.0, 0.0))):
        kinds = ("answered", "abstained", "unparsed")
        ids = ("i1", "i2", "i3")
        scores = [
            {"item_id": item, "model": name, "metric": metric, "vote": mark}
            for metric in ("acc", "other")
            for item, mark in zip(ids, marks, strict=True)
        ]
        said = [{"item_id": item, "model": name, "kind": kind} for item, kind in zip(ids, kinds, strict=True)]
        write(folder.part("scores", f"predict-{name}"), frame("scores", scores))
        write(folder.part("predictions", f"predict-{name}"), frame("predictions", said))
    return SimpleNamespace(
        engine=SimpleNamespace(apart=lambda _about, work: work()),
        store=FinishedJobs(),
        folder=folder,
        task=SimpleNamespace(uses_jury=False, metrics=("acc", "other")),
        manifest=SimpleNamespace(hints_of=lambda _spec: 0, gold=None, panel=tuple),
        rules=ScoringRules(metric="acc"),
    )


def served(run: Any, name: str, *models: str | None) -> None:
    rows = [{"custom_id": str(number), "served_model": model} for number, model in enumerate(models)]
    write(run.folder.batch(f"batch-{name}").answers / "00001.parquet", frame("responses", rows))


def test_a_row_of_whom_another_model_answered_says_so_and_the_board_is_made_again(tmp_path: Path) -> None:
    run = ranked_by_rule(tmp_path)
    served(run, "a", "a", None, "a-2026-01-31")
    assert rank.rank(run)
    assert read(run.folder.tables, "leaderboard")["flags"].to_list() == ["", ""]
    served(run, "b", "b", "b-mini")
    scores = run.folder.part("scores", "predict-b")
    write(scores, read_part(scores), "made from the other answers")
    assert rank.rank(run)
    assert not rank.rank(run)
    flags = dict(read(run.folder.tables, "leaderboard").select("model", "flags").iter_rows())
    assert flags == {"a": "", "b": "served_another_model"}
    assert "served_another_model" in FLAGS


class JudgedJobs(FinishedJobs):
    def jobs(self) -> list[Job]:
        judges = [
            Job(f"judge-{name}", Role.JUDGE, ModelSpec(f"judge-{name}", "j", "j", "j"), f"predict-{name}", graded=True)
            for name in ("a", "b")
        ]
        return [*super().jobs(), *judges]


def test_a_board_says_that_another_model_judged_in_the_place_of_a_judge(tmp_path: Path) -> None:
    run = ranked_by_rule(tmp_path)
    run.store = JudgedJobs()
    run.store.answering_batches = lambda: [(f"judge-{name}", "run", f"batch-judge-{name}") for name in ("a", "b")]
    assert not rank.has_judges_of_another_model(run)
    served(run, "judge-a", "j-2026-01-31")
    assert not rank.has_judges_of_another_model(run)
    served(run, "judge-b", "j-mini")
    assert rank.has_judges_of_another_model(run)
    assert "judge_served_another_model" in FLAGS
