"""The local copy of a bucket: what is written here is there first, and what others wrote comes here when it is told."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from layton_batch.errors import ManifestError, StorageError
from layton_batch.files import atomic
from layton_batch.files.object_storage import Bucket, local_copy
from layton_batch.runs.folders import copied_address, runs_at
from layton_batch.settings import Settings
from tests.support.object_server import ObjectServer

Host = Callable[[str], Path]


@pytest.fixture
def address(objects: ObjectServer) -> str:
    return f"s3://{objects.new_bucket()}/below"


@pytest.fixture
def host(objects: ObjectServer, address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Host]:
    """The runs of one more host, by its name; the same name: the same host, in a new process."""
    monkeypatch.setattr(atomic, "_storages", [])
    opened: dict[str, Bucket] = {}
    monkeypatch.setattr("layton_batch.files.object_storage._open", opened)

    def of(name: str) -> Path:
        for bucket in opened.values():
            bucket.keep_index()
        opened.clear()
        return local_copy(address, tmp_path / name, objects.environment)

    yield of
    opened.clear()


def _storage(runs: Path) -> Bucket:
    found = [one for one in atomic._storages if one.root == runs]
    assert isinstance(found[-1], Bucket)
    return found[-1]


def test_a_copy_knows_of_which_address_it_is_one(host: Host, address: str, tmp_path: Path) -> None:
    copy = host("one")
    assert copied_address(copy) == address
    assert copied_address(tmp_path / "runs") is None
    (tmp_path / "address").write_text("12 Main Street")
    assert copied_address(tmp_path / "runs") is None


def test_what_one_host_writes_and_removes_another_has_when_it_is_told(host: Host) -> None:
    one, other = host("one"), host("other")
    atomic.write_text(one / "a" / "run.json", "{}")
    atomic.write_text(one / "a" / "tables" / "x é#?%.parquet", "first")
    assert not (other / "a").exists()
    told = atomic.arrivals(other / "a")
    assert told is not None
    told([("a", 1)], ())
    assert (other / "a" / "tables" / "x é#?%.parquet").read_text() == "first"
    atomic.write_text(one / "a" / "tables" / "x é#?%.parquet", "second")
    told([("a", 1)], ())  # nothing new was told
    assert (other / "a" / "tables" / "x é#?%.parquet").read_text() == "first"
    told([("a", 2)], ())
    assert (other / "a" / "tables" / "x é#?%.parquet").read_text() == "second"
    atomic.remove(other / "a" / "tables" / "x é#?%.parquet")
    _storage(one).fetch()
    assert not (one / "a" / "tables" / "x é#?%.parquet").exists()


def test_a_folder_takes_the_place_of_another_one_with_all_its_files(host: Host) -> None:
    one, other = host("one"), host("other")
    atomic.write_text(one / "run" / "run.json", "{}")
    for names in (("a", "b"), ("b", "c")):
        with atomic.writing_folder(one / "run" / "tables" / "responses" / "batch") as folder:
            for name in names:
                (folder / name).write_text(f"{name} of {names}")
    _storage(other).fetch()
    found = {path.name: path.read_text() for path in (other / "run" / "tables" / "responses" / "batch").iterdir()}
    assert found == {name: f"{name} of ('b', 'c')" for name in ("b", "c")}


def test_the_next_process_of_a_host_fetches_only_what_changed_since(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = host("one"), host("other")
    for name in ("run.json", "same", "changed", "removed"):
        atomic.write_text(one / "run" / name, name)
    _storage(other).fetch()
    host("third")  # which keeps the indexes of the two, as their ends do
    atomic.write_text(one / "run" / "changed", "changed since")
    atomic.remove(one / "run" / "removed")
    got: list[str] = []
    original = Bucket._get
    monkeypatch.setattr(Bucket, "_get", lambda self, name, tag: (got.append(name), original(self, name, tag)))
    again = host("other")
    assert got == ["run/changed"]
    assert sorted(path.name for path in (again / "run").iterdir()) == ["changed", "run.json", "same"]
    assert (again / "run" / "changed").read_text() == "changed since"


def test_a_copy_without_an_index_holds_no_table_that_was_removed(host: Host, tmp_path: Path) -> None:
    one, other = host("one"), host("other")
    atomic.write_text(one / "run" / "run.json", "{}")
    for name in ("kept", "removed"):
        atomic.write_text(one / "run" / "tables" / "usage" / f"{name}.parquet", name)
    _storage(other).fetch()
    host("third")
    for index in (tmp_path / "other").glob("*/index.json"):
        index.write_text("no index")
    atomic.remove(one / "run" / "tables" / "usage" / "removed.parquet")
    again = host("other")
    assert [path.name for path in (again / "run" / "tables" / "usage").iterdir()] == ["kept.parquet"]


def test_lines_that_two_hosts_append_to_one_file_are_refused_instead_of_lost(host: Host) -> None:
    one, other = host("one"), host("other")
    for runs in (one, other):
        (runs / "run").mkdir(exist_ok=True)
        (runs / "run" / "labels.jsonl").write_text(f"of {runs}\n")
    atomic.has_grown(one / "run" / "labels.jsonl")
    with pytest.raises(StorageError, match="changed by another host"):
        atomic.has_grown(other / "run" / "labels.jsonl")
    (one / "run" / "labels.jsonl").write_text("two\nlines\n")
    atomic.has_grown(one / "run" / "labels.jsonl")
    atomic.write_text(one / "run" / "run.json", "{}")
    third = host("third")
    assert (third / "run" / "labels.jsonl").read_text() == "two\nlines\n"


def test_what_is_half_written_never_leaves_the_machine(host: Host) -> None:
    one = host("one")
    atomic.write_text(one / "run" / ".hidden.tmp" / "x", "not finished")
    assert not any(host("other").iterdir())


def test_a_storage_that_cannot_be_reached_is_a_sentence_and_nothing_gets_its_name(
    host: Host, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = host("one")

    def refuse(*_given: object, **_named: object) -> None:
        raise OSError("connection refused")

    monkeypatch.setattr("obstore.put", refuse)
    with pytest.raises(StorageError, match=r"s3://.* cannot be written \(run/x\): connection refused"):
        atomic.write_text(one / "run" / "x", "text")
    assert not (one / "run" / "x").exists()


def test_a_bucket_that_is_not_there_is_told_by_its_address(objects: ObjectServer, tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="s3://no-such-bucket-here/runs cannot be listed"):
        local_copy("s3://no-such-bucket-here/runs", tmp_path, objects.environment)


def test_a_storage_that_accepts_and_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("layton_batch.files.object_storage._open", {})
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environment = ObjectServer(f"http://127.0.0.1:{silent.getsockname()[1]}").environment
        begun = time.monotonic()
        with pytest.raises(StorageError, match=r"cannot be listed.*run the same command again") as told:
            local_copy("s3://silent/runs", tmp_path, environment, deadline=0.3)
    assert told.value.exit_code == 74
    assert time.monotonic() - begun < 15  # 30 s for each of several tries is what the library has by itself


@pytest.mark.parametrize(
    ("place", "state", "reason"),
    [
        ("s3://bucket/runs", "", "set LAYTON_BATCH_STATE to a PostgreSQL database"),
        ("s3://", "postgresql://", "write a folder, s3://BUCKET/FOLDER"),
        ("ftp://host/runs", "postgresql://", "write a folder, s3://BUCKET/FOLDER"),
    ],
)
def test_where_no_run_can_be_kept_the_address_is_refused_with_what_to_write(
    tmp_path: Path, place: str, state: str, reason: str
) -> None:
    settings = Settings.from_environment({"LAYTON_BATCH_STATE": state}, tmp_path)
    for given in (place, Path(place)):
        with pytest.raises(ManifestError, match=reason):
            runs_at(given, settings)


def test_engines_whose_workers_need_one_disk_are_refused(tmp_path: Path) -> None:
    given = {"LAYTON_BATCH_STATE": "postgresql://", "LAYTON_BATCH_ENGINE": "processes"}
    with pytest.raises(ManifestError, match="all workers need one folder on a disk"):
        runs_at("s3://bucket/runs", Settings.from_environment(given, tmp_path))


def test_a_folder_is_a_folder_however_it_is_written(tmp_path: Path) -> None:
    settings = Settings.from_environment({}, tmp_path)
    assert runs_at("runs/of us", settings) == Path("runs/of us")
    assert runs_at("file:///srv/runs%20of/us", settings) == Path("/srv/runs of/us")
