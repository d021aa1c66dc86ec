"""The command line. Heavy imports wait inside the commands, so that ``--help`` and ``status`` stay fast."""

from layton_batch.cli.app import main

__all__ = ["main"]
