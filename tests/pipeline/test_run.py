"""A run from manifest to leaderboard, over real SDKs and HTTP on loopback."""

from __future__ import annotations

from pathlib import Path

from layton_batch.providers import BUILT_IN
from tests.support.lab import MODELS, lab, quiz_text


def test_all_seven_providers_in_one_run_give_a_leaderboard_and_the_bill_equals_the_sandboxs(tmp_path: Path) -> None:
    text = quiz_text(tuple(MODELS), limit=2)
    assert set(MODELS) < set(BUILT_IN)
    with lab(tmp_path) as bench:
        bench.finish_paid_once(text)
        rows = bench.table(text, "leaderboard").select("model", "n_items", "rank").rows()
        assert {model for model, *_ in rows} == set(MODELS.values())
        assert all(n_items == 2 and rank is not None for _, n_items, rank in rows)
        assert bench.table(text, "predictions").height == 7 * 2
        assert bench.run_folder(text).site.joinpath("site.json").exists()
