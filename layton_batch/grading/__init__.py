"""Bring your own predictions: graded by a benchmark's rules, without providers, batches or network.

``submissions`` says which benchmarks are graded by rule, how each reads files, and what predictions may be (a file,
several, a folder, a run), grades each by the task itself and ranks them; ``board_sources`` reads what a leaderboard is
made of.
"""
