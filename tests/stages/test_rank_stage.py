"""The rank stage: a board says where another model answered than the manifest names."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from layton_batch.providers.openai import FileBatches
from layton_batch.records import Response
from layton_batch.scoring.leaderboard import FLAGS
from tests.support.lab import JUDGES, MODELS, lab, manifest_text
from tests.support.pages import without_pages as without_pages

OPENAI, ANTHROPIC = MODELS["openai"], MODELS["anthropic"]
SERVED, JUDGED = "served_another_model", "judge_served_another_model"
DATED = "-2026-01-31"


@pytest.mark.parametrize(
    ("model", "referee", "flagged"),
    [("-mini", DATED, {OPENAI: SERVED}), (DATED, "-mini", {OPENAI: JUDGED, ANTHROPIC: JUDGED})],
)
def test_a_board_says_that_another_model_answered_or_judged_and_a_dated_snapshot_is_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, model: str, referee: str, flagged: dict[str, str]
) -> None:
    """Results of OpenAI name a model whose name ends with ``model``, and a judge whose name ends with ``referee``."""
    decode, text = FileBatches.decode, manifest_text(("openai", "anthropic"), limit=1, jury="[jury]\n" + JUDGES)

    def decode_served(dialect: FileBatches, line: bytes) -> Response:
        reply = decode(dialect, line)
        served = "larch-2-referee" + referee if b"larch-2-referee" in line else OPENAI + model
        return replace(reply, served_model=served) if dialect.name == "openai" else reply

    monkeypatch.setattr(FileBatches, "decode", decode_served)
    assert {SERVED, JUDGED} <= FLAGS.keys()
    with lab(tmp_path) as bench:
        bench.finish(text)
        rows = bench.table(text, "leaderboard").select("model", "flags").iter_rows()
    told = {name: flags for name, flags in rows if {SERVED, JUDGED}.intersection(flags.split(", "))}
    assert told.keys() == flagged.keys()
    assert all(set(told[name].split(", ")) & {SERVED, JUDGED} == {flag} for name, flag in flagged.items())
