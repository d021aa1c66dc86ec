"""The rules of ``mcq_idk``, extraction, marks, evaluate-idk's files, table, ensembles and chart.

Source of the original protocol: JoelNiklaus/evaluate-idk, scored through lighteval 0.11.0's letter extractor.
"""
