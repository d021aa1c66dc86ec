"""Sources of a run, without its results: rows, raw replies, items, labels, snapshots of boards; and computing it again
from these, by the pipeline's own stages."""

from __future__ import annotations

import json
import os
import sqlite3
import tarfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory

import orjson
import zstandard
from sqlalchemy import select

from layton_batch.batches.answers import read_outcomes, write_answers
from layton_batch.batches.bill import TOKENS, Bill
from layton_batch.batches.run_costs import has_charges
from layton_batch.errors import DataError, ManifestError
from layton_batch.files import limits, tables
from layton_batch.files.run_folder import RunFolder, Workspace
from layton_batch.records import Batch, RequestCost
from layton_batch.runs.context import Run
from layton_batch.runs.open import open_copy
from layton_batch.runs.own_prices import price_book
from layton_batch.scoring.leaderboard import complete
from layton_batch.settings import Settings
from layton_batch.stages.grade import grade
from layton_batch.stages.publish import publish, publish_costs
from layton_batch.stages.rank import rank
from layton_batch.stages.score import score
from layton_batch.states import Lifecycle
from layton_batch.store import schema
from layton_batch.store.copying import CopiedBatch, copy_run
from layton_batch.store.engine import open_engine, sqlite_url
from layton_batch.store.run_store import RunStore


@dataclass(slots=True)
class Verification:
    """Result of a verification.

    ``differences``: a sentence for each part that differs from its record or its recomputation. ``notes``: parts that
    could not be checked. ``files``: number of files checked by digest or recomputed. ``pages``: number of compared
    pages.
    """

    name: str
    files: int = 0
    answers: int = 0
    predictions: int = 0
    verdicts: int = 0
    labels: int = 0
    models: int = 0
    pages: int = 0
    dollars: Decimal = Decimal(0)
    differences: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


_ABOUT = "sources.json"
_PREFIX = "layton-batch-verify-"
_DAMAGED = (tarfile.TarError, zstandard.ZstdError, sqlite3.Error)


@dataclass(frozen=True, slots=True)
class RunSources:
    """The copy of a run without its tables, in a workspace of its own. ``batches``: of the run, and of others;
    ``board_written_at``: nanoseconds since the epoch; None: there is no board."""

    folder: RunFolder
    batches: tuple[CopiedBatch, ...]
    board_written_at: int | None


@contextmanager
def copied_sources(folder: RunFolder, store: RunStore) -> Iterator[RunSources]:
    """Copy what a run is computed from into a temporary workspace: rows are copied, files are linked to."""
    with TemporaryDirectory(prefix=_PREFIX) as temporary:
        workspace = Workspace(Path(temporary).resolve())
        copy = workspace.run(store.run_id)
        copy.root.mkdir()
        copy.manifest.write_text(_without_place(folder.manifest.read_bytes(), str(folder.manifest)), encoding="utf-8")
        manifest = _without_place(store.row().manifest, f"run {store.run_id} in its database")
        engine = open_engine(sqlite_url(workspace.database))
        try:
            batches = copy_run(store, RunStore(engine, store.run_id), manifest)
        finally:
            engine.dispose()
        left_out = folder.log, folder.manifest
        files = [path for path in folder.root.iterdir() if path.suffix in (".json", ".jsonl") and path not in left_out]
        files += [*folder.labels.glob("*"), *folder.history.glob("*"), *folder.tables.glob("items/*")]
        for path in files:
            if not path.name.startswith("."):
                _link(path, copy.root / path.relative_to(folder.root))
        for batch in batches:
            original = folder.workspace.batch(batch.run_id, batch.batch_id)
            target = workspace.batch(batch.run_id, batch.batch_id)
            paths = original.raw_results
            if not original.request_file.exists():
                paths += original.answers.glob("*.parquet")  # they were imported: there is nothing else of them
            for path in (original.request_file, *paths):
                if path.exists():
                    _link(path, target.root / path.relative_to(original.root))
            target.root.mkdir(parents=True, exist_ok=True)
        board = folder.part("leaderboard", "leaderboard")
        yield RunSources(copy, tuple(batches), board.stat().st_mtime_ns if board.exists() else None)


def _without_place(content: str | bytes, source: str) -> str:
    """Return a run's frozen manifests without the folder that they stood in, which tells of a machine and of who works
    on it. Raises ManifestError where they are none."""
    try:
        document = json.loads(content)
        for frozen in (document, *(revision["manifest"] for revision in document.get("revisions", ()))):
            frozen["folder"] = "."
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        raise ManifestError(f"{source}: not a frozen manifest ({type(error).__name__}: {error})") from error
    return json.dumps(document, indent=2, ensure_ascii=False)


