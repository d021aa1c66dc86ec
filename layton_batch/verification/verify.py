"""Verify a run or a site: every digest, and everything that is computed, from the raw replies on."""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass
from itertools import chain
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit, urlunsplit

import orjson
import polars as pl
from polars.testing import assert_series_equal
from sqlalchemy import and_, select

from layton_batch.batches.run_costs import cost_report
from layton_batch.clock import Clock
from layton_batch.errors import DamagedTableError, DataError, MissingSourceError
from layton_batch.files import limits, tables
from layton_batch.files.addresses import fetch, fetch_below
from layton_batch.files.atomic import changed_files
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import FileDigest
from layton_batch.runs.folders import stored_manifest
from layton_batch.runs.imported import is_imported
from layton_batch.runs.labels import read_label_actions
from layton_batch.runs.status import read_status
from layton_batch.runs.stores import event_row, open_store, recorded_files
from layton_batch.settings import Settings
from layton_batch.site.build import (
    ANSWERS,
    DIGESTS,
    FRONT,
    MARKER,
    SOURCES,
    build_site,
    differing_files,
    is_file_name,
    made_from,
)
from layton_batch.states import OPEN
from layton_batch.store import schema
from layton_batch.store.engine import shown
from layton_batch.store.intents import strange_intents
from layton_batch.store.run_store import RunStore
from layton_batch.verification.recompute import RunSources, Verification, copied_sources, recompute, unpacked_sources

_BOARD = frozenset({"leaderboard", "pairs", "label_need", "judges", "labels"})
"""Tables that are made with the board."""
_BY_JOB = ("predictions", "verdicts", "rejudged", "grades", "scores", "reused")
CHANGED = "was changed since it was written (its digest differs)"


@dataclass(frozen=True, slots=True)
class Progress:
    """State of a run when it is verified. ``open_jobs``: ids of the jobs whose tables are still to be made."""

    open_jobs: frozenset[str]
    is_finished: bool


def read_progress(store: RunStore) -> Progress:
    """Read from the rows what of a run is finished. All jobs are open while a revision is not planned; a judge's job is
    open with the job that it judges."""
    row, jobs = store.row(), store.jobs()
    is_revised = row.is_revised
    ungraded = {job.id for job in jobs if not is_revised or not job.graded or job.is_stale}
    ungraded |= store.unfinished([job.id for job in jobs])  # another run may have an answer asked for once more
    open_jobs = frozenset(job.id for job in jobs if not ungraded.isdisjoint({job.id, job.depends_on}))
    is_repriced = not store.price_changes()[0]
    return Progress(open_jobs, is_finished=is_repriced and is_revised and not open_jobs and not store.batches(OPEN))


def verify_run(folder: RunFolder, settings: Settings) -> Verification:
    """Check a run's files, and compute it again in a temporary folder. Nothing is written into the run.

    Raises LaytonBatchError where the run cannot be read at all.
    """
    checked = Verification(folder.root.name)
    try:
        with open_store(folder, settings) as store:
            checked.differences += check_inputs(folder, store, checked)
            checked.differences += check_rows(folder, store, stored_manifest(folder))
            if checked.differences:  # what is computed from damaged files is worth nothing
                checked.differences += check_computed(folder, checked)
                return checked
            progress = read_progress(store)
            with copied_sources(folder, store) as sources:
                checked.differences += _check_others(folder, store, sources)
                recompute(sources, Settings(settings.cwd), checked)
                checked.differences += compare_run(folder, sources, progress, checked)
    except (ValueError, LookupError, TypeError, ArithmeticError) as error:  # of a value in the database
        kind = type(error).__name__
        checked.differences.append(f"{folder.workspace.root}: the run's rows cannot be read ({kind}: {error})")
    return checked


def check_inputs(folder: RunFolder, store: RunStore, checked: Verification) -> Iterator[str]:
    """Yield differences of the run's inputs from their digests, and of log and intents from their rows.

    Answers are inputs if they were imported. Else they are computed again from the raw results.
    """
    root = folder.workspace.root
    batches = [
        batch
        for batch in store.batches()
        if batch.path and (root / batch.path).parent.is_dir() and not batch.was_withdrawn
    ]
    computed = {folder.batch(batch.id).answers.relative_to(root) for batch in store.batches() if not is_imported(batch)}
    of_batches = store.files(f"{folder.batches.relative_to(root).as_posix()}/")
    recorded = [
        *recorded_files(store, folder),
        *(file for file in of_batches if Path(file.name).parent not in computed),
        *(FileDigest(batch.path, batch.size_bytes, batch.sha256) for batch in batches),
    ]
    checked.files += len(recorded)
    for path in changed_files(root, recorded):
        yield f"{path}: {CHANGED}" if path.exists() else f"{path}: is gone"
    actions = read_label_actions(folder)
    yield from actions.passed_over
    yield from _check_log(folder, store)
    yield from (f"{path}: no row tells of this intent" for path in strange_intents(folder.intents, store))


