"""Files for contributors: the workflow, the hooks, the citation, the changelog, the script that makes ``.venv``."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
import yaml

import layton_batch
from tests.support.cli_harness import ROOT, call

WORKFLOWS = ROOT / ".github" / "workflows"
WORKFLOW = yaml.safe_load((WORKFLOWS / "checks.yml").read_text(encoding="utf-8"))
STEPS = [step for job in WORKFLOW["jobs"].values() for step in job["steps"]]


def test_the_workflow_runs_lint_tests_and_docs_on_the_supported_versions() -> None:
    versions = WORKFLOW["jobs"]["tests"]["strategy"]["matrix"]["python"]
    assert versions == ["3.11", "3.12", "3.13"]
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r'"Programming Language :: Python :: ([\d.]+)"', project) == versions
    commands = {step["run"] for step in STEPS if "run" in step}
    assert {"scripts/lint", "scripts/test", "scripts/docs"} <= commands
    assert all((ROOT / command).is_file() for command in commands if command.startswith("scripts/"))


def test_a_tag_builds_checks_and_uploads_its_version_without_a_stored_token() -> None:
    """YAML reads the key ``on`` as true."""
    release = yaml.safe_load((WORKFLOWS / "release.yml").read_text(encoding="utf-8"))
    build, publish = release["jobs"]["build"], release["jobs"]["publish"]
    assert release[True] == {"push": {"tags": ["v*"]}}
    assert release["permissions"] == {"contents": "read"}
    assert "permissions" not in build
    assert (publish["needs"], publish["permissions"]) == ("build", {"id-token": "write"})
    assert publish["steps"][-1] == {"uses": "pypa/gh-action-pypi-publish@release/v1"}
    commands = " ".join(step.get("run", "") for step in build["steps"])
    assert all(part in commands for part in ("hatchling build", "$GITHUB_REF_NAME", "layton-batch demo"))
    assert "secrets." not in (WORKFLOWS / "release.yml").read_text(encoding="utf-8")


def test_the_command_the_package_the_citation_and_the_changelog_have_one_version() -> None:
    assert call("--version").out == f"layton-batch {layton_batch.__version__}\n"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation["version"] == layton_batch.__version__
    assert [name for source in citation["references"] for name in re.findall(r"`(\w+)`", source["notes"])] == [
        "layton", "mcq_idk", "zebralogic", "rome",
    ]  # fmt: skip
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## (\S+)", changes, re.MULTILINE) == [layton_batch.__version__]


def test_the_changelog_is_short_and_an_entry_is_one_short_sentence() -> None:
    lines = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 60
    assert [line for line in lines if line.startswith("- ") and len(line[2:].split()) > 25] == []
    assert [line for line in lines if line and not line.startswith(("#", "**", "- "))] == []


@pytest.mark.parametrize("failing", ["-m", "install"])
def test_an_environment_whose_making_failed_is_not_taken_for_ready(tmp_path: Path, failing: str) -> None:
    """``failing``: the first argument of the call that fails: ``python3 -m venv`` or ``pip install``."""
    (tmp_path / "scripts").mkdir()
    shutil.copy(ROOT / "scripts" / "bootstrap", tmp_path / "scripts")
    for name in ("requirements.lock", "pyproject.toml"):
        (tmp_path / name).touch()
    programs = [tmp_path / "programs" / "python3", tmp_path / ".venv" / "bin" / "pip"]
    for program in programs:
        program.parent.mkdir(parents=True)
        program.write_text(f'#!/bin/sh\n[ "$1" != "{failing}" ]\n')
        program.chmod(0o755)
    path = f"{programs[0].parent}:/usr/bin:/bin"
    ended = subprocess.run([tmp_path / "scripts" / "bootstrap"], env={"PATH": path}, capture_output=True, check=False)
    assert ended.returncode != 0
    assert not list(tmp_path.glob(".venv/.ready-*"))
