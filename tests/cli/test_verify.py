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
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from tempfile import TemporaryDirectory

import orjson
import polars as pl
import pytest
import zstandard

from layton_batch.errors import LaytonBatchError
from layton_batch.files.run_folder import RunFolder
from layton_batch.runs.stores import open_store
from layton_batch.settings import Settings
from layton_batch.site.build import DIGESTS, MARKER, write_digests
from layton_batch.verification import verify
from tests.cli.conftest import Finished
from tests.support.cli_harness import call, desk, refused
from tests.support.lab import MODELS, manifest_text, write_few_labels
from tests.support.tiers import tiered

MODEL = MODELS["openai"]
MORE_TOKENS = re.compile(rb'"(?:output|completion)_tokens": ?[0-9]+')


@dataclass(frozen=True)
class Verified:
    """A sound run. ``sources``: what it is computed again from; its first verification did that."""

    folder: RunFolder
    sources: object

    def differences(self) -> list[str]:
        """Return what `verify` names, or why it cannot, without computing everything again."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(verify, "copied_sources", lambda *_: nullcontext(self.sources))
            patch.setattr(verify, "recompute", lambda *_: None)
            return differences(self.folder)


def differences(folder: RunFolder) -> list[str]:
    try:
        return verify.verify_run(folder, Settings(folder.root)).differences
    except LaytonBatchError as error:
        return [str(error)]


@pytest.fixture(scope="module")
def verified(finished: Finished, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Verified]:
    folder = tmp_path_factory.mktemp("verified")
    shutil.copytree(finished.folder / "runs", folder / "runs")
    run = RunFolder(folder / "runs" / "lab")
    with open_store(run, Settings(folder)) as store, vars(verify)["copied_sources"](run, store) as sources:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(verify, "copied_sources", lambda *_: nullcontext(sources))
            assert differences(run) == []
        yield Verified(run, sources)


@pytest.fixture
def runs(here: Path) -> Path:
    return here / "runs"


@contextmanager
def restored(*paths: Path) -> Iterator[None]:
    """The files are as before when the block ends."""
    before = [(path, path.read_bytes(), path.stat().st_mtime_ns) for path in paths]
    try:
        yield
    finally:
        for path, content, when in before:
            path.write_bytes(content)
            os.utime(path, ns=(when, when))


def edit(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))


def unnamed_flips(paths: Sequence[Path], count: int, is_named: Callable[[Path], bool]) -> list[str]:
    """Flip drawn bits, each for itself: every second one of any file alike, the others by the files' sizes. Return
    those whose file nothing names."""
    chance, unnamed = random.Random(7), []
    files = [path for path in sorted(paths) if path.is_file() and path.stat().st_size]
    sizes = [path.stat().st_size for path in files]
    for number in range(count):
        path = chance.choice(files) if number % 2 else chance.choices(files, sizes)[0]
        bit, changed = chance.randrange(8 * path.stat().st_size), bytearray(path.read_bytes())
        changed[bit // 8] ^= 1 << bit % 8
        with restored(path):
            path.write_bytes(changed)
            if not is_named(path):
                unnamed.append(f"{path} bit {bit}")
    return unnamed


def test_other_pictures_of_the_same_charts_are_no_difference_and_other_data_are(verified: Verified) -> None:
    site = verified.folder.site
    picture, data, page = site / "charts" / "scores.png", site / "charts" / "scores.json", site / "charts.html"
    with restored(site / DIGESTS, picture, page):
        picture.write_bytes(picture.read_bytes() + b"drawn elsewhere")
        assert [line for line in verified.differences() if "charts" in line]  # by its digest
        edit(page, b'class="chart" width="', b'class="chart" width="1')
        write_digests(site)
        assert verified.differences() == []
        edit(page, b"Score in percent", b"Score in per cent")
        write_digests(site)
        assert str(page) in "".join(verified.differences())
    with restored(site / DIGESTS, data):
        edit(data, b'"score": ', b'"score": 1')
        write_digests(site)
        assert [str(data) in line for line in verified.differences()] == [True]


def test_a_sound_run_is_computed_again_whatever_its_files_dates_and_not_written_to(runs: Path) -> None:
    def tree() -> dict[str, str]:
        paths = (path for path in runs.rglob("*") if path.is_file() and not path.name.startswith("state.sqlite3"))
        return {str(path): sha256(path.read_bytes()).hexdigest() for path in paths}

    for path in runs.rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    before = tree()
    ending = call("verify", "lab")
    assert ending.code == 0, ending.err
    assert "8 predictions, " in ending.err
    assert "everything is as it was written, and as it is computed from the raw replies" in ending.err
    assert tree() == before


@pytest.mark.parametrize("flips", tiered((30, 500), ci=(30,)))
def test_every_flipped_bit_of_a_run_is_named(verified: Verified, flips: int) -> None:
    root = verified.folder.workspace.root
    sound = {path: pl.read_parquet(path) for path in root.rglob("*.parquet")}

    def is_named_or_equal(path: Path) -> bool:
        """Return whether the file is named, or is a table whose numbers and texts are as before."""
        if any(str(path) in line for line in verified.differences()):
            return True
        return path in sound and pl.read_parquet(path).equals(sound[path])

    paths = [*root.glob("lab/**/*"), *root.glob("batches/lab/**/*")]
    files = [path for path in paths if path != verified.folder.lock]  # it says who drove last
    assert unnamed_flips(files, flips, is_named_or_equal) == []


def test_raw_replies_that_say_otherwise_than_the_rows_are_named(runs: Path) -> None:
    (path,) = runs.glob(f"batches/lab/predict-{MODEL}*/output.jsonl.zst")
    replies = zstandard.ZstdDecompressor().stream_reader(path.read_bytes()).read()
    path.write_bytes(zstandard.ZstdCompressor(write_checksum=True).compress(MORE_TOKENS.sub(rb"\g<0>1", replies, 1)))
    (difference,) = call("verify", "lab", "--json").json[0]["differences"]  # type: ignore[index]
    assert difference == f"{path}: was changed since it was written (its digest differs)"
    change_rows(
        runs / "state.sqlite3",
        f"UPDATE files SET sha256 = '{sha256(path.read_bytes()).hexdigest()}', size_bytes = {path.stat().st_size} "
        f"WHERE name = '{path.relative_to(runs)}'",
    )
    tokens, cost, *_ = call("verify", "lab", "--json").json[0]["differences"]  # type: ignore[index]
    assert tokens.startswith(f"batches/lab/{path.parent.name} row ")
    assert ("output_tokens is " in tokens, "cost_usd is " in cost) == (True, True)


@pytest.mark.parametrize("name", ["run.json", "gold-*.jsonl"])
def test_nothing_is_decided_from_a_changed_copy_of_an_input(runs: Path, name: str) -> None:
    path = min((runs / "lab").glob(name))
    path.write_bytes(path.read_bytes() + b" ")
    assert f"{path.name} was changed since layton-batch wrote it" in refused("leaderboard", "lab")


def change_rows(database: Path, *statements: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("UPDATE runs SET manifest = replace(manifest, 'larch', 'lasch')", "its manifest of run lab is not the one in"),
        ("UPDATE batches SET path = replace(path, 'request', 'sequest')", "its row says '.*/sequest.jsonl'"),
        ("UPDATE requests SET fingerprint = zeroblob(32)", "its row wants an answer of another fingerprint"),
        ("UPDATE attempts SET unbatched_usd = '0/1' WHERE line = 0", "the run's rows cannot be read"),
        ("UPDATE jobs SET depends_on = 'x' WHERE depends_on IS NOT NULL", "judges job x, which the database does not"),
    ],
)
def test_rows_that_contradict_others_or_cannot_be_read_are_named(runs: Path, change: str, reason: str) -> None:
    change_rows(runs / "state.sqlite3", change)
    ending = call("verify", "lab")
    assert ending.code == 2
    assert re.search(reason, ending.err), ending.err


# ---- sites -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def site(finished: Finished, offline: Path) -> Path:
    """The site of the run, downloaded with its data."""
    return Path(shutil.copytree(finished.folder / "public", offline / "downloaded"))


def swap_digits(path: Path) -> None:
    path.write_bytes(path.read_bytes().translate(bytes.maketrans(b"45", b"54")))


def test_a_downloaded_site_is_computed_again_from_its_data_and_without_them_checked_by_its_digests(site: Path) -> None:
    page = site / "index.html"
    with restored(site / DIGESTS, page):
        swap_digits(page)
        assert f"{page}: was changed" in call("verify", site).err
        write_digests(site)
        ending = call("verify", site)
        assert (ending.code, f"{page}: byte " in ending.err) == (2, True)
    for name in ("judges.html", MARKER, DIGESTS):
        path = site / name
        with restored(path):
            swap_digits(path)
            assert name in call("verify", site).err
            path.unlink()
            ending = call("verify", site)
            assert (ending.code, name in ending.err) == (2, True)
    with restored(site / MARKER):
        (site / MARKER).write_bytes(b"[")
        write_digests(site)
        ending = call("verify", site)
        assert (ending.code, MARKER in ending.err) == (2, True)
    (site / "sources.tar.zst").unlink()
    assert call("verify", site).code == 2
    write_digests(site)
    ending = call("verify", site)
    assert (ending.code, "`site --with-data`" in ending.err) == (0, True)
    assert str(page) in refused("verify", page)


@pytest.mark.parametrize("flips", tiered((20, 200), ci=(20,)))
def test_every_flipped_bit_of_a_site_is_named(site: Path, offline: Path, flips: int) -> None:
    def is_named(_path: Path) -> bool:
        try:
            return bool(verify.verify_site(site, Settings(offline))[0].differences)
        except LaytonBatchError:
            return True

    assert unnamed_flips(list(site.rglob("*")), flips, is_named) == []


def pack(site: Path, packed: bytes) -> None:
    (site / "sources.tar.zst").write_bytes(zstandard.ZstdCompressor().compress(packed))
    write_digests(site)


@contextmanager
def unpacked(site: Path) -> Iterator[Path]:
    """Unpack a site's data into a folder."""
    packed = zstandard.ZstdDecompressor().stream_reader((site / "sources.tar.zst").read_bytes()).read()
    with TemporaryDirectory() as folder, tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
        yield Path(folder)


