"""What runs of simulated histories ask: small manifests, their items, and what models reply."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

MODELS = {"alpha": "tagged", "beta": "untagged", "gamma": "uncertain", "delta": "tagged"}
"""Models by the name that the board shows, and their providers."""
JUDGE = "judge"
MAX_OUTPUT = 64
ATTEMPTS = 21
"""One more than troubles can take: a request fails in five ways, each happens up to four times at a provider."""
_SUBMITTED = re.compile(r"ANSWER-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Asks:
    """What a manifest asks. ``items``: number and version of each question. ``judge``: the judge's provider, None where
    a rule grades the answers (multiple choice)."""

    models: tuple[str, ...]
    items: tuple[tuple[int, int], ...]
    judge: str | None = None
    samples: int = 1

    @property
    def providers(self) -> set[str]:
        """Return the providers that are called."""
        return {MODELS[model] for model in self.models} | ({self.judge} if self.judge else set())


def question(number: int, version: int) -> str:
    """Return the words of an item's question."""
    return f"Question {number}, version {version}: which letter is meant?"


def reply(prompt: str) -> str:
    """Return what any model replies to a prompt: always the same, and another to another."""
    digest = hashlib.sha256(prompt.encode()).hexdigest()
    if _SUBMITTED.search(prompt):
        return verdict(is_correct=int(digest, 16) % 3 > 0)
    if "options" in prompt or "Answer:" in prompt:
        return f"It is ANSWER-{digest[:12]}.\nAnswer: {'ABCD'[int(digest, 16) % 4]}"
    return json.dumps({"answer": f"ANSWER-{digest[:12]}"})


def submitted(text: str) -> str:
    """Return the part of an answer that shows in the prompt of its judge."""
    named = _SUBMITTED.search(text)
    assert named is not None
    return named.group()


def verdict(*, is_correct: bool) -> str:
    """Return the reply of a judge."""
    return json.dumps({"is_answer_correct": is_correct})


def is_judging(prompt: str) -> bool:
    """Return whether a prompt asks for a verdict."""
    return _SUBMITTED.search(prompt) is not None


def write(folder: Path, name: str, asks: Asks, *, max_usd: str | None, policy: Mapping[str, object]) -> str:
    """Write a run's manifest and its items; returns the manifest's name."""
    task = "qa" if asks.judge else "mcq_idk"
    lines = [f'name = "{name}"', f'task = "{task}"', "[items]", f'source = "{name}.jsonl"']
    if max_usd is not None:
        lines += ["[budget]", f"max_usd = {max_usd}"]
    lines += ["[policy]", f"attempts = {ATTEMPTS}", *(f"{key} = {value}" for key, value in policy.items())]
    for model in asks.models:
        lines += [
            "[[models]]",
            f'name = "{model}"',
            f'provider = "{MODELS[model]}"',
            f'model = "{model}"',
            f'family = "{model}"',
        ]
        lines += [f"max_output_tokens = {MAX_OUTPUT}", *([f"samples = {asks.samples}"] if asks.samples > 1 else [])]
    if asks.judge:
        lines += [
            "[jury]",
            "seats = 1",
            "[[jury.judges]]",
            f'name = "{JUDGE}"',
            f'provider = "{asks.judge}"',
            f'model = "{JUDGE}"',
        ]
        lines += [f'family = "{JUDGE}"', f"max_output_tokens = {MAX_OUTPUT}"]
    for model, provider in (*MODELS.items(), *((JUDGE, provider) for provider in ("tagged", "untagged"))):
        lines += ["[[prices]]", f'provider = "{provider}"', f'model = "{model}"', 'input = "200"', 'output = "600"']
        lines += ['batch_input = "100"', 'batch_output = "300"', 'source = "made up"']
    (folder / f"{name}.toml").write_text("\n".join(lines) + "\n", encoding="utf-8")
    rows = [_row(number, version, asks) for number, version in asks.items]
    (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return f"{name}.toml"


def _row(number: int, version: int, asks: Asks) -> dict[str, object]:
    row: dict[str, object] = {"id": f"i{number}", "question": question(number, version)}
    if asks.judge:
        return row | {"answer": "it is B"}
    return row | {"options": ["first", "second", "third", "fourth"], "answer": "second"}
