"""verify: a run and a site are computed again from the raw replies; what differs is named, and nothing is written."""

from __future__ import annotations

import io
import os
import random
import re
import shutil
import sqlite3
import tarfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import orjson
import polars as pl
import pytest
import zstandard

from layton_batch.errors import DataError, LaytonBatchError
from layton_batch.files import tables
from layton_batch.files.limits import LIMITS
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.stores import open_store
from layton_batch.settings import Settings
from layton_batch.site.build import MARKER
from layton_batch.site.site_digests import DIGESTS, write_digests
from layton_batch.store.run_store import RunStore
from layton_batch.verification.inputs import RunSources, copied_sources, unpacked_sources
from layton_batch.verification.recompute import recompute
from layton_batch.verification.verify import (
    Verification,
    check_computed,
    check_inputs,
    compare_run,
    read_progress,
    verify_site,
)
from tests.support.cli_harness import call, desk
from tests.support.flips import count_file_flips, draw_bits
from tests.support.lab import BUNDLED, MODELS, manifest_text, write_few_labels
from tests.support.tiers import tiered

GOLD = f'[gold]\nsource = "{BUNDLED / "gold_llm.jsonl"}"'
MODEL = MODELS["openai"]
MORE_TOKENS = re.compile(rb'"(?:output|completion)_tokens": ?[0-9]+')


@dataclass(frozen=True)
class Verified:
    """A finished run, and the same computed again."""

    folder: RunFolder
    store: RunStore
    sources: RunSources

    def differences(self) -> list[str]:
        """As ``verify`` finds them, without computing everything again."""
        checked = Verification("lab")
        found = list(check_inputs(self.folder, self.store, checked))
        return found + list((check_computed if found else self._compare)(self.folder, checked))

    def _compare(self, folder: RunFolder, checked: Verification) -> Iterator[str]:
        return compare_run(folder, self.sources, read_progress(self.store), checked)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verified]:
    folder = tmp_path_factory.mktemp("finished")
    with pytest.MonkeyPatch.context() as patch, desk(folder, patch) as bench:
        assert call("run", bench.write(manifest_text(("openai", "anthropic"), top=GOLD))).code == 0
        assert call("site", "lab", "--out", folder / "public", "--with-data").code == 0
    settings = Settings(folder)
    run = RunFolder(folder / "runs" / "lab")
    with open_store(run, settings) as store, copied_sources(run, store) as sources:
        recompute(sources, settings)
        yield Verified(run, store, sources)


@pytest.fixture
def runs(finished: Verified, offline: Path) -> Path:
    """A copy of the run, where no provider can be reached."""
    shutil.copytree(finished.folder.workspace.root, offline / "runs")
    return offline / "runs"


def tree(root: Path) -> dict[str, str]:
    paths = (path for path in root.rglob("*") if path.is_file() and not path.name.startswith("state.sqlite3"))
    return {str(path): sha256(path.read_bytes()).hexdigest() for path in paths}


@contextmanager
def restored(path: Path) -> Iterator[None]:
    """The file is as before when the block ends."""
    content, when = path.read_bytes(), path.stat().st_mtime_ns
    try:
        yield
    finally:
        path.write_bytes(content)
        os.utime(path, ns=(when, when))


def test_other_pictures_of_the_same_charts_are_no_difference_and_other_data_are(finished: Verified) -> None:
    site = finished.folder.site
    picture, data, page = site / "charts" / "scores.png", site / "charts" / "scores.json", site / "charts.html"
    with restored(site / DIGESTS), restored(picture), restored(page):
        picture.write_bytes(picture.read_bytes() + b"drawn elsewhere")
        assert [line for line in finished.differences() if "charts" in line]  # by its digest
        page.write_bytes(page.read_bytes().replace(b'class="chart" width="', b'class="chart" width="1'))
        write_digests(site)
        assert finished.differences() == []
        page.write_bytes(page.read_bytes().replace(b"Score in percent", b"Score in per cent"))
        write_digests(site)
        assert [str(page) in line for line in finished.differences()] == [True]
    with restored(site / DIGESTS), restored(data):
        data.write_bytes(data.read_bytes().replace(b'"score": ', b'"score": 1', 1))
        write_digests(site)
        assert [str(data) in line for line in finished.differences()] == [True]