def test_the_data_of_a_site_says_neither_where_the_run_was_nor_who_paid(finished: Finished, site: Path) -> None:
    with unpacked(site) as root:
        assert not any(str(finished.folder).encode() in path.read_bytes() for path in root.rglob("*") if path.is_file())
        with open_store(RunFolder(root / "lab"), Settings(site)) as store:
            assert {(batch.account, batch.organisation) for batch in store.batches()} == {(None, None)}


@pytest.mark.parametrize(
    ("name", "size", "words"),
    [
        ("../planted", 2, "holds no sources of a run"),
        ("state.sqlite3", 2 << 20, "LAYTON_BATCH_MAX_UNPACKED_MIB"),
    ],
)
def test_the_data_of_a_stranger_s_site_writes_nothing_elsewhere_and_unpacks_within_the_limit(
    site: Path, monkeypatch: pytest.MonkeyPatch, name: str, size: int, words: str
) -> None:
    monkeypatch.setenv("LAYTON_BATCH_MAX_UNPACKED_MIB", "1")
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w") as archive:
        member = tarfile.TarInfo(name)
        member.size = size
        archive.addfile(member, io.BytesIO(bytes(size)))
    pack(site, packed.getvalue())
    ending = call("verify", site)
    assert (ending.code, words in ending.err) == (2, True), ending.err


