"""Ensembles and the Markdown table."""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from pathlib import Path
from typing import Any

import pytest

from tests.support.cli_harness import call
from tests.support.graded_files import board, lines, replies


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def predictions(models: Iterable[tuple[str, str]]) -> list[str]:
    """Write a file of each model's letters, and give the options that name it."""
    files = ((name, lines(f"{number}.jsonl", replies(said))) for number, (name, said) in enumerate(models))
    return [word for name, file in files for word in ("--predictions", f"{name}={file}")]


# ---- ensembles -----------------------------------------------------------------------------------------------------

VOTES = {"rrw": 1, "rww": -1, "rwn": 0, "rwrw": 0, "ruu": 0, "wun": 0, "wwu": -1, "rr": 1}
"""By the models' answers (right, wrong, "I don't know", unreadable): the vote of all."""


def test_the_published_vote_needs_a_strict_plurality_and_an_unreadable_reply_votes_for_neither() -> None:
    said = {"r": "A", "w": "B", "n": "E", "u": "-"}
    members = {case: [f"{kind}{case[:at].count(kind)}" for at, kind in enumerate(case)] for case in VOTES}
    models = sorted({name for names in members.values() for name in names})
    named = [word for case, names in members.items() for word in ("--ensemble", f"{case}={','.join(names)}")]
    found: Any = board("mcq_idk", *predictions((name, said[name[0]]) for name in models), *named)["ensembles"]
    assert {row["name"]: row["metrics"]["idk_score"]["mean"] for row in found} == VOTES


def test_an_ensembles_standard_errors_are_the_populations() -> None:
    files = predictions((name, "AAAAAABBB-") for name in ("one", "other"))
    ensembles: Any = board("mcq_idk", *files, "--ensemble", "both=one,other")["ensembles"]
    (found,) = ensembles
    spread = (6 * 0.7**2 + 3 * 1.3**2 + 1 * 0.3**2) / 10
    expected = {
        "trad_score": (0.6, sqrt(0.6 * 0.4 / 10)), "idk_score": (0.3, sqrt(spread / 10)),
        "idk_freq": (0.1, sqrt(0.1 * 0.9 / 10)), "extract_fail": (0.0, 0.0),
    }  # fmt: skip
    assert found["n"] == 10
    for name, (mean, error) in expected.items():
        assert (found["metrics"][name]["mean"], found["metrics"][name]["se"]) == (mean, pytest.approx(error))


# ---- the table -----------------------------------------------------------------------------------------------------


def test_the_markdown_is_padded_to_its_longest_cells() -> None:
    files = predictions([("a model", "AEE-A"), ("x|y\nz", "-")])
    assert call("grade", "mcq_idk", *files, "--table", "-").out == (
        "| Model   | trad_score ± se | idk_score ± se | idk_freq ± se | extract_fail ± se |\n"
        "| :------ | --------------: | -------------: | ------------: | ----------------: |\n"
        "| a model |   40.00 ± 24.49 |  20.00 ± 37.42 | 40.00 ± 24.49 |     20.00 ± 20.00 |\n"
        "| x\\|y z  |            0.00 |        -100.00 |          0.00 |            100.00 |\n"
    )
