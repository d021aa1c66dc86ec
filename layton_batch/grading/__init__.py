"""Bring your own predictions: graded by a benchmark's rules, without providers, batches or network.

``one_file`` grades a file in the published form. ``submissions`` says what else predictions may be (several files, a
folder, a run), ``graded`` grades each, ``board`` ranks them, ``extras`` has what single benchmarks have besides.
"""

from layton_batch.grading.one_file import METRICS, PROTOCOLS, RULE_GRADED, Row

__all__ = ["METRICS", "PROTOCOLS", "RULE_GRADED", "Row"]