def test_a_sound_run_is_computed_again_whatever_its_files_dates_and_not_written_to(runs: Path) -> None:
    for path in runs.rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    before = tree(runs)
    ending = call("verify", "lab")
    assert ending.code == 0, ending.err
    assert "28 answers, 8 predictions, 21 verdicts, 3 labels, 2 models, " in ending.err
    assert "everything is as it was written, and as it is computed from the raw replies" in ending.err
    assert tree(runs) == before


def test_a_damaged_table_of_items_is_named_once(runs: Path) -> None:
    path = RunFolder(runs / "lab").part("items", "items")
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    assert call("verify", "lab").err.count(f"{path.relative_to(runs.parent)}: ") == 1


@pytest.mark.parametrize("flips", tiered((30, 500), ci=(30,)))
def test_every_flipped_bit_of_a_run_is_named(finished: Verified, flips: int) -> None:
    assert finished.differences() == []
    root = finished.folder.workspace.root
    bits = draw_bits([*root.glob("lab/**/*"), *root.glob("batches/**/*")], flips, random.Random(7))
    sound = {path: pl.read_parquet(path) for path in root.rglob("*.parquet")}

    def is_named_or_equal(path: Path) -> bool:
        """Return whether the file is named, or is a table whose numbers and texts are as before."""
        if any(str(path) in line for line in finished.differences()):
            return True
        return path in sound and pl.read_parquet(path).equals(sound[path])

    count = count_file_flips(bits, is_named_or_equal)
    assert (count.named.total(), count.missed) == (flips, [])


def test_a_table_that_says_otherwise_is_named_with_its_row(finished: Verified) -> None:
    (path,) = (finished.folder.tables / "verdicts").glob(f"*{MODEL}.parquet")
    table = tables.read_part(path)
    wrong = table.with_columns(both_correct=pl.Series([not table["both_correct"][0], *table["both_correct"][1:]]))
    with restored(path):
        tables.write(path, wrong, tables.made_from(path))
        (difference,) = finished.differences()
    assert difference.startswith(f"{path}: byte ")
    assert "row 1, both_correct: " in difference


def test_raw_replies_that_say_otherwise_than_the_rows_are_named(runs: Path) -> None:
    (path,) = runs.glob(f"batches/lab/predict-{MODEL}*/output.jsonl.zst")
    replies = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    path.write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(MORE_TOKENS.sub(rb"\g<0>1", replies, 1)))
    folder, settings = RunFolder(runs / "lab"), Settings(runs)
    with open_store(folder, settings) as store, copied_sources(folder, store) as sources:
        (difference,) = check_inputs(folder, store, Verification("lab"))
        assert difference == f"{path}: was changed since it was written (its digest differs)"
        tokens, cost, *_ = recompute(sources, settings, with_pages=False).differences
    assert tokens.startswith(f"batches/lab/{path.parent.name} row 3 (")
    assert ("output_tokens is " in tokens, "cost_usd is " in cost) == (True, True)


@pytest.mark.parametrize("name", ["run.json", "gold-*.jsonl"])
def test_nothing_is_decided_from_a_changed_copy_of_an_input(runs: Path, name: str) -> None:
    path = next(iter(sorted((runs / "lab").glob(name))))
    content = path.read_bytes()
    path.write_bytes(content.replace(b"riddle", b"riddlf", 1) if b"riddle" in content else content + b" ")
    ending = call("leaderboard", "lab")
    assert ending.code == 2
    assert f"{path.name} was changed since layton-batch wrote it" in ending.err


