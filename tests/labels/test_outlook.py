"""What labels buy and what is labelled next: the plan of `label-plan`, in the words that the app and `run` show."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pytest

from layton_batch.files.run_folder import RunFolder
from layton_batch.reports.labels_wanted import labels_wanted
from layton_batch.runs.open import read_run
from layton_batch.scoring.label_plan import outlook
from layton_batch.settings import Settings
from layton_batch.stages.rank import evidence
from tests.cli.cli_harness import call, desk
from tests.labels.app_desk import opened
from tests.labels.conftest import Copied
from tests.labels.label_desk import GOLD_FILE, PLAIN, WITH_GOLD, asked
from tests.pipeline.lab import BUNDLED


def test_the_queue_and_its_gains_are_those_of_the_label_plan(copied: Copied) -> None:
    root = copied(WITH_GOLD)
    plan = json.loads(call("label-plan", root.name, "--labels", "12", "--json").out)
    with opened(root) as app:
        queue = set(app.desk.forecast.queue)
        now, gain = app.desk.forecast.outlook.gains[:2]
    assert gain.labels == 12
    rows = {(row["item_id"], row["provider"], row["model"], row["n_hints"]) for row in plan["rows"]}
    assert len(rows & queue) == 12
    for width, name in ((now, "half_width_now"), (gain, "half_width_then")):
        widths = [model[name] for model in plan["models"]]
        assert abs(width.mean - sum(widths) / len(widths)) < 0.02
        assert abs(width.widest - max(widths)) < 0.02


def test_as_many_labels_as_are_said_to_halve_the_intervals_do_so_by_the_plan(copied: Copied) -> None:
    root = copied(PLAIN)
    with read_run(RunFolder(root), Settings.from_process()) as run:
        ballots, labels = evidence(run, run.rules.metric)
        found = outlook(ballots, labels, run.rules, length=0)
        told = f"No answer has a person's label yet; {found.halving} labels would give intervals of about ±"
        assert str(labels_wanted(run, "lab")).startswith(told)
        assert str(labels_wanted(run, "lab")).endswith(": layton-batch annotate lab")
        assert found.gains[0].widest <= 50
    models = json.loads(call("label-plan", root.name, "--labels", "0", "--json").out)["models"]
    needed = 0
    for model in models:
        half = str(min(model["half_width_now"], 50) / 2 + 0.01)
        plan = call("label-plan", root.name, "--model", model["model"], "--half-width", half, "--json")
        needed += len(json.loads(plan.out)["rows"])
    assert abs(needed - found.halving) <= len(models)


def test_a_run_says_at_its_end_how_many_labels_would_halve_the_intervals(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch, desk(tmp_path, patch) as at:
        shutil.copy(BUNDLED / "gold_llm.jsonl", tmp_path / GOLD_FILE)
        ended = call("run", at.write(asked(WITH_GOLD + "rejudge = 0\ntrust = true\n", limit=12)))
        assert ended.code == 0, ended.err
        assert re.search(r"\d+ labels would halve the intervals for this set: layton-batch annotate lab\n", ended.err)


def test_nothing_is_said_where_every_answer_has_a_label(copied: Copied) -> None:
    root = copied(PLAIN)
    with opened(root) as app:
        for _ in range(len(app.desk.answers)):
            app.label()
            app.settle()
        assert labels_wanted(app.desk.run, "lab") is None
        assert "Every answer has a label" in app.get("/progress").text
