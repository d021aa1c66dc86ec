"""A gold set says whose votes it has: what this program writes is compared by model, provider, settings and prompts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import orjson
import pytest

from layton_batch.errors import ManifestError
from layton_batch.manifest.asked import judge_prompts_sha256
from layton_batch.scoring.gold import GoldSet, JudgeRecord, read_gold
from layton_batch.settings import Settings
from tests.support.cli_harness import call
from tests.support.lab import BUNDLED, Lab, lab, manifest_text, named
from tests.support.pages import without_pages as without_pages

JUDGE = "tern-3-referee"
TEXT = named("own", manifest_text(limit=2, top='[gold]\nsource = "gold.jsonl"\nrejudge = 0'))


def gold_set(path: Path) -> GoldSet:
    return read_gold(str(path), path.parent, Settings(path.parent))


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with the gold set of its own run, whose answers people took."""
    with lab(tmp_path_factory.mktemp("labelled")) as there:
        there.finish(manifest_text(limit=2))
        path = there.folder / "gold.jsonl"
        call("export", there.run_folder(manifest_text()).root, "--to", "ppi", "--out", path)
        rows = [orjson.loads(line) for line in path.read_bytes().splitlines()]
        labels = {name: True for name in rows[0] if name.startswith("human_")}
        path.write_bytes(b"".join(orjson.dumps(row | labels) + b"\n" for row in rows))
        (there.folder / "mine.txt").write_text("Judge it.", encoding="utf-8")
        yield there


def test_a_gold_set_of_our_own_run_is_the_same_jury(labelled: Lab) -> None:
    assert labelled.plan(TEXT).jobs
    record = gold_set(labelled.folder / "gold.jsonl").recorded[JUDGE]
    assert (record.provider, record.model, record.settings) == ("gemini", JUDGE, '{"max_output_tokens":2000}')
    assert record.prompt_sha256 == judge_prompts_sha256("layton")


@pytest.mark.parametrize(
    ("old", "new", "word"),
    [
        (f'model = "{JUDGE}"', 'model = "tern-4"', "tern-4 here"),
        ('provider = "gemini"', 'provider = "groq"', "groq here"),
        ("max_output_tokens = 2000", "max_output_tokens = 99", '"max_output_tokens":99'),
        ("max_output_tokens = 2000", 'max_output_tokens = 2000\nreasoning = "low"', "low"),
        ("[gold]", '[prompts]\njudge_system = "mine.txt"\n[gold]', "prompts"),
    ],
)
def test_each_thing_that_is_recorded_is_compared(labelled: Lab, old: str, new: str, word: str) -> None:
    with pytest.raises(ManifestError, match="another jury") as refused:
        labelled.plan(TEXT.replace(old, new))
    assert word in str(refused.value)


def test_only_the_bundled_set_is_frozen_with_prompts_that_it_does_not_name(labelled: Lab) -> None:
    bundled = BUNDLED / "gold_llm.jsonl"
    known = JudgeRecord(prompt_sha256=judge_prompts_sha256("layton"))
    for source, recorded in (("bundled", dict.fromkeys(gold_set(bundled).judges, known)), (str(bundled), {})):
        text = named(f"of-{len(source)}", manifest_text(limit=2, top=f'[gold]\nsource = "{source}"\nrejudge = "all"'))
        labelled.plan_only(text)
        (kept,) = labelled.run_folder(text).root.glob("gold-*.jsonl")
        assert gold_set(kept).recorded == recorded
