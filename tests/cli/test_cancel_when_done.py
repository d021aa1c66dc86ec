"""The command `cancel` on a run that has ended by itself: there is nothing to cancel, and nothing changes."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.sandbox import Fault
from tests.support.cli_harness import call, desk
from tests.support.lab import manifest_text

REFUSED = Fault(on="row", action="error", status=400, provider="openai", match=r"-000002\b")


def test_cancel_of_a_run_that_is_done_says_so_and_its_state_and_exit_code_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch, REFUSED) as bench:
        manifest = bench.write(manifest_text(limit=3))
        assert call("run", manifest).code == 5
        before = call("status", "lab", "--json").table()
        end = call("cancel", "lab")
        assert end.code == 0
        assert "nothing to cancel" in end.err
        assert call("status", "lab", "--json").table() == before
        again = call("run", manifest)
        assert again.code == 5
        assert "larch-2-mini" in again.out  # the leaderboard is shown as before
