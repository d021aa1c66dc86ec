"""Whatever is edited, and however far the run had come: over its whole history every question is paid for once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import polars as pl
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from layton_batch.sandbox import Fault
from tests.support.lab import BUNDLED, MODELS, Lab, RunState, advance, demo_prices, lab

RIDDLES = [orjson.loads(line) for line in (BUNDLED / "riddles_llm.jsonl").read_bytes().splitlines()[:6]]
HISTORIES = 150
POOL = ("openai", "anthropic", "together")
REFEREES = ("tern-3-referee gemini", "sirocco-referee mistral", "alderworks/Juniper-referee together")


@dataclass(frozen=True, slots=True)
class Asked:
    """What one revision of the manifest says. ``models``: provider, display name and samples; ``items``: number and
    wording; ``reask``: how often an unusable reply is asked for again; ``ticks``: how far the run comes before the next
    edit; None: to its end, and a person's `retry` where questions have no answer."""

    models: tuple[tuple[str, str, int], ...]
    items: tuple[tuple[int, int], ...]
    limit: int
    referees: tuple[str, ...]
    seats: int
    prompt: int
    hints: int
    reask: int
    ticks: int | None


def revisions() -> st.SearchStrategy[list[Asked]]:
    names = st.sampled_from(("", "-a", "-b"))
    model = st.tuples(st.sampled_from(POOL), names, st.sampled_from((1, 1, 2)))
    one = st.builds(
        Asked,
        models=st.lists(model, min_size=1, max_size=3, unique_by=lambda x: x[:2]).map(tuple),
        items=st.lists(
            st.tuples(st.integers(0, 5), st.integers(0, 1)), min_size=1, max_size=3, unique_by=lambda x: x[0]
        ).map(tuple),
        limit=st.integers(1, 4),
        referees=st.lists(st.sampled_from(REFEREES), min_size=1, max_size=3, unique=True).map(tuple),
        seats=st.integers(1, 2),
        prompt=st.integers(0, 1),
        hints=st.sampled_from((0, 0, 2)),
        reask=st.integers(0, 1),
        ticks=st.sampled_from((None, 1, 3)),
    )
    return st.lists(one, min_size=2, max_size=4).map(lambda found: [*found[:-1], replace(found[-1], ticks=None)])


def written(asked: Asked, folder: Path) -> str:
    """The manifest, and its files beside it."""
    rows = [_riddle(number, wording) for number, wording in asked.items]
    (folder / "items.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    (folder / "system.txt").write_text("Judge these answers." + " Be strict." * asked.prompt, encoding="utf-8")
    text = f'name = "lab"\ntask = "layton"\n[items]\nsource = "items.jsonl"\nlimit = {asked.limit}\n'
    text += f"hints = {asked.hints}\n[policy]\nreask_unparsed = {asked.reask}\n"
    for provider, suffix, samples in asked.models:
        text += (
            f'[[models]]\nname = "{MODELS[provider]}{suffix}"\nprovider = "{provider}"\nmodel = "{MODELS[provider]}"\n'
        )
        text += f"max_output_tokens = 4000\nsamples = {samples}\n"
    text += f'[prompts]\njudge_system = "system.txt"\n[jury]\nseats = {asked.seats}\n'
    for name, provider in (referee.split() for referee in (*asked.referees, "larch-2-referee openai")):
        text += (
            f'[[jury.judges]]\nname = "{name}"\nprovider = "{provider}"\nmodel = "{name}"\nmax_output_tokens = 2000\n'
        )
    return text + demo_prices()


def _riddle(number: int, wording: int) -> dict[str, object]:
    row = dict(RIDDLES[number])
    return row | {"description": "Think. " * wording + str(row["description"])}


def play(history: Sequence[Asked], faults: Sequence[Fault]) -> None:
    with TemporaryDirectory() as name, lab(Path(name), *faults) as bench:
        for asked in history:
            text = written(asked, bench.folder)
            if asked.ticks is None:
                status = bench.finish(text)
                for _ in faults:  # what was refused goes again at a person's word; each fault may refuse it once more
                    if status.unanswered:
                        bench.retry()
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
        _each_once(bench, text, sum(fault.action == "malformed_text" for fault in faults))


def _check(bench: Lab, text: str, asked: Asked) -> None:
    """The tables have what this revision asks, and nothing else."""
    items = {str(RIDDLES[number]["id"]) for number, _ in asked.items[: asked.limit]}
    models = {f"{MODELS[provider]}{suffix}": samples for provider, suffix, samples in asked.models}
    said = bench.table(text, "predictions")
    wanted = [
        (model, item, sample + 1) for model, samples in models.items() for item in items for sample in range(samples)
    ]
    assert sorted(said.select("model", "item_id", "sample").rows()) == sorted(wanted)
    assert set(said["n_hints"]) == {asked.hints}
    assert set(bench.table(text, "leaderboard")["model"]) == set(models)


def _each_once(bench: Lab, text: str, unusable: int) -> None:
    """What providers billed, by the fingerprint of what they were asked: each once, to the row and the cent, but for
    replies of no use that the manifest has asked for again, each once more."""
    bench.billed()
    requests = dict(bench.requests(text).select("custom_id", "fingerprint").iter_rows())
    rows = bench.server.ledger().rows
    bills = Counter(requests[row.custom_id] for row in rows)
    assert sum(bills.values()) - len(bills) <= unusable
    charged = bench.table(text, "usage").select("custom_id", "cost_usd").rows()
    assert sorted((name, Decimal(usd)) for name, usd in charged) == sorted((row.custom_id, row.usd) for row in rows)
    answered = bench.table(text, "responses").filter(pl.col("outcome") == "succeeded")["custom_id"]
    assert set(bills) == {requests[name] for name in answered}


FAULTS = st.lists(
    st.builds(
        Fault,
        on=st.just("row"),
        action=st.sampled_from(("error", "malformed_text")),
        status=st.just(400),
        provider=st.sampled_from(POOL),
        after=st.integers(0, 3),
        times=st.just(1),
    ),
    max_size=2,
)


@pytest.mark.nightly
@settings(max_examples=HISTORIES, deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.generate])
@given(revisions(), FAULTS)
def test_over_random_edits_no_question_is_paid_for_twice(history: list[Asked], faults: list[Fault]) -> None:
    play(history, faults)
