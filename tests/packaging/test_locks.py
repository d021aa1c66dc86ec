"""The lock file pins each package with the digests of its files, and does not say where the files are from."""

from __future__ import annotations

import re

from tests.support.paths import ROOT

PIN = re.compile(r"[a-z0-9.-]+==[^ ]+( ; [^\\]+)? \\")
DIGEST = re.compile(r"    --hash=sha256:[0-9a-f]{64}( \\)?")


def test_every_package_of_the_lock_has_a_version_and_digests_and_nothing_else() -> None:
    lines = (ROOT / "requirements.lock").read_text(encoding="utf-8").splitlines()
    pinned = [number for number, line in enumerate(lines) if not line.startswith(" ")]
    assert all(PIN.fullmatch(lines[number]) and DIGEST.fullmatch(lines[number + 1]) for number in pinned)
    assert all(DIGEST.fullmatch(line) for line in lines if line.startswith(" "))
