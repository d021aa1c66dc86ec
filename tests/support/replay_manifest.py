"""The shipped manifest of the paper's text split, with its two sources taken from a folder of real data."""

from __future__ import annotations

from pathlib import Path

from tests.support.paths import ROOT

UNPUBLISHED = "qwen-qwen3-vl-235b-a22b-instruct-fp8"
"""The last model of the manifest: it has a row in the report's table, and its answers were not published."""


def replay_manifest(data: Path) -> str:
    """``manifests/layton-llm.toml`` with its nine models whose answers were published, and rows from ``data``."""
    text = (ROOT / "manifests" / "layton-llm.toml").read_text(encoding="utf-8")
    replaced = {
        "hf://datasets/rvienne/layton-eval/layton_eval_llm.jsonl": data / "riddles_llm.jsonl",
        "hf://datasets/rvienne/layton-eval-ppi/ppi_llm.jsonl": data / "ppi_llm.jsonl",
        '"panel-paper.toml"': f'"{ROOT / "manifests" / "panel-paper.toml"}"',
    }
    for old, new in replaced.items():
        assert old in text, old
        text = text.replace(old, str(new))
    return text[: text.index(f'[[models]]\nname = "{UNPUBLISHED}"')]
