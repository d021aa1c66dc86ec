"""A gold set says whose votes it has: what this program writes is compared by model, provider, settings and prompts."""

from __future__ import annotations

from pathlib import Path

import orjson
import polars as pl
import pytest

from layton_batch.errors import DataError
from layton_batch.manifest.asked import judge_prompts_sha256
from layton_batch.runs.rejudging import differences, frozen_gold, recorded_jury
from layton_batch.scoring.gold import VERDICT, GoldSet, JudgeRecord, gold_rows, read_gold
from layton_batch.settings import Settings
from tests.support.lab import BUNDLED, manifest_text
from tests.support.manifest_texts import load

OWN = '[gold]\nsource = "gold.jsonl"\nrejudge = "all"'
JUDGE = "tern-3-referee"


def written(folder: Path, gold: GoldSet) -> GoldSet:
    path = folder / "gold.jsonl"
    path.write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in gold_rows(gold)))
    return read_gold(str(path), folder, Settings(folder))


def own_gold(folder: Path, text: str) -> GoldSet:
    """A gold set with the votes of the manifest's jury of one: of the bundled answers, those it would judge."""
    bundled = read_gold(str(BUNDLED / "gold_llm.jsonl"), folder, Settings(folder))
    answers = bundled.rows.filter(
        pl.col(VERDICT["answer_correct"] + JUDGE).is_not_null(), ~pl.col("provider").is_in(["gemini", "google"])
    )
    return written(folder, GoldSet((JUDGE,), answers, {JUDGE: recorded_jury(load(folder, text))[JUDGE]}))


def test_a_gold_set_of_our_own_run_is_the_same_jury(tmp_path: Path) -> None:
    text = manifest_text(top=OWN)
    gold = own_gold(tmp_path, text)
    assert differences(load(tmp_path, text), gold) == []
    record = gold.recorded[JUDGE]
    assert (record.provider, record.model, record.settings) == ("gemini", JUDGE, '{"max_output_tokens":2000}')
    assert record.prompt_sha256 == judge_prompts_sha256("layton")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('model = "tern-3-referee"', 'model = "tern-4"', "is the model tern-4 here and was tern-3-referee"),
        ('provider = "gemini"', 'provider = "groq"', "is groq here and was gemini"),
        ("max_output_tokens = 2000", "max_output_tokens = 99", "settings of the judge tern-3-referee are"),
        ("max_output_tokens = 2000", 'max_output_tokens = 2000\nreasoning = "low"', "the settings of the judge"),
        ("[gold]", '[prompts]\njudge_system = "mine.txt"\n[gold]', "the judges' prompts are others"),
    ],
)
def test_each_thing_that_is_recorded_is_compared(tmp_path: Path, old: str, new: str, said: str) -> None:
    (tmp_path / "mine.txt").write_text("Judge it.", encoding="utf-8")
    text = manifest_text(top=OWN)
    gold = own_gold(tmp_path, text)
    found = differences(load(tmp_path, text.replace(old, new)), gold)
    assert any(said in clause for clause in found), found


def test_only_the_bundled_set_is_frozen_with_prompts_that_it_does_not_name(tmp_path: Path) -> None:
    bundled = read_gold(str(BUNDLED / "gold_llm.jsonl"), tmp_path, Settings(tmp_path))
    kept = frozen_gold(load(tmp_path, manifest_text(top='[gold]\nsource = "bundled"')), bundled)
    known = JudgeRecord(prompt_sha256=judge_prompts_sha256("layton"))
    assert written(tmp_path, kept).recorded == dict.fromkeys(bundled.judges, known)
    assert frozen_gold(load(tmp_path, manifest_text(top=OWN)), bundled).recorded == {}


@pytest.mark.parametrize(
    ("first", "second", "said"),
    [
        ({"judge_model_b": "x"}, {"judge_model_b": "y"}, "one gold set has one jury"),
        ({"judge_model_b": 5}, {}, "must be text or null"),
        ({"judge_settings_b": "[]"}, {}, "must be a JSON object"),
    ],
)
def test_records_that_contradict_each_other_are_refused(
    tmp_path: Path, first: dict[str, object], second: dict[str, object], said: str
) -> None:
    base = {"provider": "p", "model": "m", "is_answer_correct_b": True, "is_justification_correct_b": True,
            "human_answer_correct": True, "human_justification_correct": True}  # fmt: skip
    rows = [{"riddle_id": "1", **base, **first}, {"riddle_id": "2", **base, **second}]
    (tmp_path / "gold.jsonl").write_bytes(b"".join(orjson.dumps(row) + b"\n" for row in rows))
    with pytest.raises(DataError, match=said):
        read_gold("gold.jsonl", tmp_path, Settings(tmp_path))