def _link(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True, exist_ok=True)
    os.symlink(path.resolve(), to)


# ---- beside a site -------------------------------------------------------------------------------------------------


def pack_sources(folder: RunFolder, store: RunStore, path: Path) -> None:
    """Write what a run is computed from into one archive, for those who download its site."""
    with copied_sources(folder, store) as sources:
        root = sources.folder.workspace.root
        about = {"run": store.run_id, "board_written_at": sources.board_written_at}
        (root / _ABOUT).write_bytes(orjson.dumps(about))
        compressor = zstandard.ZstdCompressor(level=3, write_checksum=True)
        with (
            path.open("wb") as file,
            compressor.stream_writer(file) as stream,
            tarfile.open(fileobj=stream, mode="w|", dereference=True) as archive,
        ):
            for member in sorted(root.rglob("*")):
                if member.is_file():
                    archive.add(member, member.relative_to(root).as_posix(), recursive=False, filter=_nobodys)


def _nobodys(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Leave out whose file it was."""
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    member.mode = 0o644
    return member


@contextmanager
def unpacked_sources(path: Path) -> Iterator[RunSources]:
    """Unpack such an archive, which is a stranger's, into a temporary workspace. Raises DataError where it is none."""
    with TemporaryDirectory(prefix=_PREFIX) as temporary:
        root = Path(temporary).resolve()
        try:
            _unpack(path, root)
            about = orjson.loads((root / _ABOUT).read_bytes())
            run_id, written = str(about["run"]), about["board_written_at"]
            written = None if written is None else int(written)
            _check_database(Workspace(root).database)
            batches = _check_names(Workspace(root), run_id)
        except (OSError, ValueError, KeyError, TypeError, *_DAMAGED) as error:
            raise DataError(f"{path}: holds no sources of a run, or is damaged ({error})") from error
        yield RunSources(Workspace(root).run(run_id), batches, written)


def _unpack(path: Path, root: Path) -> None:
    """Extract only plain files below the folder. Raises ValueError for any other member, DataError beyond the limits of
    foreign files."""
    size = 0
    with (
        path.open("rb") as file,
        zstandard.ZstdDecompressor().stream_reader(file) as stream,
        tarfile.open(fileobj=stream, mode="r|") as archive,
    ):
        for member in archive:
            name = PurePosixPath(member.name)
            if not member.isreg() or name.is_absolute() or not set(name.parts).isdisjoint({"..", "."}):
                raise ValueError(f"{member.name!r} is no file of a run")
            size += member.size
            limits.check_unpacked(size, path, str(path))
            content = archive.extractfile(member)
            if content is None:
                raise ValueError(f"{member.name!r} has no content")
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            with target.open("xb") as out:
                while chunk := content.read(1 << 20):
                    out.write(chunk)


def _check_database(path: Path) -> None:
    """Raise ValueError where the database holds more than plain tables: a stranger's view, trigger, virtual table or
    computed column is code that runs when it is read."""
    with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)) as database:
        kinds = database.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master").fetchall()
        for kind, name, sql in kinds:
            if kind not in ("table", "index") or sql.upper().lstrip().startswith("CREATE VIRTUAL"):
                raise ValueError(f"its database has the {kind} {name!r}, which is no plain table")
            columns = database.execute("SELECT hidden FROM pragma_table_xinfo(?)", (name,)) if kind == "table" else ()
            if any(hidden for (hidden,) in columns):
                raise ValueError(f"table {name!r} of its database has a computed column")


def _check_names(workspace: Workspace, run_id: str) -> tuple[CopiedBatch, ...]:
    """Return the batches. Raises ValueError where a name in the rows is no name of a file: paths are made of them."""
    engine = open_engine(sqlite_url(workspace.database))
    try:
        with RunStore(engine, run_id).reading() as connection:
            batches, jobs = schema.batches, schema.jobs
            rows = connection.execute(select(batches.c.key, batches.c.run_id, batches.c.batch_id))
            copied = tuple(CopiedBatch(*row) for row in rows)
            names = {run_id, *connection.execute(select(jobs.c.job_id)).scalars()}
    finally:
        engine.dispose()
    names |= {name for batch in copied for name in (batch.run_id, batch.batch_id)}
    for name in names:
        if name in ("", ".", "..") or name != PurePosixPath(name).name:
            raise ValueError(f"{name!r} is no name")
    return copied


