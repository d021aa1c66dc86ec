"""Whatever is edited, and however far the run had come: over its whole history every question is paid for once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from layton_batch.pipeline import advance
from layton_batch.run.status import RunState
from tests.pipeline.lab import BUNDLED, MODELS, Lab, demo_prices, lab

RIDDLES = [orjson.loads(line) for line in (BUNDLED / "riddles_llm.jsonl").read_bytes().splitlines()[:6]]
FEW, MANY = 4, 150
POOL = ("openai", "anthropic", "together")
REFEREES = ("tern-3-referee gemini", "sirocco-referee mistral", "alderworks/Juniper-referee together")


@dataclass(frozen=True, slots=True)
class Asked:
    """What one revision of the manifest says. ``models``: provider and display name; ``items``: number and wording;
    ``ticks``: how far the run comes before the next edit; None: to its end."""

    models: tuple[tuple[str, str], ...]
    items: tuple[tuple[int, int], ...]
    limit: int
    referees: tuple[str, ...]
    seats: int
    prompt: int
    ticks: int | None


def revisions() -> st.SearchStrategy[list[Asked]]:
    names = st.sampled_from(("", "-a", "-b"))
    model = st.tuples(st.sampled_from(POOL), names)
    one = st.builds(
        Asked,
        models=st.lists(model, min_size=1, max_size=3, unique=True).map(tuple),
        items=st.lists(
            st.tuples(st.integers(0, 5), st.integers(0, 1)), min_size=1, max_size=3, unique_by=lambda x: x[0]
        ).map(tuple),
        limit=st.integers(1, 4),
        referees=st.lists(st.sampled_from(REFEREES), min_size=1, max_size=3, unique=True).map(tuple),
        seats=st.integers(1, 2),
        prompt=st.integers(0, 1),
        ticks=st.sampled_from((None, 1, 3)),
    )
    return st.lists(one, min_size=2, max_size=4).map(lambda found: [*found[:-1], replace(found[-1], ticks=None)])


def written(asked: Asked, folder: Path) -> str:
    """The manifest, and its files beside it."""
    rows = [_riddle(number, wording) for number, wording in asked.items]
    (folder / "items.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    (folder / "system.txt").write_text("Judge these answers." + " Be strict." * asked.prompt, encoding="utf-8")
    text = f'name = "lab"\ntask = "layton"\n[items]\nsource = "items.jsonl"\nlimit = {asked.limit}\n'
    for provider, suffix in asked.models:
        text += (
            f'[[models]]\nname = "{MODELS[provider]}{suffix}"\nprovider = "{provider}"\nmodel = "{MODELS[provider]}"\n'
        )
        text += "max_output_tokens = 4000\n"
    text += f'[prompts]\njudge_system = "system.txt"\n[jury]\nseats = {asked.seats}\n'
    for name, provider in (referee.split() for referee in (*asked.referees, "larch-2-referee openai")):
        text += (
            f'[[jury.judges]]\nname = "{name}"\nprovider = "{provider}"\nmodel = "{name}"\nmax_output_tokens = 2000\n'
        )
    return text + demo_prices()


def _riddle(number: int, wording: int) -> dict[str, object]:
    row = dict(RIDDLES[number])
    return row | {"description": "Think. " * wording + str(row["description"])}


def play(history: Sequence[Asked]) -> None:
    with TemporaryDirectory() as name, lab(Path(name)) as bench:
        for asked in history:
            text = written(asked, bench.folder)
            if asked.ticks is None:
                status = bench.finish(text)
                assert (status.state, status.unanswered) == (RunState.DONE, 0)
                _check(bench, text, asked)
            else:
                with bench.open(text) as run:
                    for _ in range(asked.ticks):
                        advance(run)
                        bench.clock.sleep(30.0)
        bench.clock.sleep(3600.0)
        status = bench.finish(text)
        assert status.spent_usd == bench.server.ledger().total_usd
        _nothing_twice(bench, text)


def _check(bench: Lab, text: str, asked: Asked) -> None:
    """The tables have what this revision asks, and nothing else."""
    items = {str(RIDDLES[number]["id"]) for number, _ in asked.items[: asked.limit]}
    models = {f"{MODELS[provider]}{suffix}" for provider, suffix in asked.models}
    said = bench.table(text, "predictions")
    assert sorted(said.select("model", "item_id").rows()) == sorted((model, item) for model in models for item in items)
    assert set(bench.table(text, "leaderboard")["model"]) == models


def _nothing_twice(bench: Lab, text: str) -> None:
    """What providers billed, by what they were asked: the lines of our batch files without their names."""
    lines = {}
    for path in sorted((bench.run_folder(text).root / "requests").glob("*/*.jsonl")):
        for line in path.read_bytes().splitlines():
            told = orjson.loads(line)
            name = str(told.get("custom_id") or told["key"])
            lines.setdefault(name, line.replace(name.encode(), b""))
    billed = bench.billed()
    assert set(billed.values()) <= {1}
    asked = [(row.provider, row.model, lines[row.custom_id]) for row in bench.server.ledger().rows]
    assert len(set(asked)) == len(asked)


@settings(
    max_examples=FEW,
    deadline=None,
    derandomize=True,
    phases=[Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(revisions())
def test_over_random_edits_no_question_is_paid_for_twice(history: list[Asked]) -> None:
    play(history)


@pytest.mark.nightly
@settings(max_examples=MANY, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate])
@given(revisions())
def test_over_many_random_edits_no_question_is_paid_for_twice(history: list[Asked]) -> None:
    play(history)
