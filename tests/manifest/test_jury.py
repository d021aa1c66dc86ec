"""Juries: who sits."""

from __future__ import annotations

from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.jury import seat_jury
from layton_batch.records import Judge, ModelSpec
from layton_batch.scoring.gold import VERDICT, read_gold
from layton_batch.settings import Settings
from tests.support.paths import ROOT, SHARED_DATA

REAL = SHARED_DATA / "layton" / "ppi_llm.jsonl"


def spec(name: str, family: str) -> ModelSpec:
    return ModelSpec(name, "some", name, family)


def panel(*families: str) -> list[Judge]:
    """A judge for each family; a trailing ``?`` marks a substitute."""
    return [Judge(spec(f"j{n}", family.rstrip("?")), family.endswith("?")) for n, family in enumerate(families)]


def names(jury: tuple[Judge, ...]) -> list[str]:
    return [judge.model.name for judge in jury]


def test_substitutes_sit_only_in_empty_seats_and_in_order() -> None:
    judges = panel("s?", "a", "b", "c", "t?")
    assert names(seat_jury(judges, spec("m", "x"), 3)) == ["j1", "j2", "j3"]
    assert names(seat_jury(judges, spec("m", "a"), 3)) == ["j2", "j3", "j0"]
    assert names(seat_jury(judges, spec("m", "s"), 4)) == ["j1", "j2", "j3", "j4"]


@given(st.lists(st.sampled_from(["a", "b", "c", "a?", "b?", "c?"])), st.sampled_from("abcd"), st.integers(0, 5))
def test_no_seating_breaks_the_rules(families: list[str], family: str, seats: int) -> None:
    judges = panel(*families)
    jury = seat_jury(judges, spec("m", family), seats)
    fit = [judge for judge in judges if judge.model.family != family]
    assert len(jury) == min(seats, len(fit))
    assert all(judge.model.family != family for judge in jury)
    idle_regulars = [judge for judge in fit if not judge.substitute and judge not in jury]
    assert not (idle_regulars and any(judge.substitute for judge in jury))


@pytest.mark.shared_data
def test_the_published_panel_seats_who_sat_in_the_published_gold_set() -> None:
    gold = read_gold(str(REAL), ROOT, Settings(ROOT))
    sat: dict[str, set[str]] = defaultdict(set)
    for row in gold.rows.iter_rows(named=True):
        sat[row["model"]] |= {judge for judge in gold.judges if row[VERDICT["both_correct"] + judge] is not None}
    manifest = load_manifest(ROOT / "manifests" / "layton-llm.toml")
    seated = {model.name: set(names(seat_jury(manifest.panel(), model, 3))) for model in manifest.model_specs()}
    assert {name: seated[name] for name in sat} == dict(sat)
