"""Scores, intervals, ranks and diagnostics: arrays in, small frozen records out; numpy only, no I/O.

strata: votes and labels counted into bins, where everything starts · paper, calibrated, generalisation: scores and
intervals · ranks, joint, rank_sets, compare: models against models · judges, leniency, agreement: the judges
themselves · planning: what to label next · marks: tasks graded by rule · lattice, special, printing: laws of counts,
the beta quantile, percent. Fractions until `printing`. Metrics are binary (a person's yes or no) everywhere but in
`marks`.
"""
