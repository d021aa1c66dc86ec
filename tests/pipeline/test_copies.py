"""A copy of a run that is put back, and a batch that a person adopts: no run takes what belongs to another."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.request import urlopen

import pytest

from layton_batch.errors import ManifestError
from layton_batch.providers.openai import FileBatches
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from tests.support.lab import BUNDLED, MODELS, Lab, RunState, Status, lab, named, quiz_text, several
from tests.support.tiers import tiered

ENDED = 120.0
"""Seconds in which a batch of the sandbox has long ended: only then is one without a tag told for certain."""
ITEMS = BUNDLED.parent / "mcq_idk" / "demo.jsonl"


@pytest.mark.parametrize("provider", tiered(MODELS, ci=("anthropic", "together")))
def test_a_copy_that_is_put_back_takes_no_answer_to_another_text(tmp_path: Path, provider: str) -> None:
    """Monday's workspace is put back, and one item asks something else than it asked on Tuesday."""
    text = quiz_text((provider,), limit=2).replace('"bundled"', '"items.jsonl"')
    items = [json.loads(line) for line in ITEMS.read_text(encoding="utf-8").splitlines()[:2]]

    def ask(day: str) -> Status:
        items[0]["question"] = f"On {day}: which one?"
        (tmp_path / "items.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items), encoding="utf-8")
        bench.clock.sleep(86_400.0)
        return bench.finish(text)

    with lab(tmp_path) as bench:
        ask("Monday")
        backup = bench.keep_copy()
        elsewhere = {batch.provider_id for batch in ask("Tuesday").batches}
        bench.put_back(backup)
        status = ask("Wednesday")
        if provider != "together":  # whose list names files alone
            assert status.state is RunState.NEEDS_PERSON
            (waiting,) = (batch for batch in status.batches if batch.state is Lifecycle.PLANNED)
            bench.resolve(text, waiting.id, "ignore")
            status = bench.finish(text)
        assert status.state is RunState.DONE
        bench.clock.sleep(ENDED)
        assert len(bench.billed()) == 4
        assert len({batch.provider_id for batch in status.batches} - elsewhere) == 1
        assert set(bench.table(text, "predictions")["batch_id"]) <= {batch.id for batch in status.batches}


# ---- which batch a person may adopt ----------------------------------------------------------------------------------


def batches_at_the_provider(bench: Lab) -> list[str]:
    with urlopen(f"{bench.server.url}/sandbox/batches") as reply:
        return [row["id"] for row in json.loads(reply.read())]


def adopts(bench: Lab, text: str, batch: str, provider_id: str) -> bool:
    try:
        bench.resolve(text, batch, "adopt", provider_id)
    except ManifestError:
        return False
    return True


def test_only_a_batch_that_can_be_ours_is_adopted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No list can be read: a person's word has to do, and the size of the batch."""
    text, stranger = several(2), named("another", several(1).replace("limit = 3", "limit = 2"))
    lost_reply = Fault(on="create", action="drop_after", provider="openai", after=1, times=1)
    unlisted = Fault(on="list", action="status", provider="openai", status=403, after=1, times=99)
    with lab(tmp_path, lost_reply, unlisted) as bench:
        status = bench.tick_until(
            text, lambda now: any(batch.state is Lifecycle.LOST for batch in now.batches), seconds=600.0
        )
        (lost,) = (batch.id for batch in status.batches if batch.state is Lifecycle.LOST)
        here, bench.runs = bench.runs, tmp_path / "of somebody else"
        with monkeypatch.context() as patch:
            patch.setattr(FileBatches, "find", lambda _provider, _asked: [])
            bench.begin(stranger)
        bench.clock.sleep(ENDED)
        bench.runs = here
        adopted = [name for name in batches_at_the_provider(bench) if adopts(bench, text, lost, name)]
        assert (len(batches_at_the_provider(bench)), len(adopted)) == (3, 1)
        assert bench.finish(text).unanswered == 0
