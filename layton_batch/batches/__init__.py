"""The life of a batch: its file, its create, its results, its attempts, and what a person says of it."""