# ---- rows -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("UPDATE runs SET manifest = replace(manifest, 'larch', 'lasch')", "its manifest of run lab is not the one in"),
        ("UPDATE batches SET path = replace(path, 'request', 'sequest')", "its row says '.*/sequest.jsonl'"),
        ("UPDATE batches SET provider_id = 'x' WHERE seq = 0", "no row knows its provider's id 'x'"),
        ("UPDATE requests SET fingerprint = zeroblob(32)", "its row wants an answer of another fingerprint"),
        ("UPDATE provider_batches SET batch_id = 'x' WHERE seq = 1", "table provider_batches names batch 'x'"),
        ("UPDATE attempts SET unbatched_usd = '0/1' WHERE line = 0", "the run's rows cannot be read"),
        ("UPDATE jobs SET spec = '{' WHERE key = 1", "the run's rows cannot be read"),
        ("UPDATE jobs SET depends_on = 'x' WHERE depends_on IS NOT NULL", "judges job x, which the database does not"),
    ],
)
def test_rows_that_contradict_others_or_cannot_be_read_are_named(runs: Path, change: str, reason: str) -> None:
    with closing(sqlite3.connect(runs / "state.sqlite3")) as database:
        database.execute(change)
        database.commit()
    ending = call("verify", "lab")
    assert ending.code == 2
    assert re.search(reason, ending.err), ending.err


def is_named(verify: Callable[[], Verification]) -> bool:
    """Tell whether `verify` ends with 2: with a difference, or because the run cannot be read."""
    try:
        return bool(verify().differences)
    except LaytonBatchError:
        return True


# ---- sites -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def site(finished: Verified, offline: Path) -> Path:
    """The site of the run, downloaded with its data."""
    return Path(shutil.copytree(finished.folder.workspace.root.parent / "public", offline / "downloaded"))


def swap_digits(path: Path) -> None:
    path.write_bytes(path.read_bytes().translate(bytes.maketrans(b"45", b"54")))


def test_a_downloaded_site_is_computed_again_from_its_data(site: Path) -> None:
    swap_digits(site / "index.html")
    ending = call("verify", site)
    assert (ending.code, f"{site / 'index.html'}: was changed" in ending.err) == (2, True)
    write_digests(site)
    ending = call("verify", site)
    assert (ending.code, f"{site / 'index.html'}: byte " in ending.err) == (2, True)


@pytest.mark.parametrize("flips", tiered((20, 200), ci=(20,)))
def test_every_flipped_bit_of_a_site_is_named(site: Path, offline: Path, flips: int) -> None:
    bits = draw_bits(list(site.rglob("*")), flips, random.Random(7))
    count = count_file_flips(bits, lambda _path: is_named(lambda: verify_site(site, Settings(offline))[0]))
    assert (count.named.total(), count.missed) == (flips, [])


@pytest.mark.parametrize("change", [lambda path: path.unlink(), swap_digits], ids=["gone", "changed"])
@pytest.mark.parametrize("name", ["judges.html", "sources.tar.zst", "site.json", DIGESTS])
def test_a_site_names_each_file_that_is_not_as_it_was_written(
    site: Path, name: str, change: Callable[[Path], None]
) -> None:
    change(site / name)
    ending = call("verify", site)
    assert ending.code == 2
    assert name in ending.err


def test_a_site_without_its_data_is_checked_by_its_digests(site: Path) -> None:
    (site / "sources.tar.zst").unlink()
    write_digests(site)
    ending = call("verify", site)
    assert (ending.code, "`site --with-data`" in ending.err) == (0, True)
    page = call("verify", site / "index.html")
    assert (page.code, str(site / "index.html") in page.err) == (2, True)


def test_the_data_of_a_site_says_neither_where_the_run_was_nor_who_paid(finished: Verified, site: Path) -> None:
    packed = zstandard.ZstdDecompressor().stream_reader((site / "sources.tar.zst").read_bytes()).read()
    assert str(finished.folder.workspace.root).encode() not in packed
    with unpacked_sources(site / "sources.tar.zst") as sources, open_store(sources.folder, Settings(site)) as store:
        assert {(batch.account, batch.organisation) for batch in store.batches()} == {(None, None)}


@pytest.mark.parametrize("name", ["../planted", "/planted", "a/../../planted"])
def test_the_data_of_a_stranger_s_site_writes_nothing_elsewhere(tmp_path: Path, name: str) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = 2
        archive.addfile(member, io.BytesIO(b"{}"))
    path = tmp_path / "sources.tar.zst"
    path.write_bytes(zstandard.ZstdCompressor().compress(packed.getvalue()))
    with pytest.raises(DataError, match="holds no sources of a run"), unpacked_sources(path):
        pass


