"""Copies of a run: an older one put back, two that go on, two runs of one manifest. None pays for what another has."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from urllib.request import urlopen

import pytest

from layton_batch.errors import ManifestError
from layton_batch.providers import connect
from layton_batch.providers.openai import FileBatches
from layton_batch.records import Snapshot
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from tests.support.lab import BUNDLED, MODELS, Lab, RunState, Status, advance, lab, named, quiz_text, several
from tests.support.tampering import Answer, hostile
from tests.support.tiers import tiered

ENDED = 120.0
"""Seconds in which a batch of the sandbox has long ended: only then is one without a tag told for certain."""
ITEMS = BUNDLED.parent / "mcq_idk" / "demo.jsonl"
TAGGED = [name for name in MODELS if connect(name, None).capabilities.tag]


def trouble(on: str, provider: str, status: int, times: int = 1) -> Fault:
    return Fault(on=on, action="status", status=status, provider=provider, times=times)


def begin_planned(bench: Lab, text: str) -> None:
    """Begin a run whose first batch is held up."""
    assert [batch.state for batch in bench.begin(text).batches] == [Lifecycle.PLANNED]
    bench.clock.sleep(ENDED)


@pytest.mark.parametrize("provider", tiered(TAGGED, ci=("gemini",)))
def test_an_older_copy_that_is_put_back_finds_what_was_sent_since(tmp_path: Path, provider: str) -> None:
    text = quiz_text((provider,), limit=3)
    with lab(tmp_path, trouble("upload", provider, 429)) as bench:
        begin_planned(bench, text)
        backup = bench.keep_copy()
        assert [batch.state for batch in bench.begin(text).batches] == [Lifecycle.IN_FLIGHT]
        bench.clock.sleep(ENDED)
        bench.put_back(backup)
        bench.finish_paid_once(text)


@pytest.mark.parametrize("provider", tiered(MODELS, ci=("openai", "anthropic", "together")))
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


@pytest.mark.parametrize("provider", tiered(TAGGED, ci=("mistral",)))
def test_of_two_copies_that_go_on_each_takes_what_the_other_has_sent(tmp_path: Path, provider: str) -> None:
    text = quiz_text((provider,), limit=3)
    with lab(tmp_path) as bench:
        bench.begin(text)
        copy = bench.keep_copy("elsewhere")
        bench.clock.sleep(2 * ENDED)
        bench.finish_paid_once(text)
        bench.runs = copy
        bench.finish_paid_once(text)


@pytest.mark.parametrize("provider", tiered(MODELS, ci=("groq",)))
def test_another_run_of_the_same_manifest_is_never_taken_for_ours(tmp_path: Path, provider: str) -> None:
    """Its questions are ours; its custom_ids, and where files go by their content its files, are not."""
    text = quiz_text((provider,), limit=3)
    with lab(tmp_path, trouble("create", provider, 429)) as bench:
        begin_planned(bench, text)
        here, bench.runs = bench.runs, tmp_path / "elsewhere"
        there = bench.finish(text)
        bench.clock.sleep(ENDED)
        bench.runs = here
        status = bench.finish(text)
        assert {batch.provider_id for batch in status.batches}.isdisjoint(batch.provider_id for batch in there.batches)
        assert set(bench.billed().values()) == {1}


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


@pytest.mark.parametrize("provider", tiered(MODELS, ci=("gemini",)))
def test_of_two_lost_batches_neither_is_taken_for_the_other(tmp_path: Path, provider: str) -> None:
    text = quiz_text((provider,), limit=4, top=f"[limits.{provider}]\nmax_requests = 2")
    with hostile(tmp_path) as (bench, between):
        kinds: list[str] = []

        def unlisted(_provider: str, kind: str, _path: str, answer: Answer) -> Answer:
            kinds.append(kind)
            is_lost = kind == "create" or (kind == "list" and kinds.count("create") == 2)
            return answer.of(b"{}", status=500 if kind == "create" else 403) if is_lost else answer

        between.tamper = unlisted
        with bench.open(text) as run:
            run.pacing = replace(run.pacing, longest_outage=0.0)
            assert [advance(run), advance(run)] == [True, False]  # both are sent before the first is looked for
        lost = bench.tick_until(
            text, lambda now: {batch.state for batch in now.batches} == {Lifecycle.LOST}, seconds=600.0
        ).batches
        between.tamper = lambda _provider, _kind, _path, answer: answer
        made = batches_at_the_provider(bench)
        adopted = [[name for name in made if adopts(bench, text, batch.id, name)] for batch in lost]
        assert sorted(adopted) == sorted([name] for name in made)
        bench.finish_paid_once(text)


def test_only_a_batch_that_can_be_ours_is_adopted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No list can be read: a person's word has to do, and the size of the batch."""
    text, stranger = several(2), named("another", several(1).replace("limit = 3", "limit = 2"))
    lost_reply = Fault(on="create", action="drop_after", provider="openai", after=1, times=1)
    with lab(tmp_path, lost_reply, replace(trouble("list", "openai", 403, times=99), after=1)) as bench:
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


def test_a_batch_whose_provider_lost_a_row_of_it_is_adopted_under_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = quiz_text(("openai",), limit=3)
    with lab(tmp_path, trouble("poll", "openai", 404, times=99)) as bench:
        status = bench.tick_until(text, lambda now: now.batches[0].state is Lifecycle.LOST, seconds=4 * 3600.0)
        fewer = Snapshot(str(status.batches[0].provider_id), "in_progress", Lifecycle.IN_FLIGHT, total=2)
        monkeypatch.setattr(FileBatches, "snapshot", lambda _provider, _id: fewer)
        assert adopts(bench, text, status.batches[0].id, fewer.provider_id)
        assert bench.read(text).batches[0].state is Lifecycle.IN_FLIGHT
