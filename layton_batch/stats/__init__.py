"""Scores, intervals, ranks and diagnostics: arrays in, small frozen records out; numpy and scipy only, no I/O.

counts: votes and labels, by model and by vote, where everything starts · hierarchical: the posterior of what a vote
means for whom · hierarchical_scores: scores, intervals and joint draws from it · marks: scores and
draws from the marks of rules · ranks: models against models · paper: the published
table · raters: agreement of several raters · distributions: sets and quantiles. Fractions everywhere. Metrics are
binary (a person's yes or no) everywhere but in the marks of rules.
"""
