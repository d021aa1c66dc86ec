"""The names at the top level of the project: a new name there is a decision, or the output of a test."""

from __future__ import annotations

from tests.support.cli_harness import ROOT

TRACKED = {
    ".ci", ".github", ".gitignore", ".pre-commit-config.yaml", "CHANGELOG.md", "CITATION.cff", "CONTRIBUTING.md",
    "LICENSE", "README.md", "SECURITY.md", "benchmarks", "docs", "jobs",
    "layton_batch", "manifests", "mkdocs.yml", "pyproject.toml", "requirements.lock", "scripts", "tests", "tools",
}  # fmt: skip


def test_the_top_level_has_only_the_listed_names_and_what_git_ignores() -> None:
    lines = (ROOT / ".gitignore").read_text(encoding="utf-8").split()
    ignored = {line.strip("/") for line in lines} | {".git"}
    names = {path.name for path in ROOT.iterdir() if not path.name.endswith(".egg-info")}
    assert names - ignored == TRACKED
