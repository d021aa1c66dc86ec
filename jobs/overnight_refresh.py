"""Refresh leaderboards overnight: `layton-batch overnight`, from any folder.

python jobs/overnight_refresh.py --until 07:00 --site public manifests/layton-today.toml mine.toml
"""

import sys
from pathlib import Path

from layton_batch.cli import main
from layton_batch.cli.job_files import at_job

if __name__ == "__main__":
    words = [str(at_job(Path(word))) if word.endswith(".toml") else word for word in sys.argv[1:]]
    main(["overnight", *words])
