"""Lines of Every Eval Ever and of lm-evaluation-harness, whole and broken."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layton_batch.errors import DataError
from layton_batch.interchange.score_file import ScoreFile
from layton_batch.interchange.score_forms import read
from layton_batch.records import JsonValue
from tests.support.harness_files import eee_line, lm_eval_line, write_lines


def _marks(files: list[ScoreFile] | None, metric: str) -> dict[str, dict[str, float | None]]:
    assert files is not None
    return {one.model: {item: outcome.mark for item, outcome in one.metrics[metric].items()} for one in files}


def test_lines_of_every_eval_ever_hold_any_number_of_models(tmp_path: Path) -> None:
    lines = [eee_line("a/finch", "1", 1.0), eee_line("a/wren", "1", 0.0), eee_line("a/finch", "2", 0.5)]
    path = write_lines(tmp_path / "one_samples.jsonl", lines)
    assert _marks(read(path), "score") == {"a/finch": {"1": 1.0, "2": 0.5}, "a/wren": {"1": 0.0}}


def test_the_document_beside_the_lines_names_the_metric_and_its_scale(tmp_path: Path) -> None:
    line = eee_line("a/finch", "1", 7.0, evaluation_result_id="r1")
    write_lines(tmp_path / "one_samples.jsonl", [line])
    config: dict[str, JsonValue] = {"metric_id": "points", "max_score": 10, "lower_is_better": False}
    document = {"evaluation_id": "e", "evaluation_results": [{"evaluation_result_id": "r1", "metric_config": config}]}
    beside = tmp_path / "one.json"
    beside.write_text(json.dumps(document))
    files = read(beside)  # naming the document is naming its lines
    assert _marks(files, "points") == {"a/finch": {"1": 7.0}}
    assert files is not None
    assert files[0].largest == {"points": 10.0}


def test_a_document_without_its_lines_is_refused_with_the_file_that_is_needed(tmp_path: Path) -> None:
    path = tmp_path / "one.json"
    path.write_text(json.dumps({"evaluation_id": "e", "evaluation_results": []}))
    with pytest.raises(DataError, match=r"one_samples\.jsonl"):
        read(path)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"model_id": 7}, "'model_id' must be a text"),
        ({"sample_id": ""}, "'sample_id' must be a text"),
        ({"evaluation": {"score": "1", "is_correct": True}}, "'evaluation.score' must be a number"),
        ({"evaluation": {"score": True, "is_correct": True}}, "'evaluation.score' must be a number"),
        ({"evaluation": {"score": 1.0}}, "'evaluation.is_correct' must be true or false"),
        ({"evaluation": 1}, "'evaluation' must be an object"),
        ({"input": {"raw": "?"}}, "'input' must have 'raw' and 'reference'"),
        ({"sample_id": "1"}, "has a mark by 'score' already"),
    ],
)
def test_a_broken_line_is_an_error_with_file_line_and_reason(
    tmp_path: Path, changes: dict[str, JsonValue], reason: str
) -> None:
    broken = {**eee_line("a/finch", "2", 1.0), **changes}
    path = write_lines(tmp_path / "one.jsonl", [eee_line("a/finch", "1", 1.0), broken])
    with pytest.raises(DataError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}, line 2: ")
    assert reason in str(error.value)


@pytest.mark.parametrize("tail", [b'{"model_id": "a', b"[1]\n", b"\xff\xfe\n", b"[" * 100_000])
def test_a_line_that_is_no_object_is_an_error_with_file_and_line(tmp_path: Path, tail: bytes) -> None:
    path = write_lines(tmp_path / "one.jsonl", [eee_line("a/finch", "1", 1.0)])
    path.write_bytes(path.read_bytes() + tail)
    with pytest.raises(DataError, match="line 2: "):
        read(path)


# ---- lm-evaluation-harness -----------------------------------------------------------------------------------------

SAMPLES = "samples_sums_2026-11-20T10-11-12.123456.jsonl"


def test_samples_are_of_the_model_that_the_results_beside_them_name(tmp_path: Path) -> None:
    folder = tmp_path / "nest__finch"
    path = write_lines(folder / SAMPLES, [lm_eval_line(0, {"acc": 1.0}), lm_eval_line(1, {"acc": 0.0})])
    assert _marks(read(path), "acc") == {"nest/finch": {"0": 1.0, "1": 0.0}}
    (folder / "results_2026-11-20T10-11-12.123456.json").write_text(json.dumps({"model_name": "nest/finch-7b"}))
    files = read(path)
    assert files is not None
    assert [(one.model, one.task) for one in files] == [("nest/finch-7b", "sums")]


def test_samples_with_infinite_likelihoods_are_read(tmp_path: Path) -> None:
    line = {**lm_eval_line(0, {"acc": 1.0}), "resps": [[[float("-inf"), False]]]}
    assert _marks(read(write_lines(tmp_path / "finch" / SAMPLES, [line])), "acc") == {"finch": {"0": 1.0}}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [({"doc_id": None}, "'doc_id' must be a number"), ({"metrics": []}, "no metric"), ({"doc_id": 0}, "already")],
)
def test_a_broken_sample_is_an_error_with_file_line_and_reason(
    tmp_path: Path, changes: dict[str, JsonValue], reason: str
) -> None:
    lines = [lm_eval_line(0, {"acc": 1.0}), {**lm_eval_line(1, {"acc": 1.0}), **changes}]
    path = write_lines(tmp_path / "finch" / SAMPLES, lines)
    with pytest.raises(DataError) as error:
        read(path)
    assert str(error.value).startswith(f"{path}, line 2: ")
    assert reason in str(error.value)


def test_lines_of_older_versions_have_their_metrics_as_columns(tmp_path: Path) -> None:
    line = lm_eval_line(0, {"acc": 1.0, "acc_norm": 0.0})
    old = {name: value for name, value in line.items() if name not in ("metrics", "filter")}
    files = read(write_lines(tmp_path / "finch" / SAMPLES, [old]))
    assert files is not None
    assert list(files[0].metrics) == ["acc", "acc_norm"]
