"""Results that come late, in parts, with counts that lie, or poorer than before: paid once, and every answer kept."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest

from layton_batch.sandbox import Fault
from tests.support.lab import MODELS, quiz_text
from tests.support.tampering import Answer, Tamper, hostile
from tests.support.tiers import tiered


def files(provider: str, change: Callable[[bytes], bytes]) -> Tamper:
    """The first file of each download as ``change`` leaves it, at a provider whose lines are ``{…}``."""

    def tamper(name: str, kind: str, _path: str, answer: Answer) -> Answer:
        is_file = name == provider and kind == "results" and answer.content.startswith(b'{"')
        is_file = is_file and any(word in answer.content[:200] for word in (b'"custom_id"', b'"key"'))
        return answer.of(change(answer.content), 200) if is_file else answer

    return tamper


# ---- only rows without an answer go again ---------------------------------------------------------------------------


IN_WORDS = ("Too many requests: the batch was stopped", "the file exceeds what a batch may have: 2 requests")
BY_CODE = (("rate_limit_exceeded", "it exceeds 2 requests a minute"), ("token_limit_exceeded", "more than 2 requests"))
WITH_CODES = ("openai", "groq", "doubleword")
REASONS = [
    *tiered(
        MODELS,
        [("", words) for words in IN_WORDS],
        ci=[("mistral", ("", IN_WORDS[1]))],
    ),
    *tiered(WITH_CODES, BY_CODE, ci=[("openai", BY_CODE[0])]),
]


@pytest.mark.parametrize(("provider", "reason"), REASONS)
def test_of_a_batch_that_failed_with_answers_only_the_other_rows_go_again(
    tmp_path: Path, provider: str, reason: tuple[str, str]
) -> None:
    code, sentence = reason
    stopped = Fault(on="batch", action="stop", provider=provider, share=0.5, kind=code, name=sentence, times=1)
    with hostile(tmp_path, stopped) as (bench, _):
        bench.finish_paid_once(quiz_text((provider,), limit=4))


@pytest.mark.parametrize("provider", tiered(WITH_CODES, ci=("openai",)))
def test_a_batch_that_the_provider_has_no_room_for_by_its_own_code_waits_and_is_not_split(
    tmp_path: Path, provider: str
) -> None:
    text = quiz_text((provider,), limit=4)
    name = "the batch exceeds the number of requests a minute"
    full = Fault(on="batch", action="fail", provider=provider, kind="rate_limit_exceeded", name=name, times=3)
    with hostile(tmp_path, full) as (bench, _):
        begun = bench.clock.now()
        bench.finish_paid_once(text)
        assert bench.clock.now() - begun > 300.0
        with bench.open(text) as run:
            assert not any("half" in (batch.cause or "") for batch in run.store.batches())


# ---- downloads in parts ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "counts"),
    tiered(
        MODELS,
        (True, False),
        ci=[("mistral", False)],
    ),
)
def test_answers_that_come_in_alternating_halves_are_all_kept(tmp_path: Path, provider: str, counts: bool) -> None:
    text = quiz_text((provider,), limit=4)
    ended = Fault(on="batch", action="late", provider=provider, counts=counts, times=1)
    halves = itertools.cycle([0, 1])
    with hostile(tmp_path, ended) as (bench, between):
        between.tamper = files(provider, lambda content: b"".join(content.splitlines(keepends=True)[next(halves) :: 2]))
        bench.finish_paid_once(text)
