"""deepeval's test runs: one document with a row a test case, and in each row the result of every metric.

It is a file of ``DEEPEVAL_RESULTS_FOLDER`` (a moment without an ending), ``.deepeval/.latest_test_run.json``, or what
``evaluate`` returned, as JSON.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from layton_batch.interchange.score_file import ItemOutcome, Object, ScoreFile, fingerprint, number_of, text_at
from layton_batch.providers.wire_json import at, objects, text
from layton_batch.records import JsonValue
from layton_batch.states import PredictionKind

_CASES = ("testCases", "conversationalTestCases", "test_results")
_ITEM = ("input", "scenario", "name")
"""Keys that tell a test case from the others, wherever it stands in a file; the first that is there counts."""


def is_document(document: Object) -> bool:
    """Return whether a JSON document is a test run of deepeval."""
    return any(_results(case) for case in _cases(document))


def read(path: Path, document: Object) -> list[ScoreFile]:
    """Read a file for each repetition of the test cases: ``success``, and each metric's score.

    The model is the hyperparameter ``model``, else called as the file is. A metric that failed by itself has no score,
    and less is better by a metric that calls scores below its threshold a success. Raises DataError.
    """
    model = text(at(_run(document), "hyperparameters"), "model") or path.stem
    files: dict[int, ScoreFile] = {}
    times: Counter[str] = Counter()
    expectations: dict[str, int] = {}
    for number, case in enumerate(_cases(document), 1):
        place = f"{path}, test case {number}"
        item = next((str(case[name]) for name in _ITEM if case.get(name)), str(number))
        expected = fingerprint(case.get("expectedOutput", case.get("expected_output")))
        if expectations.setdefault(item, expected) != expected:  # another question of the same words
            item = str(case.get("name") or f"{item} ({number})")
        times[item] += 1
        sample = times[item]
        file = files.setdefault(sample, ScoreFile(str(path), model, path.stem, sample=sample))
        file.questions[item] = ("expected output", expected)
        results = _results(case)
        is_failed = any(result.get("error") for result in results)
        file.add("success", item, _outcome(None if is_failed else case.get("success")), place)
        given = Counter({"success": 1})
        for result in results:
            name, score = text_at(result, "name", place), number_of(result.get("score"))
            given[name] += 1
            name = name if given[name] == 1 else f"{name} {given[name]}"
            file.add(name, item, _outcome(None if result.get("error") else score), place)
            threshold, success = number_of(result.get("threshold")), result.get("success")
            if score is not None and threshold is not None and success is (score < threshold):
                file.lower_is_better.add(name)
    return list(files.values())


def _outcome(score: JsonValue) -> ItemOutcome:
    return ItemOutcome(number_of(score), str(PredictionKind.ANSWERED), None)


def _run(document: Object) -> Object:
    return at(document, "testRunData") or document


def _cases(document: Object) -> Sequence[Object]:
    return [case for name in _CASES for case in objects(_run(document), name)]


def _results(case: Object) -> Sequence[Object]:
    return objects(case, "metricsData") or objects(case, "metrics_data")
