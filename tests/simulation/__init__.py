"""Deterministic histories: a run that is stopped, misled and started again, on one clock, in one thread, from a seed."""
