"""What labels buy and what is labelled next: the plan of `label plan`, in the words that the app and `run` show."""

from __future__ import annotations

import json

from tests.labels.app_desk import opened
from tests.labels.conftest import Copied
from tests.labels.label_desk import WITH_GOLD
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
