"""Lists of batches in trouble: nothing is sent before one was read to its end; a person is told when none ever is."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from layton_batch.errors import ManifestError
from layton_batch.states import Lifecycle
from tests.support.lab import MODELS, Lab, RunState, quiz_text
from tests.support.tampering import Answer, Tamper, honest, hostile
from tests.support.tiers import tiered

TROUBLE: dict[str, Callable[[Answer], Answer]] = {
    **{status: lambda answer, status=status: answer.of(b'{"error": {"message": "no"}}', int(status))
       for status in ("429", "500", "403", "400", "404")},
    "503": lambda answer: answer.of(b"", 503),
    "html": lambda answer: answer.of(b"<html><body>Please sign in</body></html>"),
    "no list": lambda answer: answer.of(b'{"error": "busy"}'),
}  # fmt: skip
LISTS_IN_TROUBLE = ("429", "500", "503", "403", "html", "no list")
HOUR = 3600.0


def in_trouble(trouble: str, *kinds: str) -> Tamper:
    """Lists of batches, or calls of these kinds, get this status or this page. (Lists of files are another matter.)"""

    def tamper(_provider: str, kind: str, path: str, answer: Answer) -> Answer:
        of_batches = kind == "list" and "files" not in path.partition("?")[0]
        return TROUBLE[trouble](answer) if (kind in kinds if kinds else of_batches) else answer

    return tamper


def tick(bench: Lab, text: str, times: int = 1) -> list[str]:
    """So many ticks; every batch's state."""
    return [str(batch.state) for batch in bench.begin(text, times, 60.0).batches]


@pytest.mark.parametrize(("provider", "trouble"), tiered(MODELS, LISTS_IN_TROUBLE, ci=[("together", "html")]))
def test_an_older_copy_that_is_put_back_sends_nothing_while_the_list_is_in_trouble(
    tmp_path: Path, provider: str, trouble: str
) -> None:
    text = quiz_text((provider,))
    with hostile(tmp_path) as (bench, between):
        between.tamper = in_trouble("503")
        assert tick(bench, text) == ["planned"]
        backup = bench.keep_copy()
        between.tamper = honest
        assert tick(bench, text) == ["in_flight"]
        bench.clock.sleep(120.0)  # it ends: where there is no tag, results tell whose a batch is
        bench.put_back(backup)
        between.tamper = in_trouble(trouble)
        assert tick(bench, text, times=3) == ["planned"]
        assert bench.creates(provider) == 1
        between.tamper = honest
        bench.finish_paid_once(text)
        assert bench.creates(provider) == 1


REFUSED = [
    *tiered(MODELS, ("403",), ("list",), ci=[("openai", "403", "list")]),
    # 400 to an upload refuses the file itself
    *tiered(("together",), ("403", "404"), ("upload",), ci=[("together", "404", "upload")]),
]


@pytest.mark.parametrize(("provider", "trouble", "kind"), REFUSED)
def test_a_free_call_that_is_refused_for_hours_has_a_person_told_and_the_run_goes_on_when_it_is_mended(
    tmp_path: Path, provider: str, trouble: str, kind: str
) -> None:
    """It is the provider's trouble, and no outcome of a request."""
    text = quiz_text((provider,))
    with hostile(tmp_path) as (bench, between):
        begun = bench.clock.now()
        between.tamper = in_trouble(trouble, *([] if kind == "list" else [kind]))
        status = bench.finish(text)
        (batch,) = status.batches
        assert (status.state, bench.creates(provider), status.reserved_usd) == (RunState.NEEDS_PERSON, 0, 0)
        assert (batch.state, batch.needs_person, trouble in str(batch.reason)) == (Lifecycle.PLANNED, True, True)
        assert status.jobs[0].waiting == 3
        assert 2 * HOUR < bench.clock.now() - begun < 3 * HOUR
        assert bench.finish(text).state is RunState.NEEDS_PERSON  # at once, after one more look
        between.tamper = honest
        bench.finish_paid_once(text)


@pytest.mark.parametrize(("provider", "trouble"), tiered(MODELS, LISTS_IN_TROUBLE, ci=[("gemini", "403")]))
def test_a_lost_batch_is_not_sent_again_on_a_persons_word_while_the_list_is_in_trouble(
    tmp_path: Path, provider: str, trouble: str
) -> None:
    text = quiz_text((provider,))
    with hostile(tmp_path) as (bench, between):

        def lost_reply(name: str, kind: str, path: str, answer: Answer) -> Answer:
            if kind == "create":
                between.tamper = in_trouble("403")
            return answer.of(b"{}", status=500) if kind == "create" else answer

        between.tamper = lost_reply
        assert bench.finish(text).state is RunState.NEEDS_PERSON
        (lost,) = bench.read(text).batches
        for tamper, words in ((in_trouble(trouble), "try again later"), (honest, "paid twice")):
            between.tamper = tamper
            with pytest.raises(ManifestError, match=words):
                bench.resolve(text, lost.id, "resubmit")
        assert bench.read(text).batches[0].state is Lifecycle.LOST
        assert bench.creates(provider) == 1
