"""Judges who say why are another jury: only their requests are others, not those of the models."""

from __future__ import annotations

from pathlib import Path

from layton_batch.records import Job
from layton_batch.runs.jobs import job_identity
from layton_batch.runs.rejudging import recorded_jury
from layton_batch.states import Role
from tests.support.manifest_texts import load

MANIFEST = """
name = "quiz"
task = "qa"
[items]
source = "bundled"
[[models]]
name = "larch"
provider = "openai"
model = "gpt-5.2"
[jury]
seats = 1
{reasons}
[[jury.judges]]
name = "referee"
provider = "gemini"
model = "gemini-3-pro"
"""


def test_reasons_change_what_judges_are_asked_and_nothing_else(tmp_path: Path) -> None:
    plain, asked = (load(tmp_path, MANIFEST.format(reasons=line)) for line in ("", "reasons = true"))
    jobs = {role: Job(str(role), role, plain.model_specs()[0]) for role in (Role.PREDICT, Role.JUDGE, Role.REJUDGE)}
    same = {role: job_identity(plain, job) == job_identity(asked, job) for role, job in jobs.items()}
    assert same == {Role.PREDICT: True, Role.JUDGE: False, Role.REJUDGE: False}
    digests = [recorded_jury(manifest)["referee"].prompt_sha256 for manifest in (plain, asked)]
    assert digests[0] != digests[1]
    assert plain.identity() != asked.identity()
