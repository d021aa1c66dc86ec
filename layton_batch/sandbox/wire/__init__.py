"""Each provider's batch API over HTTP: its routes, and what it checks and replies row by row."""
