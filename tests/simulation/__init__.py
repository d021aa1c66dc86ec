"""Deterministic histories: a run that is stopped, misled and restarted, on one clock, in one thread, from a seed."""
