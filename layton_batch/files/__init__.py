"""Files of a run and of its inputs: written whole or not at all, tables, sources, downloads."""
