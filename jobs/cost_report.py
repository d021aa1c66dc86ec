"""What every run under a folder cost, as one Markdown table on stdout.

python jobs/cost_report.py [--runs DIR] [--format md|csv|json|table]
"""

import argparse
from pathlib import Path

from layton_batch.cli import main
from layton_batch.run.folders import find_runs

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What every run under a folder cost.")
    parser.add_argument("--runs", type=Path, default=Path("runs"))
    parser.add_argument("--format", choices=("md", "csv", "json", "table"), default="md")
    asked = parser.parse_args()
    folders = [str(folder.root) for folder in find_runs(asked.runs)]
    if not folders:
        parser.exit(2, f"no runs under {asked.runs}\n")
    main(["cost", *folders, "--format", asked.format])
