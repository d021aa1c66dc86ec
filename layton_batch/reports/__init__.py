"""Reports that commands show of a run: one form of table, and a module for each report."""
