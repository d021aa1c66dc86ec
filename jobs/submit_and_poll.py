"""One tick of a run: submit what is due, ask how batches are going, collect what has ended. For a scheduler.

    python jobs/submit_and_poll.py manifests/layton-today.toml [--runs DIR] [--max-usd X]

Exit code 75 means "not finished, call again"; 0 means done. See schedules/ for cron, systemd and Kubernetes.
"""

import sys

from layton_batch.cli import main

if __name__ == "__main__":
    main(["run", "--once", *sys.argv[1:]])
