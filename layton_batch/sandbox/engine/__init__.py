"""Player of batches over time: their life cycle, execution, faults, bill and store."""
