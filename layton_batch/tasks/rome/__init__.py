"""ROME: the task, the published evaluators and judge (``published``), our reader, and ROME's own files."""
