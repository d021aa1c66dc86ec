"""mcq_idk: the task, rows of data sets, the published letters, and evaluate-idk's files, table and chart.

Source of the original protocol: JoelNiklaus/evaluate-idk, scored through lighteval 0.11.0's letter extractor.
"""
