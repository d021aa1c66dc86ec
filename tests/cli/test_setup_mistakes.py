"""Mistakes in setting up: keys, providers, the sandbox, folders and the life of a run."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cli_harness import call, desk
from tests.support.lab import quiz_text

# ---- the life of a run -----------------------------------------------------------------------------------------------


def test_a_run_stopped_before_a_snapshot_of_its_board_has_its_name_is_whole_after_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    replace = Path.replace

    def stop(path: Path, target: Path) -> Path:
        if target.parent.name == "history":
            raise KeyboardInterrupt
        return replace(path, target)

    with desk(tmp_path, monkeypatch) as there:
        manifest = there.write(quiz_text())
        with monkeypatch.context() as patch:
            patch.setattr(Path, "replace", stop)
            assert call("run", manifest).code == 75
        assert not list((there.run_root() / "history").glob("*.json"))
        there.lab.clock.sleep(3600.0)
        assert call("run", manifest).code == 0
        verified = call("verify", "lab")
        assert verified.code == 0, verified.err
        assert [path.name for path in (there.run_root() / "history").iterdir()] == ["0001.json"]
