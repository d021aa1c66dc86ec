"""Per-item scores in the forms of other programs, as their documents describe them; the questions are our own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from layton_batch.records import JsonValue

GOLDEN = Path(__file__).parent / "golden"


def eee_line(model: str, item: str, score: float, **changes: JsonValue) -> dict[str, JsonValue]:
    """An instance of Every Eval Ever 0.3.0."""
    line: dict[str, JsonValue] = {
        "schema_version": "0.3.0",
        "evaluation_id": f"sums/{model}/1",
        "model_id": model,
        "evaluation_name": "sums",
        "sample_id": item,
        "interaction_type": "single_turn",
        "input": {"raw": f"What is {item}?", "reference": ["7"]},
        "output": {"raw": ["7"]},
        "messages": None,
        "answer_attribution": [],
        "evaluation": {"score": score, "is_correct": score == 1},
    }
    return {**line, **changes}


def lm_eval_line(number: int, marks: Mapping[str, float], filter_: str = "none") -> dict[str, JsonValue]:
    """A sample of lm-evaluation-harness 0.4.9, as `--log_samples` writes it."""
    return {
        "doc_id": number,
        "doc": {"question": f"What is {number} and 1?"},
        "target": str(number + 1),
        "arguments": {"gen_args_0": {"arg_0": f"What is {number} and 1?", "arg_1": {"until": ["\n"]}}},
        "resps": [[str(number + 1)]],
        "filtered_resps": [str(number + 1)],
        "filter": filter_,
        "metrics": list(marks),
        "doc_hash": f"hash-{number}",
        "prompt_hash": "p",
        "target_hash": "t",
        **marks,
    }


def write_lines(path: Path, lines: Sequence[Mapping[str, JsonValue]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path
