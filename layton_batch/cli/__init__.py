"""The command line. Heavy imports wait inside the commands, so that ``--help`` and ``status`` stay fast."""

from layton_batch.cli.entry import main

__all__ = ["main"]
