"""How ROME answers are graded by rule: text in, marks out, no I/O but in ``rome_files``.

``original`` does what the published evaluator does, to the digit; ``corrected`` does what it meant. Source of the
original's behaviour: flageval-baai/ROME-evaluation, commit b6aea4b.
"""
