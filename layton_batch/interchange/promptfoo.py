"""promptfoo's results (``promptfoo eval -o results.json``): one document with a row a test, prompt and provider."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from layton_batch.errors import DataError
from layton_batch.interchange.score_file import ItemOutcome, Object, ScoreFile, fingerprint, number_of, object_at
from layton_batch.providers.wire_json import at, objects
from layton_batch.states import PredictionKind

_ERROR = 2
"""The ``failureReason`` of a call that failed."""
_LABEL = 60
"""Characters of a prompt's label that a model's name gets."""


def is_document(document: Object) -> bool:
    """Return whether a JSON document has promptfoo's results."""
    return bool(_rows(document))


def read(path: Path, document: Object) -> list[ScoreFile]:
    """Read a file for each provider, prompt (if there are several) and repetition: ``score``, and each named score.

    Tests of the same variables are one item; a call that failed has no score. Raises DataError with file, row and
    reason.
    """
    rows = _rows(document)
    prompts = _prompts(rows)
    files: dict[tuple[str, int], ScoreFile] = {}
    items: dict[int, str] = {}
    times: Counter[tuple[str, str]] = Counter()
    for number, row in enumerate(at(document, "results")["results"], 1):  # type: ignore[arg-type]  # a list: `_rows`
        place = f"{path}, result {number}"
        if not isinstance(row, Mapping):
            raise DataError(f"{place}: an object is expected")
        provider = object_at(row, "provider", place)
        model = next((str(provider[name]) for name in ("label", "id") if provider.get(name)), "")
        if not model:
            raise DataError(f"{place}: 'provider' has no 'id'")
        model += f" ({prompts[_prompt(row)]})" if len(prompts) > 1 else ""
        question = fingerprint(row.get("testCase") or row.get("vars"))
        item = items.setdefault(question, str(row.get("testIdx", number)))
        times[model, item] += 1
        sample = times[model, item]
        file = files.setdefault((model, sample), ScoreFile(str(path), model, path.stem, sample=sample))
        file.questions[item] = ("vars", question)
        is_failed = row.get("failureReason") == _ERROR
        kind = PredictionKind.MISSING if is_failed else PredictionKind.ANSWERED
        scores = {"score": row.get("score"), **at(row, "namedScores")}
        for name, score in scores.items():
            file.add(name, item, ItemOutcome(None if is_failed else number_of(score), str(kind), None), place)
    return list(files.values())


def _prompt(row: Object) -> str:
    """Return what tells a row's prompt from the others."""
    return str(row.get("promptIdx", row.get("prompt")))


def _prompts(rows: Sequence[Object]) -> dict[str, str]:
    """Return the label of each prompt, with its number if another one has the same."""
    labels: dict[str, str] = {}
    for row in rows:
        prompt = row.get("prompt")
        label = (prompt.get("label") or prompt.get("raw")) if isinstance(prompt, Mapping) else prompt
        labels.setdefault(_prompt(row), " ".join(str(label).split())[:_LABEL])
    same = Counter(labels.values())
    numbered = enumerate(labels.items(), 1)
    return {prompt: label if same[label] == 1 else f"{label} {number}" for number, (prompt, label) in numbered}


def _rows(document: Object) -> Sequence[Object]:
    rows = objects(at(document, "results"), "results")
    return rows if rows and {"provider", "success"} <= rows[0].keys() else []
