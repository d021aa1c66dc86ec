"""Original riddles in the published columns, and the scripts that draw the visual ones."""