def _check_others(folder: RunFolder, store: RunStore, sources: RunSources) -> Iterator[str]:
    """Check raw results in this workspace that other runs paid for, and this run uses."""
    root = folder.workspace.root
    for batch in sources.batches:
        here = folder.workspace.batch(batch.run_id, batch.batch_id).root
        if batch.run_id != store.run_id and here.is_dir():
            recorded = RunStore(store.engine, batch.run_id).files(f"{here.relative_to(root).as_posix()}/")
            yield from (f"{path}: {CHANGED}" for path in changed_files(root, recorded))


def _check_log(folder: RunFolder, store: RunStore) -> Iterator[str]:
    if not folder.log.exists():
        return
    events = {orjson.dumps(event_row(store.run_id, event)) for event in store.events()}
    position = 0
    with folder.log.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip() and line.rstrip(b"\n") not in events:
                yield f"{folder.log}: row {number}, from byte {position}: is no event of the run"
            position += len(line)


def _unreadable_tables(paths: Iterable[Path]) -> Iterator[str]:
    for path in paths:
        try:
            tables.read_part(path)
        except DamagedTableError as error:
            yield str(error)


def check_computed(folder: RunFolder, checked: Verification) -> Iterator[str]:
    """Check that the tables of a run can be read, and its pages by their digests; ``check_inputs`` checks the items."""
    checked.notes.append("nothing was computed again, for that begins with these files")
    parts = (folder.tables, *(batch / "answers" for batch in folder.batches.glob("*")))
    paths = [path for part in parts for path in part.rglob("[!.]*.parquet")]
    yield from _unreadable_tables(path for path in paths if path != folder.part("items", "items"))
    if (folder.site / DIGESTS).exists():
        yield from differing_files(folder.site)


def compare_run(folder: RunFolder, sources: RunSources, progress: Progress, checked: Verification) -> Iterator[str]:
    """Yield differences between the run's answers, tables, prompts and pages and the recomputed ones.

    What is still to be made, or to be made again, is not compared, and a note says so.
    """
    copy = sources.folder
    site, site_of_now = made_from(folder.site), made_from(copy.site)
    is_site_of_now = progress.is_finished and site == site_of_now
    board, board_of_now = (tables.made_from(each.part("leaderboard", "leaderboard")) for each in (folder, copy))
    is_board_of_now = board == board_of_now or (board is None and is_site_of_now)
    if not progress.is_finished:
        checked.notes.append(
            "the run is not finished: tables and pages that it has still to make, or to make again, are not compared; "
            "`layton-batch run` makes them"
        )
    elif not is_board_of_now:
        checked.notes.append(
            "the board is not made yet: `layton-batch run` makes it"
            if board is None
            else "the board is of other labels or another version: `layton-batch site` computes it anew"
        )
    behind = _behind(progress, is_board_of_now=is_board_of_now, is_site_of_now=is_site_of_now)
    yield from _unreadable_tables(
        path for path in folder.tables.rglob("[!.]*.parquet") if _is_among(behind, folder, path)
    )
    checked.files += count_files(folder.tables)
    yield from compare_folders(folder.tables, copy.tables, without=behind)
    pairs = [(folder.prompts, copy.prompts)]
    for batch in sources.batches:
        if folder.workspace.batch(batch.run_id, batch.batch_id).root.is_dir():
            own, recomputed = (each.workspace.batch(batch.run_id, batch.batch_id).answers for each in (folder, copy))
            pairs.append((own, recomputed))
    for stored, computed in pairs:
        checked.files += count_files(stored)
        yield from compare_folders(stored, computed)
    if not (folder.site / MARKER).exists():
        return
    checked.files += count_files(folder.site)
    if (folder.site / DIGESTS).exists():
        yield from differing_files(folder.site)
    else:
        yield f"{folder.site / DIGESTS}: is gone"
    if is_site_of_now:
        checked.pages = count_files(copy.site)
        yield from compare_folders(folder.site, copy.site, without={DIGESTS})  # of pictures, too
    elif progress.is_finished:
        checked.notes.append("the pages are of an earlier board: `layton-batch run` makes them again")


