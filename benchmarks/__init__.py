"""Speed and memory, measured: ``scripts/bench NAME``. Ratios and limits are printed; nothing here is a timed test."""
