"""Results that come late, in parts, with counts that lie, or poorer than before: paid once, and every answer kept."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from layton_batch.pipeline import advance
from layton_batch.runs.status import RunState
from layton_batch.sandbox import Fault
from layton_batch.states import Lifecycle
from layton_batch.store.reopening import retry
from tests.pipeline.test_outages import first, ticks
from tests.support.asked import ends_by_batch
from tests.support.lab import MODELS, quiz_text
from tests.support.tampering import Answer, Tamper, hostile
from tests.support.tiers import tiered

PAGE = b"<html>\n<body>502 Bad Gateway</body>\n</html>\n"


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


# ---- the first reading ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("provider", "action"),
    tiered(
        MODELS,
        ("late", "expire", "cancel", "stop"),
        ci=[("gemini", "cancel")],
    ),
)
def test_files_and_counts_that_are_shown_after_the_end_are_waited_for(
    tmp_path: Path, provider: str, action: str
) -> None:
    late = Fault(on="batch", action=action, provider=provider, share=0.8, late=100.0, name="no reason", times=1)
    text = quiz_text((provider,), limit=4)
    with hostile(tmp_path, late) as (bench, _):
        if action == "cancel":  # not by this run: a person has the rest asked again
            assert bench.finish(text).state is RunState.NEEDS_PERSON
            with bench.open(text) as run:
                assert retry(run.store, run.clock.now())
        bench.finish_paid_once(text)


@pytest.mark.parametrize(
    ("provider", "action", "late"),
    tiered(
        MODELS,
        ("late", "expire"),
        (0.0, 100.0),  # seconds until the files are named
        ci=[("anthropic", "expire", 0.0)],
    ),
)
def test_a_file_that_grows_while_nothing_is_counted_is_read_to_its_end(
    tmp_path: Path, provider: str, action: str, late: float
) -> None:
    ended = Fault("batch", action, provider, share=1.0, counts=False, name="no reason", late=late, times=1)
    shares = iter([0.3, 0.3, 0.3, 0.3, 0.3, 0.5, 0.5, 0.5, 0.5, 0.5, 0.8])
    with hostile(tmp_path, ended) as (bench, between):
        between.tamper = files(provider, lambda content: _head(content, next(shares, 1.0)))
        bench.finish_paid_once(quiz_text((provider,), limit=4))


COUNTS = ((2, 0, 4), (2, 1, 4), (0, 0, 0), (4, 4, 4))
"""Succeeded, failed and all requests of a batch of four, as the provider counts them."""


def _head(content: bytes, share: float) -> bytes:
    lines = content.splitlines(keepends=True)
    return b"".join(lines[: int(len(lines) * share)])


@pytest.mark.parametrize(
    ("provider", "counts"),
    tiered(
        ("openai", "groq", "doubleword", "mistral"),
        COUNTS,
        ci=[("mistral", COUNTS[1])],
    ),
    ids=str,
)
def test_counts_that_do_not_add_up_to_our_requests_are_not_believed_at_first(
    tmp_path: Path, provider: str, counts: tuple[int, int, int]
) -> None:
    text = quiz_text((provider,), limit=4)
    with hostile(tmp_path) as (bench, between):

        def tamper(name: str, kind: str, path: str, answer: Answer) -> Answer:
            if name != provider or bench.clock.now() > until:
                return answer
            if kind == "poll" and answer.content.startswith(b"{"):
                return answer.of(_counted(answer.content, counts))
            return files(provider, lambda content: _head(content, 0.5))(name, kind, path, answer)

        until = bench.clock.now() + 150.0
        between.tamper = tamper
        bench.finish_paid_once(text)


def _counted(content: bytes, counts: tuple[int, int, int]) -> bytes:
    batch = json.loads(content)
    succeeded, failed, total = counts
    if "request_counts" in batch:
        batch["request_counts"] = {"completed": succeeded, "failed": failed, "total": total}
    else:
        batch |= {"succeeded_requests": succeeded, "failed_requests": failed, "total_requests": total}
    return json.dumps(batch).encode()


# ---- poorer downloads -----------------------------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("provider", "poorer"),
    tiered(MODELS, (PAGE, b""), ci=[("openai", PAGE)]),
    ids=lambda value: value if isinstance(value, str) else "html" if value else "empty",
)
def test_a_poorer_download_takes_nothing_from_a_better_one(tmp_path: Path, provider: str, poorer: bytes) -> None:
    text = quiz_text((provider,), limit=4)
    first_download = iter([0.8])

    def once(content: bytes) -> bytes:
        share = next(first_download, None)
        return poorer if share is None else _head(content, share)

    with hostile(tmp_path) as (bench, between):
        between.tamper = files(provider, once)
        ticks(bench, text, lambda run: first(run).state is Lifecycle.ENDED and first(run).failures > 8, 900.0)
        bench.clock.sleep(150 * 86_400.0)  # until nothing more is waited for
        with bench.open(text) as run:
            for _ in range(60):
                bench.clock.sleep(1800.0)
                advance(run)
                if first(run).state is Lifecycle.COLLECTED:
                    break
            kept = ends_by_batch(run.store)[first(run).id]
            raw = list(run.folder.batch(first(run).id).root.glob("*.jsonl.zst"))
        assert sum(count for (outcome, _), count in kept.items() if outcome == "succeeded") == 3
        assert max(bench.billed().values()) == 1
        assert len(raw) <= 2


# ---- floods ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("provider", tiered(("openai", "gemini"), ci=("gemini",)))
def test_five_thousand_odd_rows_are_a_few_events(tmp_path: Path, provider: str) -> None:
    text = quiz_text((provider,), limit=4)
    name = "key" if provider == "gemini" else "custom_id"
    odd = b"".join(
        b'{"%s": "nobody-%d", "response": {}, "error": {"code": 500}}\nwhat is this %d\n' % (name.encode(), n, n)
        for n in range(2500)
    )
    with hostile(tmp_path) as (bench, between):
        between.tamper = files(provider, lambda content: content + odd)
        with bench.open(text) as run:
            advance(run)
            bench.clock.sleep(70.0)
            for _ in range(3):
                advance(run)
            assert first(run).state is Lifecycle.COLLECTED
            told = [event for event in run.store.events() if event.batch_id == first(run).id]
        kinds = Counter(event.kind for event in told)
        assert (kinds["unknown_custom_id"], kinds["unreadable_line"]) == (1, 1)
        detail = next(event.detail for event in told if event.kind == "unknown_custom_id")
        assert detail.startswith("2500 times: a result names 'nobody-0'")
        assert detail.endswith("and 2497 more")
