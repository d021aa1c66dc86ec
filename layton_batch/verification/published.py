"""A published site over HTTP: the files that its list of digests names are downloaded, and checked like a folder's."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit, urlunsplit

import orjson

from layton_batch.clock import Clock
from layton_batch.errors import DataError
from layton_batch.files import limits
from layton_batch.files.addresses import fetch, fetch_below
from layton_batch.settings import Settings
from layton_batch.site.build import DIGESTS, FRONT, MARKER, is_file_name
from layton_batch.verification.recompute import Verification
from layton_batch.verification.verify import listed_runs, verify_site

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