def repack(site: Path, change: Callable[[Path], object]) -> None:
    """Change the workspace in a site's data as a stranger may."""
    with unpacked(site) as root:
        change(root)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as archive:
            for member in root.rglob("*"):
                if member.is_file():
                    archive.add(member, member.relative_to(root).as_posix())
    pack(site, packed.getvalue())


def test_rows_of_a_stranger_s_site_name_no_paths(site: Path) -> None:
    planted = "UPDATE jobs SET job_id = job_id || '/../../../planted'"
    repack(site, lambda root: change_rows(root / "state.sqlite3", planted))
    ending = call("verify", site)
    assert (ending.code, "/../../../planted' is no" in ending.err) == (2, True), ending.err


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
    repack(site, lambda root: change_rows(root / "state.sqlite3", *statements))
    ending = call("verify", site)
    assert (ending.code, "holds no sources of a run" in ending.err) == (2, True)


def test_nothing_that_a_stranger_s_site_names_elsewhere_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    labels = write_few_labels(tmp_path)
    with desk(tmp_path, monkeypatch) as bench:
        text = manifest_text(("openai",), limit=2, top=f'[gold]\nsource = "{labels}"\nrejudge = 0\ntrust = true')
        assert call("run", bench.write(text)).code == 0
        assert call("site", "lab", "--out", "public", "--with-data").code == 0
    repack(tmp_path / "public", lambda root: [*map(os.remove, (root / "lab").glob("gold*"))])
    labels.write_text("what nobody may read", encoding="utf-8")
    ending = call("verify", tmp_path / "public")
    assert ending.code == 0, ending.err
    assert f"nothing was computed again: {labels}: is not in the bundle" in ending.err


