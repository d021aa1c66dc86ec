"""Computing a run or a site again from the raw replies, and naming what differs."""
