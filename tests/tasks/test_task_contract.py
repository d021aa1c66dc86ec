"""The task contract, on every benchmark we ship and on a third party's, found by its entry point."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import layton_batch
from layton_batch.errors import ManifestError
from layton_batch.pipeline import advance
from layton_batch.records import JsonValue
from layton_batch.runs.status import RunState
from layton_batch.stages.rank import board
from layton_batch.tasks import BUILT_IN, load_task, task_names
from layton_batch.tasks.protocol import Task, TaskOptions
from layton_batch.testing.tasks import TaskContract
from tests.support import plug_in
from tests.support.lab import lab, manifest_text

VARIANTS: list[tuple[str, str, dict[str, JsonValue]]] = [
    *((name, "llm", {}) for name in BUILT_IN),
    *((name, "vlm", {}) for name in ("layton", "rome")),
    *((name, "llm", {"protocol": protocol}) for name, protocol in (
        ("mcq_idk", "original"), ("mcq_idk", "original_v2"), ("zebralogic", "original"), ("zebralogic", "zeroeval"),
        ("rome", "original"))),
    *(("layton", split, {"role": "justify"}) for split in ("llm", "vlm")),
    ("rome", "llm", {"judge": True}),
    ("qa", "llm", {"justification": True}),
]  # fmt: skip
"""Each benchmark, with pictures, in its published protocols, and as a jury judges it."""


@pytest.mark.parametrize(("name", "split", "settings"), VARIANTS)
class TestShipped(TaskContract):
    @pytest.fixture(autouse=True)
    def _variant(self, name: str, split: str, settings: dict[str, JsonValue]) -> None:
        self.name, self.split, self.settings = name, split, settings

    def make(self) -> Task:
        return load_task(self.name, TaskOptions(self.split), self.settings)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    with plug_in.installed(tmp_path, monkeypatch):
        yield


@pytest.mark.usefixtures("installed")
class TestThirdParty(TaskContract):
    def make(self) -> Task:
        return load_task("spelling", TaskOptions(self.split))

    def test_it_is_listed_and_its_options_are_checked(self) -> None:
        assert "spelling" in task_names()
        load_task("spelling", TaskOptions("llm"), {"case_matters": True})
        with pytest.raises(ManifestError, match="did you mean 'case_matters'"):
            load_task("spelling", TaskOptions("llm"), {"case_mater": True})

    def test_a_manifest_names_it_and_the_whole_pipeline_runs_it(self, tmp_path: Path) -> None:
        text = manifest_text(("openai",)).replace('task = "layton"', 'task = "spelling"')
        text = text[: text.index("[jury]")] + text[text.index("[[prices]]") :]
        with lab(tmp_path) as bench:
            status = bench.finish(text)
            assert status.state is RunState.DONE
            with bench.open(text) as run:
                assert not advance(run)
                rows = board(run, run.rules)
        assert set(rows["model"]) == {"larch-2-mini"}
        assert set(rows["metric"]) == {"exact"}


def test_nothing_but_its_own_folder_and_the_sandbox_knows_a_tasks_name() -> None:
    package = Path(layton_batch.__file__).parent
    files = [file for file in package.rglob("*.py") if file.relative_to(package).parts[0] not in {"tasks", "sandbox"}]
    assert len(files) > 100
    # layton-batch and layton_batch are names of the package, layton-eval of a paper.
    named = re.compile(rf"\b(?:{'|'.join(BUILT_IN)})(?![\w-])")
    found = [
        f"{file.name}: {line.strip()}"
        for file in files
        for line in file.read_text(encoding="utf-8").splitlines()
        if named.search(line)
    ]
    assert not found