@pytest.mark.parametrize(
    ("content", "words"),
    [({"files": {"../../etc/passwd": {}}}, "is gone, or"), ({"files": {"a\0b": {}}}, "is gone, or")],
)
def test_a_list_of_a_stranger_s_site_leads_nowhere_else(
    tmp_path: Path, offline: Path, content: object, words: str
) -> None:
    (tmp_path / "index.html").write_bytes(b"")
    (tmp_path / "front.json").write_bytes(b'{"runs": ["a/../.."]}')
    write_digests(tmp_path)
    assert "front.json" in refused("verify", tmp_path)
    (tmp_path / DIGESTS).write_bytes(orjson.dumps(content))
    assert words in refused("verify", tmp_path)


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


def test_each_run_of_a_published_site_is_computed_again_from_its_data_and_named_by_its_address(
    site: Path, tmp_path: Path
) -> None:
    public = tmp_path / "public"
    run = Path(shutil.copytree(site, public / "a run"))
    (public / "front.json").write_bytes(orjson.dumps({"runs": ["a run"]}))
    (public / "index.html").write_text("front", encoding="utf-8")
    write_digests(public, ("front.json", "index.html"))
    with published(public) as address:
        ending = call("verify", f"{address}index.html")
        assert (ending.code, "as it was written, and as it is computed" in ending.err) == (0, True), ending.err
        swap_digits(run / "index.html")
        (run / "judges.html").unlink()
        ending = call("verify", address)
    assert ending.code == 2
    assert f"differs: {address}a run/index.html: was changed since" in ending.err
    assert f"differs: {address}a run/judges.html: is gone" in ending.err
    assert "layton-batch-site-" not in ending.err


@pytest.mark.parametrize(
    ("files", "reason"),
    [
        ({"../up.html": {"bytes": 1}}, "is no file of the site"),
        ({"a\0b": {"bytes": 1}}, "is no file of the site"),
        ({"a/b": {"bytes": 1}, "a": {"bytes": 1}}, "'a' is no file of the site"),
        ({"index.html": {"bytes": 1 << 50}}, "LAYTON_BATCH_MAX_DOWNLOAD_MIB"),
        ({f"{number}.html": {"bytes": 1} for number in range(20_001)}, "LAYTON_BATCH_MAX_MEMBERS"),
        ({"index.html": 1}, "is no list of a site's files"),
        (None, f"{DIGESTS}: there is no such file (HTTP 404)"),
    ],
)
def test_a_stranger_s_list_of_files_is_refused_before_anything_else_is_fetched(
    tmp_path: Path, files: object, reason: str
) -> None:
    if files is not None:
        (tmp_path / DIGESTS).write_bytes(orjson.dumps({"files": files}))
    with published(tmp_path) as address:
        ending = call("verify", address)
    assert (ending.code, reason in ending.err) == (2, True), ending.err
