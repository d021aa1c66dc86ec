"""Logic grids of our own: a seeded generator, and the solver that proves that each has exactly one solution."""
