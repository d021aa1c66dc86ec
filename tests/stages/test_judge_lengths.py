"""What `plan` says of judges' requests is never below what they become, whatever the participant writes."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layton_batch.batches.batch_file import files_needed
from layton_batch.costs.estimate import text_bytes
from layton_batch.providers import connect
from layton_batch.providers.protocol import Limits
from layton_batch.providers.wire_json import request_line
from layton_batch.records import Item, ModelSpec, Prediction, Request
from layton_batch.stages.costs import JudgeRequests, allowance
from layton_batch.states import PredictionKind
from layton_batch.tasks.layton import LaytonSettings, LaytonTask
from layton_batch.tasks.protocol import Candidate, TaskOptions
from layton_batch.tasks.qa import QaTask
from layton_batch.text import without_surrogates
from tests.support.batch_files import files_of
from tests.support.lab import MODELS
from tests.support.tiers import FAMILIES, tiered
from tests.support.token_bounds import estimate_tokens

ITEM = Item(
    "r1", "llm", "logic", 'A "riddle"\n~~~~ \u200b\U0001f9e9 é?', hints=("one", None), answer="7", solution="sept"
)
NAME = "r00000000-00000000-000001"
HOSTILE = st.text(
    st.one_of(
        st.sampled_from('"\\\n\r\t\x00\x1f\x7f\x85\u200b\u2028\u202e\ufeff\ud800\udfff\U000110bd\U0001f600é漢{}~'),
        st.characters(exclude_categories=()),
    ),
    min_size=1,
    max_size=200,
)


@pytest.mark.parametrize(
    ("item_bytes", "limit", "longest", "bytes_allowed"),
    [
        (500, 32_000, None, 16_000),
        (9_000, 32_000, None, 36_000),
        (9_000, 2_000, None, 8_000),  # no answer is longer than its limit
        (9_000, 32_000, 600, 4_800),
        (9_000, 32_000, 0, 2_000),
        (500, 32_000, 30_000, 128_000),
    ],
)
def test_an_answer_may_be_as_long_as_earlier_ones_and_its_item_let_expect(
    item_bytes: int, limit: int, longest: int | None, bytes_allowed: int
) -> None:
    assert allowance(item_bytes, limit, longest) == bytes_allowed


def judge(provider: str) -> ModelSpec:
    return ModelSpec("judge", provider, "some-model", "family", max_output_tokens=2000)


def jury_task(folder: Path, *, is_fenced: bool) -> LaytonTask:
    """Return a task whose judges read the submission in a fence, or as it is, by a manifest's own template."""
    if is_fenced:
        return LaytonTask(TaskOptions("llm"))
    template = folder / "judge_submission.txt"
    template.write_text("{submitted_answer}: {submitted_justification}.", encoding="utf-8")
    return LaytonTask(TaskOptions("llm", prompts={"judge_submission": template}), LaytonSettings(fence=False))


@pytest.mark.parametrize("is_fenced", [True, False])
@pytest.mark.parametrize("provider", tiered(MODELS, ci=FAMILIES))
@given(text=HOSTILE)
def test_no_submission_makes_a_longer_line_or_more_tokens_than_the_arithmetic_says(
    provider: str, is_fenced: bool, text: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        task, spec, dialect = jury_task(Path(folder), is_fenced=is_fenced), judge(provider), connect(provider, None)
    (measured,) = JudgeRequests(task, [ITEM]).about(spec, dialect, NAME)
    predictions = (Prediction("r1", "m", PredictionKind.ANSWERED, "x", said) for said in ("x", text))
    one, prompt = (task.judge_prompt(Candidate(ITEM, prediction)) for prediction in predictions)
    written = 1 + text_bytes(prompt) - text_bytes(one)
    assert len(request_line(dialect, Request(NAME, "r1", spec, prompt))) <= measured.longest_line(written)
    assert estimate_tokens(prompt, spec) == measured.most_tokens(written)
    assert is_fenced or written == len(without_surrogates(text).encode())


def test_a_template_that_shows_the_submission_twice_counts_it_twice_and_without_a_justification_the_answer_counts(
    tmp_path: Path,
) -> None:
    template = tmp_path / "judge_submission.txt"
    template.write_text("{{ submission }} and again {{ submission }}", encoding="utf-8")
    twice, quiz = LaytonTask(TaskOptions("llm", prompts={"judge_submission": template})), QaTask(TaskOptions("llm"))
    for task, said in ((twice, ("x", "y" * 5000)), (quiz, ("y" * 5000,))):
        (measured,) = JudgeRequests(task, [ITEM]).about(judge("openai"), connect("openai", None), NAME)
        prompt = task.judge_prompt(Candidate(ITEM, Prediction("r1", "m", PredictionKind.ANSWERED, *said)))
        assert estimate_tokens(prompt, judge("openai")) == measured.most_tokens(5000)


@given(st.lists(st.integers(1, 99), max_size=30), st.integers(1, 6), st.integers(100, 300))
def test_files_are_counted_as_they_are_packed(sizes: list[int], most_requests: int, most_bytes: int) -> None:
    limits = Limits(most_requests, most_bytes, most_bytes)
    with tempfile.TemporaryDirectory() as scratch:
        shards, _ = files_of([b"x" * size for size in sizes], limits, Path(scratch))
    assert files_needed(sizes, limits) == len(shards)