def repack(site: Path, change: Callable[[Path], None]) -> Path:
    """Change the workspace in a site's data as a stranger may, and return the data's path."""
    path = site / "sources.tar.zst"
    with unpacked_sources(path) as sources:
        root = sources.folder.workspace.root
        change(root)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for member in root.rglob("*"):
                if member.is_file():
                    archive.add(member, member.relative_to(root).as_posix())
    path.write_bytes(zstandard.ZstdCompressor().compress(packed.getvalue()))
    write_digests(site)
    return path


def changing(*statements: str) -> Callable[[Path], None]:
    def change(root: Path) -> None:
        with closing(sqlite3.connect(root / "state.sqlite3")) as database, database:
            for statement in statements:
                database.execute(statement)

    return change


def test_rows_of_a_stranger_s_site_name_no_paths(site: Path) -> None:
    path = repack(site, changing("UPDATE jobs SET job_id = job_id || '/../../../planted'"))
    with pytest.raises(DataError, match="is no"), unpacked_sources(path):
        pass


ENDLESS = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT x AS run_id FROM n"


@pytest.mark.parametrize(
    "statements",
    [
        ("ALTER TABLE events RENAME TO other", f"CREATE VIEW events AS {ENDLESS}"),
        ("CREATE TRIGGER t AFTER UPDATE ON runs BEGIN SELECT 1; END",),
        ("CREATE VIRTUAL TABLE text USING fts5(words)",),
        ("CREATE TABLE odd (a, b GENERATED ALWAYS AS (hex(zeroblob(1000000000))))",),
    ],
    ids=["view", "trigger", "virtual table", "computed column"],
)
def test_a_stranger_s_database_holds_plain_tables_only(site: Path, statements: tuple[str, ...]) -> None:
    repack(site, changing(*statements))
    ending = call("verify", site)
    assert (ending.code, "holds no sources of a run" in ending.err) == (2, True)


def test_nothing_that_a_stranger_s_site_names_elsewhere_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = write_few_labels(tmp_path)
    with desk(tmp_path, monkeypatch) as bench:
        text = manifest_text(("openai",), limit=2, top=f'[gold]\nsource = "{labels}"\nrejudge = 0\ntrust = true')
        assert call("run", bench.write(text)).code == 0
        assert call("site", "lab", "--out", tmp_path / "public", "--with-data").code == 0

    def forget(root: Path) -> None:
        for path in (root / "lab").glob("gold*"):
            path.unlink()

    repack(tmp_path / "public", forget)
    labels.write_text("what nobody may read", encoding="utf-8")
    ending = call("verify", tmp_path / "public")
    assert ending.code == 0, ending.err
    assert f"nothing was computed again: {labels}: is not in the bundle" in ending.err


@pytest.mark.parametrize("command", ["verify", "run", "plan", "leaderboard", "check-items"])
def test_a_pipe_is_refused_where_a_file_is_expected(offline: Path, command: str) -> None:
    for name in ("pipe.toml", "pipe.jsonl"):
        os.mkfifo(offline / name)
        words = ["check"] if command == "check-items" else [command]
        assert call(*words, offline / name).code == 2


@pytest.mark.parametrize("name", ["../../etc/passwd", "a\0b", "x" * 300])
def test_a_list_of_digests_that_names_no_file_of_the_site_reads_nothing_there(site: Path, name: str) -> None:
    (site / DIGESTS).write_bytes(orjson.dumps({"generator": "layton-batch", "files": {name: {}}}))
    ending = call("verify", site)
    assert ending.code == 2
    assert "is gone, or" in ending.err


def test_the_data_of_a_stranger_s_site_is_not_unpacked_beyond_the_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LIMITS, "unpacked_mib", 1)
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo("state.sqlite3")
        member.size = 2 << 20
        archive.addfile(member, io.BytesIO(bytes(member.size)))
    path = tmp_path / "sources.tar.zst"
    path.write_bytes(zstandard.compress(packed.getvalue()))
    with pytest.raises(DataError, match="LAYTON_BATCH_MAX_UNPACKED_MIB"), unpacked_sources(path):
        pass


@pytest.mark.parametrize("front", [b'{"runs": [".."]}', b'{"runs": ["a/../.."]}', b'{"runs": ["."]}', b"[]", b"{"])
def test_the_front_page_of_a_stranger_s_site_leads_nowhere_else(tmp_path: Path, offline: Path, front: bytes) -> None:
    (tmp_path / "front.json").write_bytes(front)
    (tmp_path / "index.html").write_bytes(b"")
    write_digests(tmp_path)
    ending = call("verify", tmp_path)
    assert (ending.code, ending.out) == (2, "")
    assert "front.json" in ending.err
    assert "Traceback" not in ending.err


