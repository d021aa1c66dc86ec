"""The task contract, on every benchmark we ship and on a third party's, found by its entry point."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from layton_batch.errors import ManifestError
from layton_batch.pipeline import advance
from layton_batch.runs import find_run, read_run
from layton_batch.stages.rank import board
from layton_batch.status import RunState
from layton_batch.task_testing import TaskContract
from layton_batch.tasks import BUILT_IN, load_task, task_names
from layton_batch.tasks.protocol import Task, TaskOptions
from tests.pipeline.lab import lab, manifest_text

PLUGIN = Path(__file__).resolve().parents[2] / "docs" / "example_plugin"


@pytest.mark.parametrize("name", list(BUILT_IN))
class TestShipped(TaskContract):
    @pytest.fixture(autouse=True)
    def _named(self, name: str) -> None:
        self.name = name

    def make(self) -> Task:
        return load_task(self.name, TaskOptions(self.split))


class TestPictures(TaskContract):
    split = "vlm"

    def make(self) -> Task:
        return load_task("layton", TaskOptions(self.split))


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The example plug-in as an installer would leave it: its files and its entry points on the path."""
    place = tmp_path / "site-packages"
    place.mkdir()
    for name in ("spelling_task.py", "spelling_items.jsonl"):
        shutil.copy(PLUGIN / name, place)
    info = place / "layton_batch_spelling-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: layton-batch-spelling\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[layton_batch.tasks]\nspelling = spelling_task:SpellingTask\n")
    monkeypatch.syspath_prepend(str(place))
    yield
    sys.modules.pop("spelling_task", None)


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
        text = manifest_text(("openai", "mistral")).replace('task = "layton"', 'task = "spelling"')
        text = text[: text.index("[jury]")] + text[text.index("[[prices]]") :]
        with lab(tmp_path) as bench:
            status = bench.finish(text)
            assert status.state is RunState.DONE
            with read_run(find_run("lab", bench.runs), bench.settings) as run:
                assert not advance(run)
                rows = board(run, run.rules)
        assert {row.model for row in rows} == {"larch-2-mini", "sirocco-large"}
        assert {row.metric for row in rows} == {"exact"}


def test_no_stage_knows_a_tasks_name() -> None:
    stages = Path(__file__).resolve().parents[2] / "layton_batch" / "stages"
    text = "\n".join(path.read_text(encoding="utf-8") for path in stages.glob("*.py"))
    assert not [name for name in BUILT_IN if f'"{name}"' in text or f"tasks.{name}" in text]
