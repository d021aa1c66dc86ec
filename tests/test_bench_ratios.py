"""`scripts/bench --check`: a ratio that is a fifth worse than what is kept fails."""

from __future__ import annotations

import json

from benchmarks.kept import PATH, compared


def test_a_ratio_that_is_a_fifth_worse_is_told() -> None:
    assert compared({"a": 2.0, "b": 1.0}, {"a": 2.39, "b": 1.21, "new": 9.0}) == ["b: 1.21, was 1.00"]


def test_a_ratio_that_is_gone_is_told() -> None:
    assert compared({"a": 2.0}, {}) == ["a is not measured any more"]


def test_what_is_kept_are_ratios_of_the_two_measurements() -> None:
    kept = json.loads(PATH.read_text(encoding="utf-8"))
    assert {name.partition(" / ")[0] for name in kept} == {"prepare", "plan", "collect", "grade", "site", "leaderboard"}
    assert all(ratio > 0 for ratio in kept.values())