def test_a_damaged_description_of_a_site_is_named(site: Path) -> None:
    (site / MARKER).write_bytes(b"[")
    write_digests(site)
    ending = call("verify", site)
    assert ending.code == 2
    assert MARKER in ending.err


def test_advice_is_on_what_differs(runs: Path, site: Path) -> None:
    swap_digits(site / "index.html")
    page = call("verify", site).err
    assert "put back from a copy: " in page
    assert "table away" not in page
    part = next((runs / "lab" / "tables" / "predictions").glob("*.parquet"))
    part.write_bytes(part.read_bytes()[:-9] + b"X" + part.read_bytes()[-8:])
    table = call("verify", "lab").err
    assert "move a damaged table away" in table
    assert "put back from a copy" not in table


# ---- published sites -------------------------------------------------------------------------------------------------


@contextmanager
def published(folder: Path) -> Iterator[str]:
    """The address at which a folder is served."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, *_arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=str(folder))) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def test_a_published_site_is_computed_again_from_its_data_and_named_by_its_address(site: Path) -> None:
    with published(site) as address:
        ending = call("verify", f"{address}index.html")
        assert (ending.code, f"{address}: everything is as it was written, and as it is computed" in ending.err) == (
            0,
            True,
        ), ending.err
        swap_digits(site / "index.html")
        (site / "judges.html").unlink()
        ending = call("verify", address)
    assert ending.code == 2
    assert f"differs: {address}index.html: was changed since" in ending.err
    assert f"differs: {address}judges.html: is gone" in ending.err
    assert "layton-batch-site-" not in ending.err


def test_published_sites_of_several_runs_are_each_checked(site: Path, tmp_path: Path) -> None:
    public = tmp_path / "public"
    shutil.copytree(site, public / "a run")
    (public / "front.json").write_bytes(orjson.dumps({"runs": ["a run"]}))
    (public / "index.html").write_text("front", encoding="utf-8")
    write_digests(public, ("front.json", "index.html"))
    with published(public) as address:
        sound = call("verify", address)
        assert (sound.code, "checked 2 files by digest" in sound.err + sound.out) == (0, True)
        swap_digits(public / "a run" / "index.html")
        ending = call("verify", address)
    assert (ending.code, f"{address}a run/index.html: was changed" in ending.err) == (2, True)


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"../up.html": {"bytes": 1}}, "is no file of the site"),
        ({"/etc/passwd": {"bytes": 1}}, "is no file of the site"),
        ({"a//b": {"bytes": 1}}, "is no file of the site"),
        ({"x" * 256: {"bytes": 1}}, "is no file of the site"),
        ({"x/" * 500 + "x": {"bytes": 1}}, "is no file of the site"),
        ({"a\0b": {"bytes": 1}}, "is no file of the site"),
        ({"a/b": {"bytes": 1}, "a": {"bytes": 1}}, "'a' is no file of the site"),
        ({"index.html": {"bytes": 1 << 50}}, "LAYTON_BATCH_MAX_DOWNLOAD_MIB"),
        ({f"{number}.html": {"bytes": 1} for number in range(20_001)}, "LAYTON_BATCH_MAX_MEMBERS"),
        ([], "is no list of a site's files"),
        ({"index.html": 1}, "is no list of a site's files"),
    ],
)
def test_a_stranger_s_list_of_files_is_refused_before_anything_else_is_fetched(
    tmp_path: Path, files: object, reason: str
) -> None:
    (tmp_path / DIGESTS).write_bytes(orjson.dumps({"files": files}))
    with published(tmp_path) as address:
        ending = call("verify", address)
    assert (ending.code, reason in ending.err) == (2, True), ending.err


def test_an_address_without_a_site_is_a_sentence(tmp_path: Path) -> None:
    with published(tmp_path) as address:
        ending = call("verify", address)
    assert (ending.code, f"{address}{DIGESTS}: there is no such file (HTTP 404)" in ending.err) == (2, True)
