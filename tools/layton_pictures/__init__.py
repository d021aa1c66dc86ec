"""Draws the bundled visual riddles."""
