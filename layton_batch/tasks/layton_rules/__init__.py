"""What the layton task's protocols are made of."""
