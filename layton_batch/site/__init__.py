"""Static pages from a run's finished tables. Computes nothing: what it shows was computed before."""
