"""What every run under a folder cost, as one Markdown table on stdout.

python jobs/cost_report.py [RUN...] [--runs DIR] [--by run|provider|model|stage|day|month]
    [--format md|csv|json|table] [--chart FILE]
"""

import argparse
from pathlib import Path

from layton_batch.cli import main
from layton_batch.cli.entry import complain_of
from layton_batch.cli.same_name_runs import known_runs
from layton_batch.errors import LaytonBatchError
from layton_batch.runs.folders import find_run, find_runs
from layton_batch.settings import Settings

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What every run under a folder cost.")
    parser.add_argument("names", nargs="*", metavar="RUN", help="default: every run")
    parser.add_argument("--runs", help="where run folders are; default: the environment's LAYTON_BATCH_RUNS, or runs")
    parser.add_argument("--by", choices=("run", "provider", "model", "stage", "day", "month"))
    parser.add_argument("--format", choices=("md", "csv", "json", "table"), default="md")
    parser.add_argument("--chart", type=Path, help="draw the sums into this .svg or .png file")
    asked = parser.parse_args()
    try:
        runs = known_runs(asked.runs, Settings.from_process())
        found = [find_run(name, runs) for name in asked.names] if asked.names else find_runs(runs)
    except LaytonBatchError as error:
        raise SystemExit(complain_of(error)) from error
    if not found:
        print(f"no runs under {runs.absolute()} yet; --runs or LAYTON_BATCH_RUNS names another folder")
        raise SystemExit(0)
    by, chart = (["--by", asked.by] if asked.by else []), (["--chart", str(asked.chart)] if asked.chart else [])
    main(["cost", *(str(folder.root) for folder in found), "--format", asked.format, *by, *chart])
