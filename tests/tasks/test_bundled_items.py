"""Each bundled file is the one that was checked: whoever changes one checks it again."""

from __future__ import annotations

from hashlib import sha256

from tests.support.paths import ROOT

DATA = ROOT / "layton_batch" / "tasks" / "data"
DIGESTS = {
    "layton/gold_llm.jsonl": "2a56726b4619f8640fd84af449f1794191c8218cbd71a5dcaba4e400ad29f72a",
    "layton/gold_vlm.jsonl": "c401114c7705c44b3d1616323a9198b0d325058a616812584424209856f52e46",
    "layton/riddles_llm.jsonl": "fa1f9ff9d9a3e99e065116ac919b88419ee5323a65f703b18af7332b98286e8c",
    "layton/riddles_vlm.jsonl": "c1b4c7a03f03f960c849c770982d2cbb653b3cd7ecfe126cf3011deae08252ae",
    "mcq_idk/demo.jsonl": "9645aa33aa3a41365537d98ce088bf32e4bfda139777284b2cd5329c129d06d5",
    "qa/questions.jsonl": "3d327b2c67f52c50920e0ab80d090bfd1159030ad04fd1a6ccfe592e0078636b",
    "rome/questions_llm.jsonl": "e6aa5a72d3eeb9f472e82364de18e658317f51674f9fb803104c4dccda7966ea",
    "rome/questions_vlm.jsonl": "f06a229a5cda30bc6fd0217a26c6e5ef76311aeb3eb7f9317169e8267dc7132c",
    "zebralogic/puzzles.jsonl": "b195705389d9b65106d03cfb00f0b15e0f1d42ed5e393909aec1f6cd6a260a6a",
}
"""SHA-256 of each file: its answers were computed, and each grid's one solution was found by two solvers."""


def test_every_bundled_file_is_the_one_that_was_checked() -> None:
    found = {str(path.relative_to(DATA)): sha256(path.read_bytes()).hexdigest() for path in DATA.rglob("*.jsonl")}
    assert found == DIGESTS
