"""The two lock files: one of versions, one that adds the digests of every file; neither says where they are from."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

BEFORE, SINCE = " ; python_full_version < '3.11.5'", " ; python_full_version >= '3.11.5'"
"""One package of the documentation's needs Python 3.11.5, and an installation by digests takes all or nothing."""
DIGEST = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def pins(name: str) -> list[str]:
    """The lines that pin a package, by its normalised name, without digests."""
    lines = (ROOT / name).read_text(encoding="utf-8").splitlines()
    pinned = [line.removesuffix(" \\").removesuffix(SINCE) for line in lines if not line.startswith(" ")]
    pinned = [line for line in pinned if not line.endswith(BEFORE)]
    without_extras = (re.sub(r"\[.*?\]", "", line) for line in pinned)
    return sorted(
        re.sub(r"^[^=]+", lambda name: re.sub(r"[-_.]+", "-", name[0]).lower(), line) for line in without_extras
    )


def test_the_locks_pin_the_same_packages() -> None:
    assert pins("requirements.lock") == pins("requirements-hashed.lock")


def test_every_package_of_the_second_has_digests_and_nothing_else() -> None:
    lines = (ROOT / "requirements-hashed.lock").read_text(encoding="utf-8").splitlines()
    pinned = [number for number, line in enumerate(lines) if not line.startswith(" ")]
    assert all(lines[number].endswith(" \\") and DIGEST.fullmatch(lines[number + 1]) for number in pinned)
    assert all(DIGEST.fullmatch(line) for line in lines if line.startswith(" "))
    assert not any("://" in line for line in lines)
