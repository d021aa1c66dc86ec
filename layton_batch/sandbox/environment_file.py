"""The file that tells other programs where the sandbox listens: whole, through no link, over nothing foreign."""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

KEY = "sandbox-key-"
"""Beginning of every key that a sandbox gives out, and of no other."""


def check_replaceable(path: Path) -> None:
    """Raises FileExistsError where ``path`` is anything but an empty file or an earlier environment file of a sandbox:
    a link, another's file, a ``.env`` with real keys."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return
    is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and status.st_nlink == 1
    if not (is_ours and _is_environment(path)):
        raise FileExistsError(
            f"--env-file {path}: there is something else than an environment file of a sandbox; move it away, or name "
            "another file"
        )


def write(path: Path, environment: Mapping[str, str]) -> None:
    """``path`` with the environment as a ``.env`` file, for its owner alone. Raises OSError naming ``path``."""
    check_replaceable(path)
    try:
        # A name nobody can guess, opened only if nothing has it: a link laid there beforehand is not followed.
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        try:
            with open(descriptor, "w", encoding="utf-8") as handle:
                handle.writelines(f"{name}={value}\n" for name, value in environment.items())
            os.replace(temporary, path)  # a link laid at ``path`` meanwhile is replaced, not followed
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise
    except OSError as error:
        raise OSError(f"--env-file {path}: {error.strerror or error}") from error


def _is_environment(path: Path) -> bool:
    """Return whether the file holds nothing but addresses and keys of a sandbox."""
    lines = path.read_bytes().decode("utf-8", "replace").splitlines()
    pairs = [line.partition("=") for line in lines if line.strip()]
    return all(
        value.startswith(KEY) if name.endswith("_API_KEY") else name.endswith("_BASE_URL") for name, _, value in pairs
    )
