"""Draws the bundled visual questions in the form of ROME."""
