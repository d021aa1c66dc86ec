"""Ensembles and the Markdown table."""

from __future__ import annotations

from math import sqrt

import polars as pl
import pytest

from layton_batch.tasks.mcq_idk.files import ensemble_votes, markdown, vote_estimates
from layton_batch.tasks.mcq_idk.task import MARKS, METRICS, Marks
from layton_batch.tasks.offline import Estimate

RIGHT, WRONG, ABSTAINED, UNREAD = MARKS.values()


def estimates(
    trad: float, idk: float, freq: float = 0.05, fail: float = 0.0, se: float | None = 0.01
) -> dict[str, Estimate]:
    return {name: Estimate(value, se) for name, value in zip(METRICS, (trad, idk, freq, fail), strict=True)}


# ---- ensembles -----------------------------------------------------------------------------------------------------


def frame(**marks: Marks) -> pl.DataFrame:
    """A model's graded rows: marks by item."""
    return pl.DataFrame([{"item_id": item, **grade} for item, grade in marks.items()])


@pytest.mark.parametrize(
    ("marks", "vote"),
    [
        ((RIGHT, RIGHT, WRONG), 1),
        ((RIGHT, WRONG, WRONG), -1),
        ((RIGHT, WRONG, ABSTAINED), 0),
        ((RIGHT, WRONG, RIGHT, WRONG), 0),
        ((RIGHT, UNREAD, UNREAD), 0),
        ((WRONG, UNREAD, ABSTAINED), 0),
        ((WRONG, WRONG, UNREAD), -1),
        ((RIGHT,), 1),
    ],
)
def test_the_published_vote_needs_a_strict_plurality_and_an_unreadable_reply_votes_for_neither(
    marks: tuple[Marks, ...], vote: int
) -> None:
    assert ensemble_votes([frame(q=one) for one in marks]).to_list() == [vote]


def test_an_ensembles_standard_errors_are_the_populations() -> None:
    member = frame(**{f"q{i}": marks for i, marks in enumerate([RIGHT] * 6 + [WRONG] * 3 + [UNREAD])})
    found = vote_estimates(ensemble_votes([member]))
    spread = (6 * 0.7**2 + 3 * 1.3**2 + 1 * 0.3**2) / 10
    assert (found["trad_score"].mean, found["idk_score"].mean, found["idk_freq"].mean) == (0.6, 0.3, 0.1)
    assert found["extract_fail"] == Estimate(0.0, 0.0)
    errors = {"trad_score": sqrt(0.6 * 0.4 / 10), "idk_score": sqrt(spread / 10), "idk_freq": sqrt(0.1 * 0.9 / 10)}
    assert {name: found[name].se for name in errors} == pytest.approx(errors)


# ---- the table -----------------------------------------------------------------------------------------------------


def test_the_markdown_is_padded_to_its_longest_cells() -> None:
    rows = {"a-model": estimates(0.6465, 0.3939, 0.101, 0), "x|y\nz": estimates(1, -1, 0, 1, None)}
    assert markdown({**rows, "none": {}}) == (
        "| Model   | trad_score ± se | idk_score ± se | idk_freq ± se | extract_fail ± se |\n"
        "| :------ | --------------: | -------------: | ------------: | ----------------: |\n"
        "| a-model |    64.65 ± 1.00 |   39.39 ± 1.00 |  10.10 ± 1.00 |       0.00 ± 1.00 |\n"
        "| x\\|y z  |          100.00 |        -100.00 |          0.00 |            100.00 |\n"
        "| none    |               - |              - |             - |                 - |"
    )
