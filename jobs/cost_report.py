"""What every run under a folder cost, as one Markdown table on stdout.

python jobs/cost_report.py [RUN...] [--runs DIR] [--by day,model] [--since yesterday] [--until DAY]
    [--format md|csv|json|table]
"""

import argparse

from layton_batch.cli.app import complain_of, main
from layton_batch.errors import LaytonBatchError
from layton_batch.runs.folders import DEFAULT_RUNS, find_run, find_runs, named_runs
from layton_batch.settings import Settings

if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="What every run under a folder cost.")
    parser.add_argument("names", nargs="*", metavar="RUN", help="default: every run")
    parser.add_argument("--runs", help="where run folders are; default: the environment's LAYTON_BATCH_RUNS, or runs")
    parser.add_argument("--by", help="any of run, provider, model, stage, day, week, month, with commas")
    parser.add_argument("--since", help="a date, today, yesterday, or 7d")
    parser.add_argument("--until", help="the last day, in the same forms")
    parser.add_argument("--format", choices=("md", "csv", "json", "table"), default="md")
    asked = parser.parse_args()
    try:
        runs = named_runs(asked.runs, Settings.from_process()) or DEFAULT_RUNS
        found = [find_run(name, runs) for name in asked.names] if asked.names else find_runs(runs)
    except LaytonBatchError as error:
        raise SystemExit(complain_of(error)) from error
    if not found:
        print(f"no runs under {runs.absolute()} yet; --runs or LAYTON_BATCH_RUNS names another folder")
        raise SystemExit(0)
    given = {f"--{name}": getattr(asked, name) for name in ("format", "by", "since", "until")}
    options = [str(word) for option, value in given.items() if value is not None for word in (option, value)]
    main(["cost", *(str(folder.root) for folder in found), *options])
