"""From votes and labels to boards, judges, comparisons and plans for labels."""
