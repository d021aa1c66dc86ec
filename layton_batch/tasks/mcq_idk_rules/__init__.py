"""The rules of ``mcq_idk``, free of I/O: extraction, marks, abstention, ensembles, table, charts.

Source of the original protocol: JoelNiklaus/evaluate-idk, scored through lighteval 0.11.0's letter extractor.
"""
