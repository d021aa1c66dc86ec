"""Judges who say why are another jury: only their requests are others, not those of the models."""

from __future__ import annotations

import re
from pathlib import Path

from layton_batch.states import Role
from tests.support.cli_harness import call
from tests.support.lab import Lab, lab, manifest_text

JURY = "[jury]\nseats = 1\n"
PLAIN = manifest_text(limit=2).replace("layton", "qa")
ASKED = PLAIN.replace(JURY, f"{JURY}reasons = true\n")


def prompts_of_judges(bench: Lab, text: str) -> set[str]:
    """Finish the run. Return the digests of its judges' prompts, which its gold set has."""
    bench.finish(text)
    out = bench.folder / "gold.jsonl"
    assert call("export", "lab", "--runs", bench.runs, "--to", "ppi", "--out", out).code == 0
    return set(re.findall(r'"judge_prompt_sha256_[^"]*": ?"(\w+)"', out.read_text(encoding="utf-8")))


def test_reasons_change_what_judges_are_asked_and_nothing_else(tmp_path: Path) -> None:
    with lab(tmp_path) as bench:
        before = prompts_of_judges(bench, PLAIN)
        plan = bench.plan(ASKED)
        assert {planned.job.role for planned in plan.jobs if planned.to_send} == {Role.JUDGE}
        assert plan.to_send == sum(planned.requests for planned in plan.jobs if planned.job.role is Role.JUDGE)
        assert len(before) == len(before ^ prompts_of_judges(bench, ASKED)) - 1 == 1
