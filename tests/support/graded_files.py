"""Files of predictions for ``grade``, and its documents: shared by the tests of what it does with several models."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from tests.support import cli_harness
from tests.support.cli_harness import call

Row = dict[str, object]


def lines(name: str, rows: Sequence[Row]) -> str:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return name


def replies(said: str, *, gold: str = "A", start: int = 0) -> list[Row]:
    """A row a letter: what is answered; "-" for a reply without one."""
    return [
        {"item_id": f"q{start + i}", "gold": gold, "response": "no idea" if letter == "-" else f"Answer: {letter}"}
        for i, letter in enumerate(said)
    ]


def board(*arguments: str | Path) -> dict[str, object]:
    end = call("grade", *arguments, "--json")
    assert end.code == 0, end.err
    return end.table()


def models(document: dict[str, object]) -> dict[str, Row]:
    found = document["models"]
    assert isinstance(found, list)
    return {row["name"]: row for row in found}


def refused(*arguments: str | Path) -> str:
    """Grade files that are refused; return the messages."""
    return cli_harness.refused("grade", *arguments)


def answers(labels: str, tokens: float | None = None, usage: str = "output_tokens") -> list[Row]:
    """A question a letter; "A" is right; two tasks take turns."""
    said = {} if tokens is None else {usage: tokens} if usage != "usage" else {"usage": {"completion_tokens": tokens}}
    return [
        {"question_id": f"q{i}", "question": "?", "task": "even" if i % 2 == 0 else "odd",
         "evaluator": "choices_matching", "evaluator_kwargs": {"label": "A"}, "answer": letter, **said}
        for i, letter in enumerate(labels)
    ]  # fmt: skip
