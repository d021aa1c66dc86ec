"""The pages of docs/ make one site without a warning, load nothing from elsewhere, and say what the code says."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from layton_batch.errors import ManifestError
from layton_batch.tasks import load_task
from layton_batch.tasks.protocol import TaskOptions
from tests.support.paths import ROOT
from tools import format_page, reference_pages

LOADS = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*\b(?:src|href)=\"?(https?:)?//[^>]*>")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with every warning an error."""
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    ended = subprocess.run(
        command, cwd=ROOT, env={"NO_MKDOCS_2_WARNING": "1", "PATH": "/usr/bin:/bin"}, capture_output=True, check=False
    )
    assert ended.returncode == 0, (ended.stdout + ended.stderr).decode()
    return folder


def test_the_site_is_built_without_a_warning_and_has_every_page(built: Path) -> None:
    pages = {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"}
    assert {path.parent.name for path in built.glob("*/index.html")} >= pages


def test_a_page_loads_nothing_from_elsewhere(built: Path) -> None:
    for page in built.rglob("*.html"):
        assert LOADS.search(page.read_text(encoding="utf-8")) is None, page


@pytest.mark.parametrize("name", ["manifest.md", "commands.md", "formats.md", "providers.md"])
def test_a_page_from_the_code_is_current(name: str) -> None:
    path = ROOT / "docs" / name
    assert path.read_text(encoding="utf-8") == reference_pages.pages()[path], "run scripts/docs"


@pytest.mark.parametrize("name", ["qa", "layton", "mcq_idk", "zebralogic", "rome"])
def test_the_templates_and_their_variables_are_those_that_a_manifest_may_name(name: str, tmp_path: Path) -> None:
    page = (ROOT / "docs" / "tasks.md").read_text(encoding="utf-8")
    rows = re.findall(rf"^\| `{name}` \| `(\w+)` \| (.+) \|$", page, re.MULTILINE)
    file = tmp_path / "own.txt"

    def refusal(template: str, text: str) -> str:
        file.write_text(text, encoding="utf-8")
        with pytest.raises(ManifestError) as caught:
            load_task(name, TaskOptions("llm", prompts={template: file}))
        return str(caught.value)

    assert f"(templates: {', '.join(template for template, _ in rows)})" in refusal("nothing", "")
    for template, variables in rows:
        assert refusal(template, "{{ nothing }}").endswith(f"may use {variables.replace('`', '').replace('*', '')}")
        if needed := re.findall(r"\*\*`(\w+)`\*\*", variables):
            assert refusal(template, "").endswith(f"must use {{{{ {' }}, {{ '.join(needed)} }}}}")


def test_every_column_has_words_in_the_formats_page_and_no_words_are_stale() -> None:
    assert (format_page.wordless_columns(), format_page.stale_words()) == ([], []), "edit tools/format_page.toml"
