"""What can be wrong with a run's folder: told in a sentence, exit code 2, and nothing is sent twice or lost."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.cli_harness import Desk, call, desk, write
from tests.support.lab import manifest_text

COMMANDS = (
    ("status", "lab"), ("status", "lab", "--log"), ("leaderboard", "lab"), ("cost", "lab"),
    ("site", "lab", "--out", "pages"), ("cancel", "lab"), ("resolve", "lab", "b", "--resubmit"),
)  # fmt: skip
"""Every command that takes a run."""


@pytest.fixture
def bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Desk]:
    """A run that has been submitted and not more."""
    with desk(tmp_path, monkeypatch) as found:
        assert call("run", found.write(manifest_text()), "--once").code == 75
        yield found


@pytest.fixture(scope="module")
def left_behind(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What such a run leaves behind."""
    folder = tmp_path_factory.mktemp("left")
    with pytest.MonkeyPatch.context() as patch, desk(folder, patch) as found:
        assert call("run", found.write(manifest_text()), "--once").code == 75
    return folder


@pytest.fixture
def stale(left_behind: Path, offline: Path) -> Path:
    """A copy of that run's folder, where no provider can be reached."""
    shutil.copytree(left_behind / "runs", offline / "runs")
    shutil.copy(left_behind / "manifest.toml", offline)
    (root,) = (path.parent for path in (offline / "runs").glob("*/run.json"))
    return root


@pytest.mark.usefixtures("stale")
@pytest.mark.parametrize(
    ("command", "named"),
    [
        (("leaderboard", "runs"), "'runs'"),
        (("cost", "lba"), "did you mean 'lab'?"),
        (("cost", "--runs", "runs/lab"), "runs/lab"),
        (("resolve", "lab", "--resubmit"), "'lab'"),
        (("resolve", "lab", "b1", "--resubmit"), "'b1'"),
        (("compare", "A", "B", "lab"), "'A'"),
    ],
)
def test_a_run_or_batch_named_wrongly_is_named(command: tuple[str, ...], named: str) -> None:
    end = call(*command)
    assert (end.code, end.out) == (2, "")
    assert named in end.err


def test_a_batch_that_is_not_lost_is_told_as_such_without_its_provider_s_key(
    stale: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    folder = next((stale.parent / "batches" / "lab").iterdir())
    batch = folder.name
    end = call("resolve", "lab", batch, "--resubmit")
    assert end.code == 2
    assert f"batch {batch} of run lab is " in end.err
    assert "not lost: nothing to resolve" in end.err


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[0])
def test_a_run_there_is_not_is_refused_with_the_names_of_those_there_are(offline: Path, command: tuple[str]) -> None:
    end = call(*command)
    assert (end.code, end.out) == (2, "")
    assert "there is no run 'lab'" in end.err


def test_a_run_json_edited_by_hand_is_refused_by_every_command_that_goes_by_it(stale: Path) -> None:
    frozen = stale / "run.json"
    document = json.loads(frozen.read_bytes())
    document["manifest"]["items"]["limit"] = 3
    frozen.write_text(json.dumps(document), encoding="utf-8")
    for command in COMMANDS:
        end = call(*command)
        if command[0] in {"status", "cost"}:  # they show what is stored, and ask nothing of anyone
            assert end.code == 0, end.err
        elif command[0] != "resolve":  # which finds first that the batch is not lost
            assert (end.code, end.out) == (2, "")
            assert "run.json: was changed by hand" in end.err


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\xff", b'{"format": 99}', b'{"format": 1}'])
def test_a_run_json_that_is_none_is_refused(stale: Path, content: bytes) -> None:
    (stale / "run.json").write_bytes(content)
    end = call("leaderboard", "lab")
    assert (end.code, end.out) == (2, "")
    assert "run.json" in end.err


def test_a_folder_of_another_versions_form_is_refused_in_one_sentence(stale: Path) -> None:
    frozen = stale / "run.json"
    document = json.loads(frozen.read_bytes())
    frozen.write_text(json.dumps(document | {"run_id": "lab-0123abcd"}), encoding="utf-8")
    for command in (*COMMANDS, ("run", "manifest.toml")):
        end = call(*command)
        assert (end.code, end.out) == (2, ""), command
        assert "lab has the form of another version of layton-batch: use that version, or move" in end.err


def test_a_database_of_another_schema_is_refused_in_one_sentence(stale: Path) -> None:
    with closing(sqlite3.connect(stale.parent / "state.sqlite3")) as connection, connection:
        connection.execute("UPDATE schema_version SET version = 4")
    for command in (*COMMANDS, ("run", "manifest.toml")):
        end = call(*command)
        assert (end.code, end.out) == (2, ""), command
        assert "state.sqlite3 has schema version 4" in end.err


def test_a_database_that_is_none_is_refused(stale: Path) -> None:
    (stale.parent / "state.sqlite3").write_bytes(b"this is not a database at all, not even nearly" * 100)
    for name in ("-wal", "-shm"):
        (stale.parent / f"state.sqlite3{name}").unlink(missing_ok=True)
    for command in (*COMMANDS, ("run", "manifest.toml")):
        end = call(*command)
        if command[0] != "cost":
            assert (end.code, end.out) == (2, ""), command
            assert "state.sqlite3" in end.err
            assert "the files in each run's intents/ name the batches that were paid for" in end.err


def test_a_run_whose_database_is_gone_says_so(stale: Path) -> None:
    for path in stale.parent.glob("state.sqlite3*"):
        path.unlink()
    end = call("status", "lab")
    assert end.code == 2
    assert f"the state store {stale.parent / 'state.sqlite3'} is not there: put it back" in end.err


def test_a_folder_of_runs_deleted_midway_is_begun_anew_and_the_old_batch_is_not_taken_for_ours(bench: Desk) -> None:
    shutil.rmtree(bench.lab.runs)
    end = call("run", "manifest.toml", "--json")
    assert end.code == 0, end.err
    assert len(end.table()["batches"]) == 2  # type: ignore[arg-type]
    assert len(bench.lab.server.ledger().rows) >= 8


@pytest.mark.parametrize("folder", ["lab/tables", "batches"])
def test_parts_of_a_folder_that_vanish_midway_are_named(bench: Desk, folder: str) -> None:
    shutil.rmtree(bench.lab.runs / folder, ignore_errors=True)
    end = call("run", "manifest.toml", "--json")
    assert "Traceback" not in end.err
    assert end.code in {0, 2}
    if end.code:
        assert str(bench.run_root().name) in end.err


def test_a_file_in_place_of_the_runs_folder_is_refused(offline: Path) -> None:
    write(offline, "", "runs")
    end = call("run", write(offline, manifest_text()))
    assert end.code == 2
    assert "--runs runs: is a file" in end.err


def test_a_prompt_file_or_manifest_that_has_gone_does_not_stop_the_run_itself(bench: Desk) -> None:
    (bench.folder / "manifest.toml").unlink()
    assert call("cancel", "lab", "--json").code == 0
    assert call("run", "manifest.toml").code == 2
