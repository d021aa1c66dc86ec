"""The programs in ``jobs/`` with runs in object storage, on two hosts: the second sends nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.files import atomic
from layton_batch.files.object_storage import Bucket
from tests.cli.test_jobs import BILL, NIGHT, ROWS, TICK, bought, finish, job, prepare
from tests.support.cli_harness import desk
from tests.support.object_server import ObjectServer


def test_jobs_find_their_runs_in_object_storage(
    objects: ObjectServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: dict[str, Bucket] = {}
    monkeypatch.setattr(atomic, "_storages", [])
    monkeypatch.setattr("layton_batch.files.object_storage._open", opened)
    address = f"s3://{objects.new_bucket()}/runs"
    environment = {
        **objects.environment,
        "LAYTON_BATCH_RUNS": address,
        "LAYTON_BATCH_STATE": f"sqlite:///{tmp_path / 'state.sqlite3'}",
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with desk(tmp_path, monkeypatch) as bench:
        prepare(bench)
        for host in ("one", "two"):
            opened.clear()
            monkeypatch.setenv("LAYTON_BATCH_COPIES", str(tmp_path / host))
            for name in (NIGHT, TICK):
                end = finish(bench, name, "manifest.toml")
                assert (host, name, end.code) == (host, name, 0), end.err
            assert bought(bench) == [1] * ROWS
            assert "larch-2-mini" in job(bench, BILL).out
        monkeypatch.delenv("LAYTON_BATCH_RUNS")  # the user's list has the address
        end = finish(bench, NIGHT, "manifest.toml")
        assert f"lab goes on in {address}, where it was begun" in end.err
        assert bought(bench) == [1] * ROWS
        assert not Path("runs").exists()
