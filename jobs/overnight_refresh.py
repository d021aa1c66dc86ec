"""Refresh leaderboards overnight: work on each manifest's run until a time of day, then write pages for those done.

    python jobs/overnight_refresh.py --until 07:00 --out public manifests/layton-today.toml mine.toml

The exit code is the worst of the runs' (CLI.md): 0 all done, 75 some go on the next night, 3/4 someone must look.
"""

import argparse
from pathlib import Path

from layton_batch.cli import main
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.prompt_files import PromptFiles

SEVERITY = (0, 5, 75, 3, 4, 2, 1)
NOT_FINISHED = 75


def code_of(arguments: list[str]) -> int:
    """The exit code of one command."""
    try:
        main(arguments)
    except SystemExit as end:
        return int(end.code or 0)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Refresh leaderboards overnight.")
    parser.add_argument("manifests", nargs="+", type=Path)
    parser.add_argument("--until", default="07:00")
    parser.add_argument("--out", type=Path, default=Path("public"))
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--poll-seconds", default="60")
    asked = parser.parse_args()
    where = ["--runs", str(asked.runs)]
    worst = 0
    for path in asked.manifests:
        code = code_of(["run", str(path), *where, "--until", asked.until, "--poll-seconds", asked.poll_seconds])
        worst = max(worst, code, key=SEVERITY.index)
        if code == NOT_FINISHED:  # the night is over, or someone stopped us: the other runs wait for the next one
            break
        if code in (0, 5):
            run_id = load_manifest(path, PromptFiles(runs=asked.runs)).run_id()
            code_of(["site", run_id, *where, "--out", str(asked.out / run_id)])
    raise SystemExit(worst)
