"""An Airflow sensor for a run: a tick at each poke, done when the run is. Put it on Airflow's path:

    LaytonBatchRun(task_id="layton", manifest="manifests/layton-today.toml", runs="/data/runs")

Exit code 75 means "not finished, call again"; every other code but 0 and 5 fails the task for good, because another try
would not help: a budget, a lost batch, a refused manifest. Between two pokes no worker is held.
"""

import subprocess
import sys

from airflow.exceptions import AirflowFailException
from airflow.sensors.base import BaseSensorOperator

DONE, CALL_AGAIN, IN_THE_WAY = (0, 5), 75, 74
LINES = 20


class LaytonBatchRun(BaseSensorOperator):
    """Submit, poll and collect a manifest's run until it is over."""

    template_fields = ("manifest", "runs", "max_usd")

    def __init__(self, *, manifest, runs=None, max_usd=None, poke_interval=600, timeout=7 * 86_400, **options):
        super().__init__(mode="reschedule", poke_interval=poke_interval, timeout=timeout, **options)
        self.manifest, self.runs, self.max_usd = manifest, runs, max_usd

    def poke(self, context):
        """One tick; True once the run is done."""
        budget = ["--max-usd", str(self.max_usd)] if self.max_usd is not None else []
        runs = ["--runs", self.runs] if self.runs is not None else []  # None: as LAYTON_BATCH_RUNS says
        command = [sys.executable, "-m", "layton_batch", "run", "--once", self.manifest, *runs, *budget]
        end = subprocess.run(command, capture_output=True, text=True, check=False)
        said = "\n".join((end.stdout + end.stderr).splitlines()[-LINES:])
        self.log.info("layton-batch ended with %s\n%s", end.returncode, said)
        if end.returncode in (*DONE, CALL_AGAIN, IN_THE_WAY):  # a full disk passes: the next poke tries again
            return end.returncode in DONE
        raise AirflowFailException(f"layton-batch ended with {end.returncode}: {said}")
