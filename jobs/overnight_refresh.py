"""Refresh leaderboards overnight: work on all manifests until a time of day, publish what changed, say what it was.

    python jobs/overnight_refresh.py --until 07:00 --site public manifests/layton-today.toml mine.toml

Only new work is sent. A board stays at its address (``public/RUN/``); ``public/summary.md`` and ``summary.json`` say
what changed. ``--webhook URL`` posts the summary, and at once a lost batch or a reached budget. The exit code is the
worst of the runs': 0 all done, 75 some go on the next night, 3/4 someone must look.
"""

from layton_batch.cli.overnight import main

if __name__ == "__main__":
    raise SystemExit(main())
