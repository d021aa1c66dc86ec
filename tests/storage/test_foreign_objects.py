"""Objects of others below the address: no name stops a command, and a write whose reply was lost is known again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import Request, urlopen

import obstore
import pytest
from obstore.exceptions import AlreadyExistsError, GenericError, PreconditionError

from layton_batch.errors import StorageError
from layton_batch.files import atomic
from tests.storage.test_bucket import Host, _storage, address, host
from tests.support.object_server import ObjectServer

__all__ = ["address", "host"]

BAD = (
    "../y",
    "..",
    "//k",
    "/k",
    "run/../y",
    "run//x",
    "run/tables//x",
    "./z",
    "run/c\x01d",
    "zz\x01/y",
    "run/tables/./e",
)


def plant(objects: ObjectServer, address: str, name: str) -> None:
    """Put an object there whose name no program of ours would write."""
    with urlopen(Request(f"{objects.url}/{address.removeprefix('s3://')}/{quote(name)}", b"evil", method="PUT")):
        pass


FILES = ("run/run.json", "run/tables/votes/a.parquet", "run/tables/usage/b.parquet", "batches/run/b1/request.jsonl",
         "a-run/run.json", "zebra/run.json")  # fmt: skip


def written(runs: Path) -> None:
    for name in FILES:
        atomic.write_text(runs / name, name)


def read(runs: Path) -> Mapping[str, str]:
    return {str(path.relative_to(runs)): path.read_text() for path in runs.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", BAD)
def test_a_name_that_is_no_files_is_ignored_and_said(
    host: Host, objects: ObjectServer, address: str, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    one, other = host("one"), host("other")
    written(one)
    _storage(other).fetch()
    plant(objects, address, name)
    atomic.write_text(one / "run" / "tables" / "votes" / "a.parquet", "newer")
    atomic.remove(one / "run" / "tables" / "usage" / "b.parquet")
    with caplog.at_level(logging.WARNING):
        _storage(other).fetch()
        _storage(other).fetch()
    expected = {file: file for file in FILES} | {"run/tables/votes/a.parquet": "newer"}
    del expected["run/tables/usage/b.parquet"]
    assert read(other) == expected
    (said,) = [record.getMessage() for record in caplog.records if "is ignored" in record.getMessage()]
    assert address in said


@pytest.mark.parametrize("name", [name for name in BAD if "\x01" not in name])
def test_a_new_host_gets_every_file_beside_such_a_name(
    host: Host, objects: ObjectServer, address: str, name: str
) -> None:
    written(host("one"))
    plant(objects, address, name)
    assert read(host("new")) == {file: file for file in FILES}


def test_many_such_names_hide_nothing_that_was_known(host: Host, objects: ObjectServer, address: str) -> None:
    one, other = host("one"), host("other")
    written(one)
    _storage(other).fetch()
    for name in BAD:
        plant(objects, address, name)
    atomic.write_text(one / "zebra" / "run.json", "newer")
    _storage(other).fetch()
    assert read(other) == {file: file for file in FILES} | {"zebra/run.json": "newer"}


@pytest.mark.parametrize("folder", ["", "run/", "run/tables/"])
def test_several_such_names_in_one_folder_hide_nothing(
    host: Host, objects: ObjectServer, address: str, folder: str
) -> None:
    written(host("one"))
    for name in ("../y", "./z", "/k", "/k/l"):
        plant(objects, address, folder + name)
    assert read(host("new")) == {file: file for file in FILES}


def test_objects_that_belong_to_no_run_are_not_fetched(host: Host, objects: ObjectServer, address: str) -> None:
    written(host("one"))
    for name in ("readme.md", "backup/run/run.json", "backup/x", "batches/x", "batches/run/x", "site/index.html"):
        plant(objects, address, name)
    assert read(host("new")) == {file: file for file in FILES}


def test_batches_of_a_run_that_is_gone_are_still_there(host: Host) -> None:
    one = host("one")
    written(one)
    atomic.remove(one / "run" / "run.json")
    assert "batches/run/b1/request.jsonl" in read(host("new"))


def test_a_list_that_is_older_than_an_object_removes_nothing(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    one = host("one")
    written(one)
    listed: Callable[..., Any] = obstore.list

    def stale(*given: Any, **named: Any) -> Any:
        return [[row for row in rows if row["path"] != FILES[1]] for rows in listed(*given, **named)]

    monkeypatch.setattr("obstore.list", stale)
    _storage(one).fetch()
    assert read(one) == {file: file for file in FILES}


# ---- a call whose reply was lost


def lose_reply(monkeypatch: pytest.MonkeyPatch, error: Exception, call: str = "put") -> None:
    """The next call is carried out; its repetition, which the library makes by itself, is then refused."""
    original: Callable[..., Any] = getattr(obstore, call)

    def lost(*given: Any, **named: Any) -> Any:
        monkeypatch.setattr(f"obstore.{call}", original)
        original(*given, **named)
        raise error

    monkeypatch.setattr(f"obstore.{call}", lost)


def test_a_removal_whose_reply_was_lost_leaves_no_copy_here(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    path = host("one") / "run" / "raw" / "output.2.jsonl.zst"
    atomic.write_text(path.parents[1] / "run.json", "{}")
    atomic.write_text(path, "a copy that another one equals")
    lose_reply(monkeypatch, GenericError("connection reset"), "delete")
    with pytest.raises(StorageError, match="connection reset"):
        atomic.remove(path)
    assert not path.exists()
    assert not (host("one") / "run" / "raw" / "output.2.jsonl.zst").exists()


def test_an_append_whose_reply_was_lost_is_read_back_and_goes_on(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    path = host("one") / "run" / "labels.jsonl"
    atomic.write_text(path.with_name("run.json"), "{}")
    path.write_text("first\n")
    lose_reply(monkeypatch, AlreadyExistsError("exists"))
    atomic.has_grown(path)
    path.write_text("first\nsecond\n")
    lose_reply(monkeypatch, PreconditionError("changed"))
    atomic.has_grown(path)
    path.write_text("first\nsecond\nthird\n")
    atomic.has_grown(path)
    assert (host("other") / "run" / "labels.jsonl").read_text() == "first\nsecond\nthird\n"


def test_an_append_that_another_host_forestalled_is_still_refused(host: Host) -> None:
    one, other = host("one"), host("other")
    for runs in (one, other):
        (runs / "run").mkdir()
        (runs / "run" / "labels.jsonl").write_text(f"of {runs}\n")
    atomic.has_grown(one / "run" / "labels.jsonl")
    with pytest.raises(StorageError, match="changed by another host"):
        atomic.has_grown(other / "run" / "labels.jsonl")
