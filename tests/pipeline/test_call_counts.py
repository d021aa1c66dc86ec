"""Calls to providers cost what is open, not what ever was."""

from __future__ import annotations

from pathlib import Path

from layton_batch.loop import drive
from tests.support.lab import demo_prices, lab


def manifest(models: int) -> str:
    text = 'name = "lab"\ntask = "mcq_idk"\n[items]\nsource = "bundled"\nsplit = "demo"\nlimit = 1\n'
    for number in range(models):
        text += f'[[models]]\nname = "m{number}"\nprovider = "anthropic"\nmodel = "wagtail-5"\n'
        text += f"max_output_tokens = {4000 + number}\n"
    return text + demo_prices()


def test_one_model_more_costs_as_many_calls_whatever_has_ended_at_the_provider(tmp_path: Path) -> None:
    counts: list[dict[str, int]] = []
    with lab(tmp_path) as bench:
        for models in range(1, 3):
            bench.finish(manifest(models))
            counts.append(dict(bench.server.request_counts()["anthropic"]))
            bench.clock.sleep(3600.0)
        bench.finish(manifest(1).replace('"lab"', '"another"').replace("4000", "5000"))  # another run of the workspace
        counts.append(dict(bench.server.request_counts()["anthropic"]))
    added = [
        {kind: after[kind] - before.get(kind, 0) for kind in after}
        for before, after in zip([{}, *counts], counts, strict=False)
    ]
    assert added == [added[0]] * 3
    assert added[0]["list"] == added[0]["create"] == added[0]["results"] == 1


def test_models_that_are_sent_together_need_one_list(tmp_path: Path) -> None:
    with lab(tmp_path) as bench, bench.open(manifest(5)) as run:
        drive(run, once=True, stop_at=None)
        counts = bench.server.request_counts()["anthropic"]
        assert (counts["create"], counts["list"]) == (5, 1)
