"""The JSON Schema of a manifest takes what the form takes, and marks what it refuses."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import jsonschema
import pytest

from layton_batch.manifest.checks import manifest_schema
from tests.support.paths import ROOT

NO_MANIFESTS = ("panel", "demo-panel", "demo-models")
MANIFESTS = sorted(path for path in (ROOT / "manifests").glob("*.toml") if not path.stem.startswith(NO_MANIFESTS))
WHOLE = """
name = "mine"
task = "a-plug-in"
[items]
source = "mine.csv"
hints = [0, 2]
[budget]
max_usd = "5"
[[models]]
name = "m"
provider = "openai"
model = "m"
reasoning = { budget_tokens = 2000 }
params = { temperature = 0, stop = ["a"] }
[[prices]]
provider = "openai"
model = "m"
input = 2.5
output = "10"
"""


def faults(text: str) -> list[str]:
    schema = json.loads(json.dumps(manifest_schema()))
    jsonschema.Draft202012Validator.check_schema(schema)
    found = jsonschema.Draft202012Validator(schema).iter_errors(tomllib.loads(text))
    return [f"{error.json_path}: {error.message}" for error in found]


@pytest.mark.parametrize("path", MANIFESTS, ids=lambda path: path.stem)
def test_every_manifest_of_the_package_fits(path: Path) -> None:
    assert faults(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("right", "wrong", "told"),
    [
        ("max_usd", "max_usdd", "$.budget: Additional properties are not allowed ('max_usdd' was unexpected)"),
        ('name = "mine"', "", "$: 'name' is a required property"),
        ('provider = "openai"', "provider = 5", "$.models[0].provider: 5 is not"),
        ("{ budget_tokens = 2000 }", '"a lot"', "$.models[0].reasoning: 'a lot' is not valid"),
    ],
)
def test_what_the_form_refuses_is_marked(right: str, wrong: str, told: str) -> None:
    assert faults(WHOLE) == []
    assert any(told in fault for fault in faults(WHOLE.replace(right, wrong, 1)))
