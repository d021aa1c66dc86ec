"""Scores, intervals, ranks and diagnostics: arrays in, small frozen records out; numpy and scipy only, no I/O.

strata: votes and labels counted into bins, where everything starts · paper: the published table · label_table,
hierarchical, hierarchical_scores, rate_draws: what a vote means for whom, and all that follows from it · posterior: a
model's score and the moments behind it ·
ranks, joint: models against models, also those graded by rule · judges: the judges themselves · raters:
agreement of several raters · planning: what to label next · distributions: laws of counts, the beta quantile. Fractions
everywhere. Metrics are binary (a person's yes or no) everywhere but in the marks of rules.
"""
