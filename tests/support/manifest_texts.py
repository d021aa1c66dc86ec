"""Manifests for tests: a minimal one, a full one, and how to load a text as one."""

from __future__ import annotations

from pathlib import Path

from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.manifest import Manifest

HEAD = 'name = "run-1"\ntask = "layton"\n'
ITEMS = '[items]\nsource = "items.jsonl"\n'
MODEL = '[[models]]\nname = "m"\nprovider = "openai"\nmodel = "gpt-5.1"\n'
JUDGE = '[[jury.judges]]\nname = "j"\nprovider = "gemini"\nmodel = "gemini-x"\n'
MINIMAL = HEAD + ITEMS + MODEL


def write(tmp_path: Path, text: str, name: str = "m.toml") -> Path:
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return path


def load(tmp_path: Path, text: str) -> Manifest:
    return load_manifest(write(tmp_path, text))


FULL = (
    HEAD
    + """
[items]
source = "hf://datasets/rvienne/layton-eval/layton_eval_llm.jsonl"
split = "llm"
hints = 4
limit = 20
[gold]
source = "hf://datasets/rvienne/layton-eval-ppi/ppi_llm.jsonl"
[scoring]
method = "paper"
metric = "answer_correct"
level = 0.95
seed = 7
[budget]
max_usd = 200.10
[policy]
attempts = 2
reask_unparsed = 1
reask_truncated = 1
deadline_hours = 48
[[models]]
name = "claude thinks"
provider = "anthropic"
model = "claude-opus-4-5"
family = "Anthropic"
max_output_tokens = 40000
reasoning = { budget_tokens = 32000 }
params = { temperature = 0, stop = ["x"], deep = { on = true } }
[[models]]
name = "kimi"
provider = "together"
model = "moonshotai/Kimi-K2.5"
family = "moonshotai"
reasoning = "high"
[jury]
seats = 2
[[jury.judges]]
name = "one"
provider = "openai"
model = "gpt-5.1"
[[jury.judges]]
name = "two"
provider = "mistral"
model = "mistral-large"
substitute = true
[[prices]]
provider = "together"
model = "moonshotai/Kimi-K2.5"
input = "0.5"
output = 2.8
cached_input = 0
batch_input = 1
source = "the provider's page"
date = 2026-11-01
"""
)
