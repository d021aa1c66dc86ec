"""Hand-made faults of planted_faults.toml, one at a time in a copy of the project: which test catches each.

``scripts/bench planted [NAME...]``: all, or those whose name or area contains a NAME. It ends with 1 where a fault is
not caught, where its old text does not occur exactly once, and where a test fails without any fault.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
COPIED = ("layton_batch", "manifests", "tests", "tools", "benchmarks", "docs", "jobs", "scripts", "pyproject.toml")
"""What tests read of the checkout."""
SURFACE = "tests/surfaces/test_surfaces.py::test_a_workspace_has_its_golden_facts[{}]"
LONGEST_SECONDS = 300
"""Tests that have not ended by then never would."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class PlantedFault:
    """A fault of one file: ``new`` in place of ``old``, and the tests of which at least one is to fail."""

    name: str
    area: str
    file: str
    old: str
    new: str
    surfaces: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()

    @property
    def catchers(self) -> list[str]:
        """Return the tests, as pytest takes them."""
        return [*map(SURFACE.format, self.surfaces), *self.tests]

    def planted(self, source: str) -> str | None:
        """Return the source with the fault; None where the old text does not occur exactly once."""
        return source.replace(self.old, self.new) if source.count(self.old) == 1 else None


def read_faults() -> list[PlantedFault]:
    """Read the table of faults."""
    rows = tomllib.loads((ROOT / "benchmarks" / "planted_faults.toml").read_text(encoding="utf-8"))["fault"]
    lists = ("surfaces", "tests")
    return [PlantedFault(**{name: tuple(row[name]) if name in lists else row[name] for name in row}) for row in rows]


def main(arguments: Sequence[str] = ()) -> int:
    """Play the faults and print a table; 1 where one is not caught."""
    parser = argparse.ArgumentParser(prog="scripts/bench planted", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args(list(arguments)).names
    faults = [fault for fault in read_faults() if not names or any(a in f"{fault.area} {fault.name}" for a in names)]
    with tempfile.TemporaryDirectory(prefix="planted-") as name:
        copy = Path(name)
        _copy_project(copy)
        tests = sorted({test for fault in faults for test in fault.catchers})
        if (failed := _first_failure(copy, tests)) is not None:
            print(f"without any fault {failed} fails: nothing can be said", file=sys.stderr)
            return 1
        print("| area | fault | caught by | seconds |\n|---|---|---|---:|")
        missed = [fault for fault in faults if not _is_caught(copy, fault)]
    print(f"{len(faults) - len(missed)} of {len(faults)} faults are caught")
    return 1 if missed else 0


def _copy_project(copy: Path) -> None:
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy2(ROOT / name, copy / name)


def _is_caught(copy: Path, fault: PlantedFault) -> bool:
    path, begun = copy / fault.file, time.perf_counter()
    source = path.read_text(encoding="utf-8")
    planted = fault.planted(source)
    if planted is None:
        print(f"| {fault.area} | {fault.name} | NOT PLANTED: its old text is not once in {fault.file} | |", flush=True)
        return False
    path.write_text(planted, encoding="utf-8")
    catcher = _first_failure(copy, fault.catchers)
    path.write_text(source, encoding="utf-8")
    seconds = time.perf_counter() - begun
    print(f"| {fault.area} | {fault.name} | {catcher or 'NOT CAUGHT'} | {seconds:.0f} |", flush=True)
    return catcher is not None


def _first_failure(copy: Path, tests: Sequence[str]) -> str | None:
    """Return the first of the tests that fails or does not end in the copy; None where all of them pass."""
    # compiled files are not written: a fault may have the size and the second of the file that it replaces
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *tests]
    try:
        result = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, check=False, timeout=LONGEST_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"{', '.join(tests)} (no end after {LONGEST_SECONDS} s)"
    if result.returncode == 0:
        return None
    failed = _FAILED.search(result.stdout)
    if failed is None:
        raise SystemExit(f"the tests {' '.join(tests)} do not run:\n{result.stdout[-2000:]}{result.stderr[-2000:]}")
    return failed[1].removeprefix("tests/")
