"""Juries: who sits."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

import pytest

from layton_batch.records import ModelSpec
from layton_batch.scoring.gold import VERDICT, read_gold
from layton_batch.settings import Settings
from layton_batch.stages.preview import preview
from layton_batch.states import Role
from tests.support.lab import START
from tests.support.manifest_texts import HEAD, load
from tests.support.manual_clock import ManualClock
from tests.support.paths import ROOT, SHARED_DATA

REAL = SHARED_DATA / "layton" / "ppi_llm.jsonl"
NAMED = 'name = "{0}"\nprovider = "openai"\nmodel = "{0}"\nfamily = "{1}"\n'


def planned(folder: Path, text: str) -> dict[str, list[ModelSpec]]:
    """Return the judges that a plan asks about each model's answers, by the model's name, in their order."""
    found = preview(load(folder, text), Settings(folder), ManualClock(START), None, folder / "runs")
    models = {one.job.id: one.job.spec.name for one in found.jobs if one.job.role is Role.PREDICT}
    juries: dict[str, list[ModelSpec]] = {name: [] for name in models.values()}
    for one in found.jobs:
        if one.job.role is Role.JUDGE:
            juries[models[str(one.job.depends_on)]].append(one.job.spec)
    return juries


def seated(folder: Path, panel: Sequence[str], families: str, seats: int) -> dict[str, list[str]]:
    """Return the families of each model's judges, by the model's family. A trailing ``?`` marks a substitute."""
    text = HEAD + '[items]\nsource = "bundled"\nsplit = "llm"\nlimit = 1\n'
    text += "".join("[[models]]\n" + NAMED.format(f"m-{family}", family) for family in families)
    text += f"[jury]\nseats = {seats}\n"
    for number, family in enumerate(panel):
        text += "[[jury.judges]]\n" + NAMED.format(f"j{number}", family.rstrip("?"))
        text += "substitute = true\n" * family.endswith("?")
    juries = planned(folder, text)
    return {name.removeprefix("m-"): [judge.name for judge in jury] for name, jury in juries.items()}


def test_substitutes_sit_only_in_empty_seats_and_in_order(tmp_path: Path) -> None:
    panel = ("s?", "a", "b", "c", "t?")
    three = seated(tmp_path, panel, "xa", 3)
    assert three == {"x": ["j1", "j2", "j3"], "a": ["j2", "j3", "j0"]}
    assert seated(tmp_path, panel, "s", 4) == {"s": ["j1", "j2", "j3", "j4"]}


@pytest.mark.parametrize("seats", [1, 2, 3, 5])
def test_no_seating_breaks_the_rules(tmp_path: Path, seats: int) -> None:
    panel = [*random.Random(seats).choices(["a", "b", "c", "a?", "b?", "c?"], k=6), "d", "e?"]
    for family, jury in seated(tmp_path, panel, "abcx", seats).items():
        fit = [f"j{number}" for number, of in enumerate(panel) if of.rstrip("?") != family]
        assert len(jury) == min(seats, len(fit))
        assert set(jury) <= set(fit)
        substitutes = {f"j{number}" for number, of in enumerate(panel) if of.endswith("?")}
        assert not (set(fit) - substitutes - set(jury) and set(jury) & substitutes)


@pytest.mark.shared_data
def test_the_published_panel_seats_who_sat_in_the_published_gold_set(tmp_path: Path) -> None:
    gold = read_gold(str(REAL), ROOT, Settings(ROOT))
    sat: dict[str, set[str]] = defaultdict(set)
    for row in gold.rows.iter_rows(named=True):
        sat[row["model"]] |= {judge for judge in gold.judges if row[VERDICT["both_correct"] + judge] is not None}
    text = (ROOT / "manifests" / "layton-llm.toml").read_text(encoding="utf-8")
    text = re.sub(r'source = "hf://.*eval_llm.jsonl"', 'source = "bundled"\nlimit = 1', text)
    text = re.sub(r"(?s)\[gold\].*?(?=\[)", "", text).replace("panel-paper.toml", f"{ROOT}/manifests/panel-paper.toml")
    juries = planned(tmp_path, text)
    assert {name: {judge.name for judge in juries[name]} for name in sat} == dict(sat)
