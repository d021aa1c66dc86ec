"""What labels buy and what is labelled next: the plan of `label plan`, in the words that the app and `run` show."""

from __future__ import annotations

import json

from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.open import read_run
from layton_batch.scoring.label_plan import outlook
from layton_batch.settings import Settings
from layton_batch.site.board import label_need
from layton_batch.stages.rank import evidence
from tests.labels.app_desk import opened
from tests.labels.conftest import Copied
from tests.labels.label_desk import PLAIN, WITH_GOLD
from tests.support.cli_harness import call


def test_the_queue_and_its_gains_are_those_of_the_label_plan(copied: Copied) -> None:
    root = copied(WITH_GOLD)
    plan = json.loads(call("label", "plan", root.name, "--labels", "12", "--json").out)
    with opened(root) as app:
        queue = set(app.session.forecast.queue)
        now, enough = app.session.forecast.outlook.now, app.session.forecast.outlook.enough
    rows = {(row["item_id"], row["provider"], row["model"], row["n_hints"]) for row in plan["rows"]}
    assert len(rows & queue) == 12
    least = json.loads(call("label", "plan", root.name, "--half-width", "0", "--json").out)
    for width, name, of in ((now, "half_width_now", plan), (enough, "half_width_then", least)):
        widths = [model[name] for model in of["models"]]
        assert abs(width.mean - sum(widths) / len(widths)) < 0.02
        assert abs(width.widest - max(widths)) < 0.02


def test_as_many_labels_as_are_said_to_be_enough_are_so_by_the_plan(copied: Copied) -> None:
    root = copied(PLAIN)
    with read_run(RunFolder(root), Settings.from_process()) as run:
        ballots, labels = evidence(run, run.rules.metric)
        found = outlook(ballots, labels, run.rules, length=0)
        told = f"No answer has a person's label that counts yet; {found.enough.labels} labels would give intervals "
        told += f"for new items of ±{found.enough.mean:.1f}: layton-batch label lab"
        assert label_need(run.folder, "lab") == told
        assert found.now.widest <= 50
    plan = json.loads(call("label", "plan", root.name, "--half-width", "0", "--json").out)
    assert len(plan["rows"]) == found.enough.labels
    assert all(model["half_width_then"] <= 1.06 * model["half_width_least"] for model in plan["models"])
