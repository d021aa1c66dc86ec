"""What hostile providers, clocks and disks do to a history: rows of the table, and what the widest seeds draw."""
