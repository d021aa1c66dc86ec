"""Lists of batches in trouble: nothing is sent before one was read to its end; a person is told when none ever is."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from layton_batch.batches.resolve import send_again
from layton_batch.errors import ManifestError
from layton_batch.pipeline import advance
from layton_batch.records import Batch
from layton_batch.runs.context import Run
from layton_batch.runs.status import RunState
from layton_batch.states import Lifecycle
from tests.hostile.test_creates import made_at
from tests.support.lab import MODELS, Lab, quiz_text
from tests.support.tampering import Answer, Tamper, hostile
from tests.support.tiers import tiered

FILE_LISTERS = ("openai", "mistral", "groq", "doubleword")
"""Providers whose files are listed before one is uploaded."""
TROUBLE = {
    "429": lambda answer: answer.of(b'{"error": {"message": "slow down"}}', status=429),
    "500": lambda answer: answer.of(b'{"error": {"message": "internal"}}', status=500),
    "503": lambda answer: answer.of(b"", status=503),
    "403": lambda answer: answer.of(b'{"error": {"message": "not allowed"}}', status=403),
    "html": lambda answer: answer.of(b"<html><body>Please sign in</body></html>"),
    "no list": lambda answer: answer.of(b'{"error": "busy"}'),
}
HOUR = 3600.0


def in_trouble(provider: str, trouble: str) -> Tamper:
    """Lists of batches only: those of files are asked for before anything is uploaded, and are another matter."""

    def tamper(asked: str, kind: str, path: str, answer: Answer) -> Answer:
        if asked == provider and kind == "list" and "files" not in path.partition("?")[0]:
            return TROUBLE[trouble](answer)
        return answer

    return tamper


def files_in_trouble(provider: str, trouble: str) -> Tamper:
    """Lists of files, or uploads where the provider lists none, get this status or this page."""
    kind_in_trouble = "list_files" if provider in FILE_LISTERS else "upload"

    def tamper(asked: str, kind: str, _path: str, answer: Answer) -> Answer:
        if asked != provider or kind != kind_in_trouble:
            return answer
        if trouble.isdigit():
            return answer.of(b'{"error": {"message": "no such page"}}', status=int(trouble))
        return TROUBLE[trouble](answer)

    return tamper


def honest(_provider: str, _kind: str, _path: str, answer: Answer) -> Answer:
    return answer


def tick(bench: Lab, text: str, times: int = 1, seconds: float = 5.0) -> list[str]:
    """So many ticks; every batch's state."""
    with bench.open(text) as run:
        for _ in range(times):
            advance(run)
            bench.clock.sleep(seconds)
        return [str(batch.state) for batch in run.store.batches()]


@pytest.mark.parametrize(
    ("provider", "trouble"),
    tiered(
        MODELS,
        TROUBLE,
        ci=[("together", "html")],
    ),
)
def test_an_older_copy_that_is_put_back_sends_nothing_while_the_list_is_in_trouble(
    tmp_path: Path, provider: str, trouble: str
) -> None:
    text = quiz_text((provider,), limit=3)
    with hostile(tmp_path) as (bench, between):
        between.tamper = in_trouble(provider, "503")
        assert tick(bench, text) == ["planned"]
        root, backup = bench.runs, tmp_path / "backup"
        shutil.copytree(root, backup)
        between.tamper = honest
        bench.clock.sleep(60.0)
        assert tick(bench, text) == ["in_flight"]
        bench.clock.sleep(120.0)  # it ends: where there is no tag, results tell whose a batch is
        shutil.rmtree(root)
        shutil.copytree(backup, root)
        between.tamper = in_trouble(provider, trouble)
        assert tick(bench, text, times=3, seconds=60.0) == ["planned"]
        assert made_at(bench, provider) == 1
        between.tamper = honest
        status = bench.finish(text)
        assert (status.state, status.unanswered, made_at(bench, provider)) == (RunState.DONE, 0, 1)
        assert set(bench.billed().values()) == {1}
        assert status.spent_usd == bench.server.ledger().total_usd


@pytest.mark.parametrize("provider", tiered(MODELS, ci=("openai",)))
def test_a_list_that_is_refused_for_hours_has_a_person_told_and_goes_on_when_it_is_mended(
    tmp_path: Path, provider: str
) -> None:
    text = quiz_text((provider,), limit=3)
    with hostile(tmp_path) as (bench, between):
        begun = bench.clock.now()
        between.tamper = in_trouble(provider, "403")
        status = bench.finish(text)
        assert (status.state, made_at(bench, provider), status.reserved_usd) == (RunState.NEEDS_PERSON, 0, 0)
        assert status.batches[0].needs_person
        assert "403" in str(status.batches[0].reason)
        assert 2 * HOUR < bench.clock.now() - begun < 3 * HOUR
        assert bench.finish(text).state is RunState.NEEDS_PERSON  # at once, after one more look
        between.tamper = honest
        bench.finish_paid_once(text)


@pytest.mark.parametrize(
    ("provider", "trouble"),
    [
        *tiered(FILE_LISTERS, ("400", "403", "404"), ci=[("openai", "400")]),
        *tiered(("together",), ("403", "404"), ci=[("together", "404")]),  # 400 to an upload refuses the file itself
    ],
)
def test_a_free_look_up_that_is_refused_is_the_providers_trouble_and_no_outcome_of_a_request(
    tmp_path: Path, provider: str, trouble: str
) -> None:
    text = quiz_text((provider,), limit=3)
    with hostile(tmp_path) as (bench, between):
        begun = bench.clock.now()
        between.tamper = files_in_trouble(provider, trouble)
        status = bench.finish(text)
        assert (status.state, made_at(bench, provider), status.reserved_usd) == (RunState.NEEDS_PERSON, 0, 0)
        assert (status.batches[0].state, status.batches[0].needs_person) == (Lifecycle.PLANNED, True)
        assert f"not sent: {provider}" in str(status.batches[0].reason)
        assert trouble in str(status.batches[0].reason)
        assert status.jobs[0].waiting == 3
        assert 2 * HOUR < bench.clock.now() - begun < 3 * HOUR
        between.tamper = honest
        bench.finish_paid_once(text)


@pytest.mark.parametrize(
    ("provider", "trouble"),
    tiered(MODELS, TROUBLE, ci=[("gemini", "403")]),
)
def test_a_lost_batch_is_not_sent_again_on_a_persons_word_while_the_list_is_in_trouble(
    tmp_path: Path, provider: str, trouble: str
) -> None:
    text = quiz_text((provider,), limit=3)
    with hostile(tmp_path) as (bench, between):

        def lost_reply(asked: str, kind: str, path: str, answer: Answer) -> Answer:
            if asked == provider and kind == "create":
                between.tamper = in_trouble(provider, "403")
                return answer.of(b"{}", status=500)
            return answer

        between.tamper = lost_reply
        assert bench.finish(text).state is RunState.NEEDS_PERSON
        with bench.open(text) as run:
            lost = first(run)
            between.tamper = in_trouble(provider, trouble)
            with pytest.raises(ManifestError, match="try again later"):
                send_again(run, lost.id)
            assert first(run).state is Lifecycle.LOST
            between.tamper = honest
            with pytest.raises(ManifestError, match="paid twice"):
                send_again(run, lost.id)
        assert made_at(bench, provider) == 1


def first(run: Run) -> Batch:
    return run.store.batches()[0]
