"""Answers that were given elsewhere, brought into a run: a model's predictions, and judges' verdicts on them.

``reading`` checks whole files before anything changes; ``entering`` enters them as jobs whose answers are there.
"""
