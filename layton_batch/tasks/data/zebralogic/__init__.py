"""Original logic grids in the published columns, and the words they are made of."""
