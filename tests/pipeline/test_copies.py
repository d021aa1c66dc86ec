"""Copies of a run: an older one put back, two that go on, two runs of one manifest. None pays for what another has."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import NoReturn

import pytest

from layton_batch.batches.cancel import cancel_run
from layton_batch.batches.reconcile import submission, surely_ours
from layton_batch.batches.resolve import adopt_batch, ignore_copy, send_again
from layton_batch.errors import ManifestError, ProviderError, StoreError, TransientProviderError
from layton_batch.pipeline import advance
from layton_batch.providers import connect
from layton_batch.providers.openai import FileBatches
from layton_batch.records import Batch, Snapshot
from layton_batch.runs.context import Run
from layton_batch.runs.folders import find_run, find_runs, misplaced_runs
from layton_batch.runs.status import RunState, Status, read_status
from layton_batch.runs.stores import open_store
from layton_batch.sandbox import Fault
from layton_batch.states import BatchOutcome, Lifecycle
from layton_batch.store.rows import RunMoney
from tests.support.cli_harness import call
from tests.support.lab import BUNDLED, MODELS, Lab, lab, quiz_text
from tests.support.tiers import tiered

ENDED = 120.0
"""Seconds in which a batch of the sandbox has long ended: only then is one without a tag told for certain."""
ITEMS = BUNDLED.parent / "mcq_idk" / "demo.jsonl"
TAGGED = [name for name in MODELS if connect(name, None).capabilities.tag]


def ticks(bench: Lab, text: str, reached: Callable[[Run], bool], seconds: float = 5.0) -> None:
    with bench.open(text) as run:
        for _ in range(200):
            advance(run)
            if reached(run):
                return
            bench.clock.sleep(seconds)
    raise AssertionError("never reached")


def first(run: Run) -> Batch:
    return run.store.batches()[0]


def is_lost(run: Run) -> bool:
    return first(run).state is Lifecycle.LOST


def in_flight(run: Run) -> bool:
    return any(batch.state is Lifecycle.IN_FLIGHT for batch in run.store.batches())


def held_up(provider: str) -> Fault:
    """The first batch is not sent at once, so that a copy can be made while it is planned."""
    return Fault(on="upload", action="status", status=429, provider=provider, times=1)


@pytest.mark.parametrize("provider", tiered(TAGGED, ci=("gemini",)))
def test_an_older_copy_that_is_put_back_finds_what_was_sent_since(tmp_path: Path, provider: str) -> None:
    text = quiz_text((provider,), limit=3)
    with lab(tmp_path, held_up(provider)) as bench:
        with bench.open(text) as run:
            advance(run)
            assert first(run).state is Lifecycle.PLANNED
        backup = tmp_path / "backup"
        shutil.copytree(bench.runs, backup)
        bench.clock.sleep(ENDED)
        ticks(bench, text, in_flight)
        bench.clock.sleep(ENDED)
        shutil.rmtree(bench.runs)
        shutil.copytree(backup, bench.runs)
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
        shutil.copytree(bench.runs, tmp_path / "backup")
        elsewhere = {batch.provider_id for batch in ask("Tuesday").batches}
        shutil.rmtree(bench.runs)
        shutil.copytree(tmp_path / "backup", bench.runs)
        status = ask("Wednesday")
        if provider != "together":  # whose list names files alone
            assert status.state is RunState.NEEDS_PERSON
            (waiting,) = (batch for batch in status.batches if batch.state is Lifecycle.PLANNED)
            with bench.open(text) as run:
                ignore_copy(run, waiting.id)
            status = bench.finish(text)
        assert status.state is RunState.DONE
        bench.clock.sleep(ENDED)
        assert len(bench.billed()) == 4
        asked = {batch.provider_id for batch in status.batches} - elsewhere
        assert len(asked) == 1
        assert set(bench.table(text, "predictions")["batch_id"]) <= {batch.id for batch in status.batches}


@pytest.mark.parametrize("provider", tiered(TAGGED, ci=("mistral",)))
def test_of_two_copies_that_go_on_each_takes_what_the_other_has_sent(tmp_path: Path, provider: str) -> None:
    text = quiz_text((provider,), limit=3)
    with lab(tmp_path) as bench:
        bench.clock.sleep(ENDED)
        ticks(bench, text, in_flight)
        shutil.copytree(bench.runs, tmp_path / "elsewhere")
        bench.clock.sleep(2 * ENDED)
        here = bench.finish(text)
        bench.runs = tmp_path / "elsewhere"
        there = bench.finish(text)
        assert (here.state, there.state) == (RunState.DONE, RunState.DONE)
        assert set(bench.billed().values()) == {1}
        assert here.spent_usd == there.spent_usd == bench.server.ledger().total_usd


@pytest.mark.parametrize("provider", tiered(MODELS, ci=("groq",)))
def test_another_run_of_the_same_manifest_is_never_taken_for_ours(tmp_path: Path, provider: str) -> None:
    """Its questions are ours; its custom_ids, and where files go by their content its files, are not."""
    text = quiz_text((provider,), limit=3)
    with lab(tmp_path, Fault(on="create", action="status", status=429, provider=provider, times=1)) as bench:
        with bench.open(text) as run:
            advance(run)
            assert first(run).state is Lifecycle.PLANNED
        bench.clock.sleep(ENDED)
        here, bench.runs = bench.runs, tmp_path / "elsewhere"
        there = bench.finish(text)
        bench.clock.sleep(ENDED)
        bench.runs = here
        status = bench.finish(text)
        assert {batch.provider_id for batch in status.batches}.isdisjoint(batch.provider_id for batch in there.batches)
        assert set(bench.billed().values()) == {1}


def unlisted(provider: str, sent: int = 1) -> Fault:
    """No list after those that were read before so many batches were sent. Mistral's ends with a page of its own, and
    Gemini has one a version."""
    read = {"mistral": 2 * sent - 1, "gemini": 2 * sent}.get(provider, sent)
    return Fault(on="list", action="status", status=403, provider=provider, after=read, times=40)


def lost_reply(provider: str, times: int = 1, after: int = 0) -> Fault:
    return Fault(on="create", action="drop_after", provider=provider, times=times, after=after)


def list_again(run: Run, batch: Batch) -> None:
    """Until the provider lists its batches again."""
    for _ in range(40):
        try:
            run.providers.get(batch.provider).find(submission(run, batch))
        except ProviderError:
            continue
        return
    raise AssertionError("never")


@pytest.mark.parametrize("provider", tiered(MODELS, ci=("gemini",)))
def test_of_two_lost_batches_neither_is_taken_for_the_other(tmp_path: Path, provider: str) -> None:
    text = quiz_text((provider,), limit=4, top=f"[limits.{provider}]\nmax_requests = 2")
    with lab(tmp_path, lost_reply(provider, times=2), unlisted(provider, sent=2)) as bench:
        with bench.open(text) as run:
            run.pacing = replace(run.pacing, longest_outage=0.0)
            assert [advance(run), advance(run)] == [True, False]  # both are sent before the first is looked for
        ticks(bench, text, lambda run: len(run.store.batches({Lifecycle.LOST})) == 2, seconds=600.0)
        with bench.open(text) as run:
            one, other = run.store.batches({Lifecycle.LOST})
            list_again(run, one)
            (marked,) = surely_ours(run, run.providers.get(provider), one)
            with pytest.raises(ManifestError, match="adopt that one"):
                adopt_batch(run, other.id, marked.provider_id)
            adopt_batch(run, one.id, marked.provider_id)
        with bench.open(text) as run:
            (marked,) = surely_ours(run, run.providers.get(provider), other)
            adopt_batch(run, other.id, marked.provider_id)
        bench.finish_paid_once(text)


@pytest.mark.nightly
def test_a_batch_paid_for_once_more_begins_anew(tmp_path: Path) -> None:
    """Lost after it had run: nothing of the old one stays with the new one, and what it may have cost goes on counting,
    once."""
    text = quiz_text(("openai",), limit=3, top="[policy]\ndeadline_hours = 2\n[budget]\nmax_usd = 5.0")
    odd = Fault(on="batch", action="unknown_status", provider="openai", times=1, name="pondering", seconds=9e5)
    stubborn = Fault(on="cancel", action="status", status=500, provider="openai", times=99)
    with lab(tmp_path, odd, stubborn) as bench:
        ticks(bench, text, is_lost, seconds=1800.0)
        with bench.open(text) as run:
            set_aside = run.store.money().reserved
            send_again(run, first(run).id)
            again = first(run)
            assert (again.provider_id, again.submitted_at, again.deadline_at) == (None, None, None)
            assert run.store.money() == RunMoney(Decimal(0), Decimal(0), set_aside)
            cancel_run(run)
            advance(run)
            assert run.store.money() == RunMoney(Decimal(0), Decimal(0), set_aside)
            assert first(run).outcome is BatchOutcome.CANCELLED


def test_one_batch_listed_twice_is_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = quiz_text(("openai",), limit=3)
    whole = FileBatches.find
    monkeypatch.setattr(FileBatches, "find", lambda self, asked: [*whole(self, asked), *whole(self, asked)])
    with lab(tmp_path, lost_reply("openai")) as bench:
        bench.finish_paid_once(text)


def test_a_provider_that_does_not_answer_is_asked_once_a_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = quiz_text(("openai",), limit=6, top="[limits.openai]\nmax_requests = 1")
    asked: list[str] = []

    def silent(_: object, provider_id: str) -> NoReturn:
        asked.append(provider_id)
        raise TransientProviderError("openai: no answer within 600 seconds")

    with lab(tmp_path) as bench, bench.open(text) as run:
        advance(run)
        assert len(run.store.batches({Lifecycle.IN_FLIGHT})) == 6
        bench.clock.sleep(ENDED)
        with monkeypatch.context() as patch:
            patch.setattr(FileBatches, "snapshot", silent)
            advance(run)
            assert len(asked) == 1
            advance(run)
            assert len(asked) == len(set(asked)) == 2


def test_results_that_a_provider_does_not_deliver_are_asked_for_once_a_tick_and_thread(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = quiz_text(("openai",), limit=10, top="[limits.openai]\nmax_requests = 1")
    asked: list[str] = []

    def silent(_: object, snapshot: Snapshot) -> NoReturn:
        asked.append(snapshot.provider_id)
        raise TransientProviderError("openai: no answer within 600 seconds")

    with lab(tmp_path) as bench:
        with bench.open(text) as run, monkeypatch.context() as patch:
            patch.setattr(FileBatches, "results", silent)
            advance(run)
            assert len(run.store.batches({Lifecycle.IN_FLIGHT})) == 10
            bench.clock.sleep(ENDED)
            advance(run)
            assert len(asked) == run.providers.dialect("openai").limits.calls_at_once == 8
            advance(run)
            assert len(asked) == len(set(asked)) == 10
        bench.finish_paid_once(text)


def test_a_copy_or_a_renamed_folder_is_named_and_stops_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = quiz_text(limit=2)
    with lab(tmp_path) as bench:
        bench.finish(text)
        root = bench.run_folder(text).root
        shutil.copytree(root, root.with_name("lab-copy"))
        assert [folder.root.name for folder in find_runs(bench.runs)] == ["lab"]
        (said,) = misplaced_runs(bench.runs)
        assert "lab-copy is a copy of the run lab, or was renamed" in said
        with (
            pytest.raises(StoreError, match="is a copy of the run lab"),
            open_store(find_run("lab-copy", bench.runs), bench.settings),
        ):
            pass
        with open_store(find_run("lab", bench.runs), bench.settings) as store:
            assert read_status(store).state is RunState.DONE
        monkeypatch.chdir(tmp_path)
        told = call("status")
        assert (told.code, "left out" in told.err, "lab-copy" in told.err) == (0, True, True)
        assert MODELS["openai"] in call("leaderboard", "lab").out
        assert call("cost", "lab").code == call("site", "lab", "--out", tmp_path / "site").code == 0
