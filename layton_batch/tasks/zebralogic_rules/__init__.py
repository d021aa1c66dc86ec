"""The three protocols that a logic grid can be graded by: text and gold in, small records out, no I/O."""
