"""What ``grade --help`` says of the options that only some benchmarks know. Imports nothing: every command loads it."""

from __future__ import annotations

TASK = "mcq_idk | zebralogic | rome, or your own."
PROTOCOL = "corrected (default) | original; mcq_idk: original_v2, zebralogic: zeroeval too."
METRIC = "Rank by: idk_score, trad_score | puzzle_accuracy, cell_accuracy | accuracy."
SAMPLES = (
    "zeroeval, where a puzzle has several outputs: best_of_n (default), majority_of_n, most_common_of_n, "
    "middle_common_of_n, least_common_of_n, longest_of_n, shortest_of_n, median_of_n, rm_bon."
)
UPDATED = "rome: write every prediction, graded."
TABLE = "mcq_idk: the published table; - for stdout."
CHART = "mcq_idk: its bar chart; rome: accuracy against tokens."
RISK_CHART = "mcq_idk: risk against coverage."
ENSEMBLES = "mcq_idk: also all models as one, by vote; and the best three."
ENSEMBLE = "mcq_idk: these models as one, by vote, under this name; may be repeated."
LLM_EVALUATOR = "A judge instead of rules: says which `judge` command does it, for a judge is paid."
REPORT = "mcq_idk: lengths of replies by outcome, and questions that all models get right or wrong; - for stdout."
EVERY_RUN = "mcq_idk: every run of a results folder by its date, as a table without ranks."
ROUNDS = "rome: files are rounds of one model, or of each NAME given."
BENCHMARK = "mcq_idk: which of several in a folder; charts are titled by it."
FORMS = "evaluate-idk's results folder and ROME's three forms of predictions are read as they are."
