"""Arrays in, small frozen records out: numpy only, no I/O. Fractions until printed; binary metrics only."""
