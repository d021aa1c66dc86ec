"""A run grows with its manifest: an edit sends what it adds, and nothing that was asked before."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from layton_batch.settings import Settings
from layton_batch.states import Lifecycle
from tests.support.lab import BUNDLED, MODELS, Lab, demo_prices, lab, manifest_text, quiz_text, with_twin

QUIZ = BUNDLED.parent / "mcq_idk" / "demo.jsonl"
ONE, TWO, THREE = ("openai",), ("openai", "anthropic"), ("openai", "anthropic", "mistral")
OPENAI = MODELS["openai"]
PAIR = quiz_text(TWO, limit=2)
NOBODY = PAIR[: PAIR.index("[[models]]")] + demo_prices()


@dataclass(frozen=True, slots=True)
class Edit:
    """What the manifest says next. ``bought``: requests that only this edit has billed."""

    text: str
    bought: int = 0
    models: tuple[str, ...] = TWO
    items: int = 2


HISTORY = {
    "no model, while batches are on their way": Edit(NOBODY, 4, ()),
    "models whose batches were on their way": Edit(PAIR),
    "another order, budget and scoring, and a copied file": Edit(
        quiz_text(("anthropic", "openai"), limit=2, top="[budget]\nmax_usd = 90\n[scoring]\nlevel = 0.9").replace(
            "bundled", "copied.jsonl"
        )
    ),
    "a model more": Edit(quiz_text(THREE, limit=2), 2, THREE),
    "models less": Edit(quiz_text(ONE, limit=2), 0, ONE),
    "models back": Edit(quiz_text(THREE, limit=2), 0, THREE),
    "items more": Edit(quiz_text(TWO, limit=4), 4, items=4),
    "other words of an item": Edit(quiz_text(TWO, limit=3).replace("bundled", "reworded.jsonl"), 2, items=3),
}


def models_on_the_board(bench: Lab, text: str) -> list[str]:
    return sorted(bench.table(text, "leaderboard")["model"])


def test_an_edit_sends_what_it_adds_and_the_board_has_what_the_manifest_says(tmp_path: Path) -> None:
    lines = QUIZ.read_text(encoding="utf-8").splitlines(keepends=True)
    reworded = [json.dumps(json.loads(lines[0]) | {"question": "Quickly now: which one?"}) + "\n", *lines[1:]]
    for name, rows in (("copied", lines), ("reworded", reworded)):
        (tmp_path / f"{name}.jsonl").write_text("".join(rows), encoding="utf-8")
    with lab(tmp_path) as bench:
        assert {batch.state for batch in bench.begin(PAIR).batches} == {Lifecycle.IN_FLIGHT}
        before = 0
        for name, edit in HISTORY.items():
            status = bench.finish_paid_once(edit.text)
            assert len(bench.billed()) - before == edit.bought, name
            before = len(bench.billed())
            wanted = sorted(MODELS[provider] for provider in edit.models)
            assert models_on_the_board(bench, edit.text) == sorted(job.model for job in status.jobs) == wanted, name
            assert bench.table(edit.text, "predictions").height == len(wanted) * edit.items, name
            assert set(bench.table(edit.text, "leaderboard")["n_items"]) <= {edit.items}, name
        assert {batch.state for batch in status.batches} == {Lifecycle.COLLECTED}
        revisions = json.loads(bench.run_folder(PAIR).manifest.read_bytes())["revisions"]
    assert [revision["number"] for revision in revisions] == list(range(1, len(revisions) + 1))
    assert any(MODELS["mistral"] in change for revision in revisions[1:] for change in revision["changes"])


def test_display_names_and_seats_ask_the_jury_what_is_new_and_nothing_else(tmp_path: Path) -> None:
    text = manifest_text(ONE, limit=2)
    renamed = text.replace(f'name = "{OPENAI}"\nprovider', 'name = "shown so"\nprovider', 1)
    more_seats = text.replace("seats = 1", "seats = 2")
    with lab(tmp_path) as bench:
        bench.finish_paid_once(text)
        before = bench.billed()
        bench.finish_paid_once(renamed)
        assert bench.billed() == before
        assert models_on_the_board(bench, renamed) == ["shown so"]
        for name in ("predictions", "verdicts"):
            assert set(bench.table(renamed, name)["model"]) == {"shown so"}
        assert set(bench.table(renamed, "cost")["model"]) == {"shown so", "tern-3-referee"}
        bench.finish_paid_once(more_seats)
        assert len(bench.billed()) - len(before) == 2
        assert bench.table(text, "verdicts").height == 4
        twice = with_twin(more_seats)
        before = bench.billed()
        bench.finish_paid_once(twice)
        assert bench.billed() == before
        assert models_on_the_board(bench, twice) == sorted([OPENAI, "twin"])
        assert set(bench.table(twice, "reused")["run"]) == {"lab"}
        assert bench.bill().reused.requests == 0  # the bill has what the run paid


def test_a_key_that_only_a_removed_model_needs_keeps_nobody_else_from_the_board(tmp_path: Path) -> None:
    one = quiz_text(ONE, limit=2)
    with lab(tmp_path) as bench:
        bench.begin(PAIR)
        every_key = bench.settings
        without = {name: value for name, value in bench.server.environment().items() if "ANTHROPIC_API_KEY" not in name}
        bench.settings = Settings.from_environment(without, tmp_path)
        status = bench.begin(one, ticks=8, seconds=300.0)
        assert models_on_the_board(bench, one) == [OPENAI]
        (waiting,) = (batch for batch in status.batches if batch.provider == "anthropic")
        assert waiting.state is Lifecycle.IN_FLIGHT
        bench.settings = every_key
        paid = bench.billed()
        bench.finish_paid_once(PAIR)
        assert bench.billed() == paid
