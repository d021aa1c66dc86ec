"""Per-item scores that other evaluation programs wrote: each file here reads one program's form.

``read`` says which form a file has; ``together`` makes of several files the models of one board.
"""
