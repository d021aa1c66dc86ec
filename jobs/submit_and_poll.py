"""What can be done for a run without waiting: submit what is due, ask how batches are going, collect what has ended.

    python jobs/submit_and_poll.py manifests/layton-today.toml [--runs DIR] [--max-usd X]

Exit code 75 means "not finished, call again"; 0 means done. See schedules/ for cron, systemd and Kubernetes.
"""

import sys
from pathlib import Path

from layton_batch.cli import main
from layton_batch.cli.job_files import at_job

if __name__ == "__main__":
    words = [str(at_job(Path(word))) if word.endswith(".toml") else word for word in sys.argv[1:]]
    main(["run", "--once", *words])
