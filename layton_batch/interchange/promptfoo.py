"""promptfoo's results (``promptfoo eval -o results.json``): one document with a row a test, prompt and provider."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from layton_batch.errors import DataError
from layton_batch.interchange.score_file import ItemOutcome, Object, ScoreFile, fingerprint, number_of, object_at
from layton_batch.records import JsonValue
from layton_batch.states import PredictionKind


def is_document(document: Object) -> bool:
    """Return whether a JSON document has promptfoo's results."""
    return bool(_rows(document))


def read(path: Path, document: Object) -> list[ScoreFile]:
    """Read a file for each provider, and for each prompt where there are several: ``score``, and each named score.

    Raises DataError with file, row and reason.
    """
    rows = _rows(document)
    prompts = {_label(row, "prompt") for row in rows if isinstance(row, Mapping)}
    files: dict[str, ScoreFile] = {}
    for number, row in enumerate(rows, 1):
        place = f"{path}, result {number}"
        if not isinstance(row, Mapping):
            raise DataError(f"{place}: an object is expected")
        provider = object_at(row, "provider", place)
        model = next((str(provider[name]) for name in ("label", "id") if provider.get(name)), "")
        if not model:
            raise DataError(f"{place}: 'provider' has no 'id'")
        if len(prompts) > 1:
            model += f" ({_label(row, 'prompt')})"
        file = files.setdefault(model, ScoreFile(str(path), model, path.stem))
        item, named = str(row.get("testIdx", number)), row.get("namedScores")
        scores = {"score": row.get("score"), **(named if isinstance(named, Mapping) else {})}
        for name, score in scores.items():
            file.add(name, item, ItemOutcome(number_of(score), str(PredictionKind.ANSWERED), None), place)
        file.questions[item] = ("vars", fingerprint(row.get("vars") or row.get("testCase")))
    return list(files.values())


def _rows(document: Object) -> Sequence[JsonValue]:
    results = document.get("results")
    rows = results.get("results") if isinstance(results, Mapping) else None
    if not isinstance(rows, list) or not rows or not isinstance(rows[0], Mapping):
        return []
    return rows if {"provider", "success"} <= rows[0].keys() else []


def _label(row: Object, name: str) -> str:
    part = row.get(name)
    label = part.get("label") or part.get("raw") if isinstance(part, Mapping) else part
    return str(label)[:80]
