"""Every measurement runs, at its smallest size: a figure that nobody can measure again is none."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping, Sequence

import pytest

from benchmarks import __main__ as benches
from benchmarks.planted_faults import ROOT, PlantedFault, read_faults
from tests.surfaces.workspaces import SURFACES

SMALL: Mapping[str, tuple[Sequence[str], Mapping[str, object]]] = {
    "prepare": (("--lines", "8", "--items", "4"), {}),
    "collect": (("--rows", "200"), {}),
    "site": (("--models", "3", "--items", "4"), {}),
    "board": (("--models", "10", "--items", "10"), {}),
    "coverage": (("--world", "20 items", "--boards", "2", "--draw-every", "2"), {}),
    "refresh": ((), {"MODELS": 2}),
    "faults": (("--seed", "70001"), {}),
    "torture": (("--count", "1"), {"ITEMS": {"a": range(3), "b": range(2, 4)}}),
    "start": ((), {"BATCHES": 2}),
    "planted": (("thoughts of Gemini",), {}),
}
"""By name: arguments, and the constants of its module that stand for its size."""
QUICK = frozenset({"prepare", "site", "board", "coverage"})
"""The other ones are nightly."""


def test_help_names_every_measurement(capsys: pytest.CaptureFixture[str]) -> None:
    assert benches.main(["help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(benches.BENCHES) == list(SMALL)
    assert all(line.split()[1:] for line in lines)


@pytest.mark.parametrize(
    "name", [name if name in QUICK else pytest.param(name, marks=pytest.mark.nightly) for name in SMALL]
)
def test_a_measurement_runs(name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    arguments, constants = SMALL[name]
    for constant, value in constants.items():
        monkeypatch.setattr(benches.bench(name), constant, value)
    assert benches.main([name, *arguments]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("fault", read_faults(), ids=lambda fault: fault.name)
def test_a_hand_made_fault_can_be_planted(fault: PlantedFault) -> None:
    planted = fault.planted((ROOT / fault.file).read_text(encoding="utf-8"))
    assert planted is not None
    check = [sys.executable, "-m", "ruff", "check", "--select", "F821", "--stdin-filename", fault.file, "-"]
    found = subprocess.run(check, input=planted, text=True, capture_output=True, cwd=ROOT, check=False)
    assert found.returncode == 0, found.stdout  # a mistake in the fault itself would be caught by every test
    assert all((ROOT / test.partition("::")[0]).is_file() for test in fault.catchers)
    assert set(fault.surfaces) <= set(SURFACES)
    assert fault.catchers
