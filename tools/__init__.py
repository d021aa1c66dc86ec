"""Makers of the bundled data: pictures, logic grids, simulated gold sets. Run from a checkout; never in the wheel."""