def _behind(progress: Progress, *, is_board_of_now: bool, is_site_of_now: bool) -> frozenset[str]:
    """Return the tables, and parts of tables, that may be of an earlier state of the run, or not be there yet."""
    names = {f"{table}/{job_id}.parquet" for table in _BY_JOB for job_id in progress.open_jobs}
    if not is_board_of_now:
        names.update(("scores", *_BOARD))
    if not is_site_of_now:
        names.update(("cost", "usage"))
    return frozenset(names)


def _is_among(names: frozenset[str], folder: RunFolder, path: Path) -> bool:
    """Return whether the table of a part file, or the part itself, is one of the names."""
    name = path.relative_to(folder.tables)
    return not names.isdisjoint({name.as_posix(), name.parts[0]})


# ---- a site --------------------------------------------------------------------------------------------------------


def is_site(folder: Path) -> bool:
    """Tell whether the folder is a site of one run or of several runs."""
    return any((folder / name).is_file() for name in (MARKER, FRONT, DIGESTS))


def verify_site(folder: Path, settings: Settings) -> list[Verification]:
    """Check a site, or each of several, by its digests, and recompute a site with its sources.

    Raises DataError for a site without digests, or whose description cannot be read.
    """
    checked = _verify_digests(folder)
    if (folder / MARKER).is_file():
        return [_verify_run_site(folder, settings, checked)]
    checked.files = sum(path.is_file() and path.name != DIGESTS for path in folder.iterdir())
    names = [] if checked.differences else listed_runs(folder / FRONT)
    return [checked, *(_verify_run_site(folder / name, settings, _verify_digests(folder / name)) for name in names)]


def _verify_digests(site: Path) -> Verification:
    if not (site / DIGESTS).is_file():
        raise DataError(
            f"{site} has no {DIGESTS}: it was written by another version, or was not downloaded whole; "
            "download all of it, or write it again with `layton-batch site RUN --out FOLDER`"
        )
    return Verification(site.name, differences=list(differing_files(site)))


def listed_runs(front: Path) -> list[str]:
    """Return the names of the sites below a front page. Raises DataError for a name that leads elsewhere."""
    listed = _description(front).get("runs")
    names = [str(name) for name in listed] if isinstance(listed, list) else []
    for name in names:
        if name in ("", ".", "..") or name != PurePosixPath(name).name:
            raise DataError(f"{front}: {name!r} is no name of a site")
    return names


