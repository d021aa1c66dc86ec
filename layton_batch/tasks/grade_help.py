"""Help of ``grade`` on the options that only some benchmarks know. Imports nothing: every command loads it."""

from __future__ import annotations

TASK = "mcq_idk | zebralogic | rome, or your own."
PROTOCOL = "corrected (default) | original; mcq_idk: original_v2, zebralogic: zeroeval too."
METRIC = "Rank by: idk_score, trad_score | puzzle_accuracy, cell_accuracy | accuracy."
SAMPLES = "zeroeval, where a puzzle has several outputs: best_of_n (default) or majority_of_n."
UPDATED = "rome: write every prediction, graded."
TABLE = "mcq_idk: the published table; - for stdout."
CHART = "mcq_idk: its bar chart."
ENSEMBLE = "mcq_idk: these models as one, by vote, under this name; may be repeated."
EVERY_RUN = "mcq_idk: every run of a results folder by its date, as a table without ranks."
BENCHMARK = "mcq_idk: which of several in a folder; charts are titled by it."
FORMS = "evaluate-idk's results folder and ROME's three forms of predictions are read as they are."
