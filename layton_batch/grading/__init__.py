"""Bring your own predictions: graded by a benchmark's rules, without providers, batches or network.

``forms`` says which benchmarks are graded by rule and how each reads files, ``submissions`` what predictions may be (a
file, several, a folder, a run), ``board`` grades each by the task itself and ranks them.
"""
