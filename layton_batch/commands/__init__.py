"""Commands: one typed function each, which returns one document.

``layton_batch.cli`` reads options from the signatures, and ``import layton_batch as lb`` offers the same functions. A
command that only a terminal has a use for (``init``, ``demo``, ``label``, ``sandbox``) is a function of ``cli``.
"""