# ---- computed again ------------------------------------------------------------------------------------------------


def recompute(sources: RunSources, settings: Settings, checked: Verification, *, with_pages: bool = True) -> bool:
    """Write the tables, the board, the bill and the pages of the copy, and count them, with each batch whose raw
    replies contradict its rows. Raises LaytonBatchError where that fails.

    Return False, and write answers alone, while the jobs are those of an earlier revision of the manifest.
    """
    with open_copy(sources.folder, settings) as run:
        is_repriced, other_prices = not run.store.price_changes()[0], 0
        for copied in sources.batches:
            store = run.store if copied.run_id == run.id else RunStore(run.store.engine, copied.run_id)
            batch = store.batch(copied.batch_id)
            if batch.state is Lifecycle.COLLECTED and has_charges(batch):
                other_prices += _collect(run, store, batch, checked, is_repriced=is_repriced)
        spent = run.store.money().spent
        if spent != checked.dollars:
            checked.differences.append(f"state: its batches cost ${spent:f}, and their answers ${checked.dollars:f}")
        if other_prices:
            checked.notes.append(
                f"the cost of {other_prices} answers is taken as it was recorded: this version has other prices"
            )
        if not run.store.row().is_revised:
            return False
        grade(run)
        score(run)
        rank(run)
        board = sources.folder.part("leaderboard", "leaderboard")
        if sources.board_written_at is not None and board.exists():  # pages tell the board's date
            os.utime(board, ns=(0, sources.board_written_at))
        (publish if with_pages else publish_costs)(run)
        trouble = run.engine.trouble.items()
        checked.differences += [f"{about}: cannot be computed again: {why}" for about, why in trouble]
    folder = sources.folder.tables
    checked.predictions = tables.read(folder, "predictions", ["item_id"]).height
    checked.labels = tables.read(folder, "labels", ["item_id"]).height
    checked.models = complete(tables.read(folder, "leaderboard", ["progress"])).height
    checked.verdicts = sum(tables.read(folder, name, ["item_id"]).height for name in ("verdicts", "rejudged"))
    return True


def _collect(run: Run, store: RunStore, batch: Batch, checked: Verification, *, is_repriced: bool) -> int:
    """Write the answers of a batch, and compare its charges where it is the run's own; ``is_repriced``: they are by the
    manifest's latest prices. Return the number of answers whose prices are no longer known."""
    folder = run.folder.workspace.batch(store.run_id, batch.id)
    about = folder.root.relative_to(run.folder.workspace.root).as_posix()
    recorded, requests = store.ends_of(batch.id), store.asked_of(batch.id)
    outcomes = read_outcomes(folder, recorded, batch, run.providers.dialect(batch.provider).decode)
    ends = outcomes.ends
    for number, (custom_id, end) in enumerate(recorded.items(), 1):
        if (now := ends[custom_id]) != end:
            raw = ", ".join(f"{about}/{path.name}" for path in folder.raw_results) or "the raw results"
            both = f"{raw} say {' '.join(now)}, the row {' '.join(end)}"
            checked.differences.append(f"{about} row {number} ({custom_id}): {both}")
    prices = price_book(run.manifest, batch.ended_at or batch.due_at)
    bill = Bill(prices.price(batch.provider, batch.model), requests)
    write_answers(folder, batch, outcomes, bill.enter)
    if store is not run.store:
        return 0
    charges = store.charges_of(batch.id)
    checked.answers += sum(charge.is_answered for charge in charges)
    checked.dollars += sum((charge.cost_usd for charge in charges if charge.cost_usd is not None), Decimal(0))
    charged, other_prices = {charge.custom_id: charge for charge in bill.charges}, 0
    for number, charge in enumerate(charges, 1):
        computed, names = charged.pop(charge.custom_id, RequestCost(charge.custom_id)), TOKENS
        is_same_price = computed.price_source == charge.price_source
        if is_repriced:
            names += ("unknown_cost", *(_COSTS if is_same_price else ()))
            other_prices += charge.cost_usd is not None and not is_same_price
        for name in names:
            if getattr(computed, name) != getattr(charge, name):
                checked.differences.append(
                    f"{about} row {number} ({charge.custom_id}): {name} is {getattr(computed, name)} by the raw "
                    f"results, {getattr(charge, name)} in the row"
                )
    checked.differences += [
        f"{about} ({custom_id}): by the raw results it was charged, and no row says so" for custom_id in charged
    ]
    return other_prices


_COSTS = ("cost_usd", "unbatched_usd")
