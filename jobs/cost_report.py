"""What every run under a folder cost, as one Markdown table on stdout.

python jobs/cost_report.py [--runs DIR] [--by run|provider|model|stage|day|month] [--format md|csv|json|table]
    [--chart FILE]
"""

import argparse
from pathlib import Path

from layton_batch.cli import main
from layton_batch.runs.folders import find_runs, runs_at
from layton_batch.settings import Settings

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What every run under a folder cost.")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--by", choices=("run", "provider", "model", "stage", "day", "month"))
    parser.add_argument("--format", choices=("md", "csv", "json", "table"), default="md")
    parser.add_argument("--chart", type=Path, help="draw the sums into this .svg or .png file")
    asked = parser.parse_args()
    folders = [str(folder.root) for folder in find_runs(runs_at(asked.runs, Settings.from_process()))]
    if not folders:
        print(f"no runs under {asked.runs} yet")
        raise SystemExit(0)
    by, chart = (["--by", asked.by] if asked.by else []), (["--chart", str(asked.chart)] if asked.chart else [])
    main(["cost", *folders, "--format", asked.format, *by, *chart])
