"""Schema migrations, forward only."""
