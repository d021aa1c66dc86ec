"""Original questions in ROME's columns, and the script that draws the ones about pictures."""