def _description(path: Path) -> Mapping[str, object]:
    """Read a JSON object that describes a site. Raises DataError where it is none."""
    try:
        description = orjson.loads(path.read_bytes())
    except (OSError, ValueError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    if not isinstance(description, dict):
        raise DataError(f"{path}: is no description of a site")
    return description


def _verify_run_site(site: Path, settings: Settings, checked: Verification) -> Verification:
    checked.files = count_files(site)
    if not (site / SOURCES).is_file():
        checked.notes.append("nothing was computed again: the site is without its data (`site --with-data`)")
    elif not checked.differences:
        with unpacked_sources(site / SOURCES) as sources:
            # the bundle is a stranger's: nothing that it names elsewhere is read
            settings = Settings(settings.cwd, only_below=sources.folder.workspace.root)
            notes = list(checked.notes)
            try:
                is_revised = recompute(sources, settings, checked, with_pages=False)
            except MissingSourceError as error:
                note = f"nothing was computed again: {error}"
                return Verification(checked.name, checked.files, notes=[*notes, note])
            if is_revised:
                checked.differences += _compare_pages(site, sources, checked, settings)
            else:
                checked.notes.append("no page was computed again: the site was written in the middle of an edit")
    return checked


def _compare_pages(site: Path, sources: RunSources, checked: Verification, settings: Settings) -> Iterator[str]:
    home, copy = _description(site / MARKER).get("home"), sources.folder
    with TemporaryDirectory(prefix="layton-batch-pages-") as temporary:
        pages = Path(temporary).resolve() / "pages"
        has_answers = (site / ANSWERS).is_file()
        with open_store(copy, settings) as store:
            build_site(
                copy, read_status(store), cost_report({copy: store}), pages, origin=made_from(site), home=str(home),
                add_answers=lambda _path: has_answers,
            )  # fmt: skip
        checked.pages = count_files(pages)
        yield from compare_folders(site, pages, without={ANSWERS, SOURCES, DIGESTS})


# ---- a site over HTTP: the files that its list of digests names are downloaded -----------------------------------


_PAGE = "index.html"


def verify_url(url: str, settings: Settings, clock: Clock) -> list[Verification]:
    """Check the site at an address as :func:`verify_site` checks one in a folder. Messages name its files by address.

    Raises DataError where the site cannot be read, is larger than the limits allow, or names files elsewhere.
    """
    address = _address(url)
    with TemporaryDirectory(prefix="layton-batch-site-") as temporary:
        folder = Path(temporary).resolve() / "site"
        try:
            names = _download(address, folder, clock)
            if FRONT in names and MARKER not in names:
                for name in listed_runs(folder / FRONT):
                    _download(f"{address}{name}/", folder / name, clock)
            results = verify_site(folder, settings)
        except DataError as error:
            raise DataError(str(error).replace(f"{folder}/", address)) from error
        for result in results:
            result.differences = [line.replace(f"{folder}/", address) for line in result.differences]
        results[0].name = address
    return results


def _address(url: str) -> str:
    """Return the address of the site's folder, with a slash at its end, by that of the folder or of its first page."""
    parts = urlsplit(url)
    path = parts.path.removesuffix(_PAGE).removesuffix(DIGESTS)
    return urlunsplit((parts.scheme, parts.netloc, path if path.endswith("/") else f"{path}/", "", ""))


def _download(address: str, folder: Path, clock: Clock) -> Sequence[str]:
    """Download a site's list of digests and the files that the list names; return their names. Those that are not there
    are left out."""
    folder.mkdir(parents=True, exist_ok=True)
    fetch(f"{address}{DIGESTS}", folder / DIGESTS, token=None, clock=clock)
    names = _listed_files(folder / DIGESTS, address)
    fetch_below(address, names, folder, clock)
    return names


def _listed_files(path: Path, address: str) -> Sequence[str]:
    """Return the names that a stranger's list of digests holds. Raises DataError where it is none, where a name leads
    elsewhere, and where the files are more or larger than the limits allow."""
    limits.check_document(path, f"{address}{DIGESTS}")
    try:
        files = {str(name): int(file["bytes"]) for name, file in orjson.loads(path.read_bytes())["files"].items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{address}{DIGESTS}: is no list of a site's files") from error
    limits.LIMITS.check("members", len(files), f"{address}{DIGESTS}", "the site has")
    limits.check_download(sum(files.values()), address)
    folders = {str(folder) for name in files for folder in PurePosixPath(name).parents}
    for name in files:
        if name in folders or not is_file_name(name):
            raise DataError(f"{address}{DIGESTS}: {name[:200]!r} is no file of the site")
    return sorted(files)


# ---- rows ----------------------------------------------------------------------------------------------------------

_MOST_NAMED = 20


def check_rows(folder: RunFolder, store: RunStore, manifest: Manifest) -> Iterator[str]:
    """Yield a sentence for each row that contradicts another one, a file or an index. Raises what a value raises that
    cannot be read."""
    place = shown(store.engine.url)
    with store.reading() as connection:
        if store.engine.dialect.name == "sqlite":
            lines = connection.exec_driver_sql(f"PRAGMA integrity_check({_MOST_NAMED})").scalars()
            yield from (f"{place}: {line}" for line in lines if line != "ok")
        runs = schema.runs
        frozen = connection.scalar(select(runs.c.manifest).where(runs.c.run_id == store.run_id))
        is_same = frozen is not None and json.loads(frozen) == manifest.frozen()
        if not is_same and not _was_stopped_at_an_edit(store):
            yield f"{place}: its manifest of run {store.run_id} is not the one in {folder.manifest}"
        requests, jobs = schema.requests, schema.jobs
        mine = and_(jobs.c.key == requests.c.job, jobs.c.run_id == store.run_id)
        is_first = and_(requests.c.reask == 0, requests.c.doublings == 0, requests.c.fingerprint.is_not(None))
        other = select(jobs.c.job_id, requests.c.custom_id).where(mine, is_first)
        other = other.where(requests.c.fingerprint != requests.c.answer).limit(_MOST_NAMED)
        for job_id, custom_id in connection.execute(other):
            yield f"{place}: job {job_id} ({custom_id}): its row wants an answer of another fingerprint"
        batch_ids = {batch.id for batch in store.batches()}
        provider_batches = schema.provider_batches
        names = set(
            connection.execute(
                select(provider_batches.c.batch_id).where(provider_batches.c.run_id == store.run_id)
            ).scalars()
        )
        yield from (
            f"{place}: table {provider_batches.name} names batch {name!r}, which is none" for name in names - batch_ids
        )
    yield from _check_batches(folder, store, place)


def _was_stopped_at_an_edit(store: RunStore) -> bool:
    """Return whether nothing happened since another manifest was entered: ``run.json`` is written after the row."""
    return [event.kind for event in store.events()[-1:]] in (["manifest_changed"], ["prices_changed"])


def _check_batches(folder: RunFolder, store: RunStore, place: str) -> Iterator[str]:
    """Check the path of each batch file, and the provider's id of each batch."""
    provider_ids = store.provider_ids()
    for batch in store.batches():
        if batch.provider_id is not None and batch.provider_id not in provider_ids:
            yield f"{place}: batch {batch.id}: no row knows its provider's id {batch.provider_id!r}"
        path = folder.batch(batch.id).request_file
        if batch.path and path.relative_to(folder.workspace.root).as_posix() != batch.path:
            yield f"{place}: batch {batch.id}: its batch file is {path}, and its row says {batch.path!r}"


# ---- files ---------------------------------------------------------------------------------------------------------

# Differences between stored files and the same files computed again, named by file, byte and row. Pictures of charts
# are not compared, for fonts differ between machines: their data are, which stand beside them as JSON.
_CHUNK = 1 << 20
_RELATIVE, _ABSOLUTE = 1e-9, 1e-12
"""Numbers of other processors may differ in their last digits, which no board prints."""


def compare_folders(stored: Path, computed: Path, without: Set[str] = frozenset()) -> Iterator[str]:
    """Yield a sentence for each file below ``computed`` that is not the same below ``stored``.

    Tables are the same if their numbers and texts are, pages if all but the pictures of charts is. ``without``: names
    of files and folders that are not compared.
    """
    names = {path.relative_to(folder) for folder in (stored, computed) for path in _files(folder)}
    for name in sorted(names):
        if without.isdisjoint({name.as_posix(), name.parts[0]}):
            yield from _compare(stored / name, computed / name)


def count_files(folder: Path) -> int:
    """Count the files that :func:`compare_folders` finds in a folder."""
    return sum(1 for _ in _files(folder))


def _files(folder: Path) -> Iterator[Path]:
    """Without what is not finished, or was put aside."""
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if not hidden and path.is_file():
            yield path


def _compare(stored: Path, computed: Path) -> Iterator[str]:
    if not stored.exists():
        yield f"{stored}: is gone"
    elif not computed.exists() or _is_same_page(stored, computed):  # the manifest asks no more for what is not computed
        return
    elif (byte := first_difference(stored, computed)) is not None:
        if stored.suffix != ".parquet":
            yield f"{stored}: byte {byte} differs from what the raw replies give"
        elif (row := _differing_row(stored, computed)) is not None:
            yield f"{stored}: byte {byte}, {row}: differs from what the raw replies give"


_PICTURES = (".svg", ".png")
_CHART = re.compile(rb'<svg [^>]*class="chart".*?</svg>', re.DOTALL)


def _is_same_page(stored: Path, computed: Path) -> bool:
    """Tell whether two files of a site are pictures, or pages that differ in their pictures alone."""
    return stored.suffix in _PICTURES or (stored.suffix == ".html" and _words(stored) == _words(computed))


def _words(page: Path) -> bytes:
    """Read a page without the pictures of its charts."""
    return _CHART.sub(b"", page.read_bytes())


def _differing_row(stored: Path, computed: Path) -> str | None:
    """Describe the first difference (row and column); None if equal.

    Messages of requests without an answer may have come with the batch's status, of which nothing else is kept.
    """
    try:
        own, again = (pl.read_parquet(path, glob=False) for path in (stored, computed))
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError) as error:
        return f"cannot be read ({' '.join(str(error).split())[:200]})"
    if own.schema != again.schema or own.height != again.height:
        return f"{own.height} rows with {own.width} columns, where {again.height} with {again.width} are computed"
    for column in own.columns:
        if column == "error_message" or _equal(own[column], again[column]):
            continue
        row = bisect_left(
            range(own.height), True, key=lambda row: not _equal(own[column][: row + 1], again[column][: row + 1])
        )
        return f"row {row + 1}, {column}: {own[column][row]!r:.100}, computed {again[column][row]!r:.100}"
    return None


def _equal(own: pl.Series, again: pl.Series) -> bool:
    try:
        assert_series_equal(own, again, rel_tol=_RELATIVE, abs_tol=_ABSOLUTE)
    except AssertionError:
        return False
    return True


def first_difference(stored: Path, computed: Path) -> int | None:
    """Return the position (from 0) of the first differing byte or the shorter file's end; None for equal files."""
    position = 0
    with stored.open("rb") as stored_file, computed.open("rb") as computed_file:
        while True:
            ours, theirs = stored_file.read(_CHUNK), computed_file.read(_CHUNK)
            if ours != theirs:
                pairs = zip(chain(ours, [-1]), chain(theirs, [-1]), strict=False)
                return position + next(number for number, (byte, other_byte) in enumerate(pairs) if byte != other_byte)
            if not ours:
                return None
            position += len(ours)
