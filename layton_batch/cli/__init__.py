"""The command line. Heavy imports wait inside the commands, so that ``--help`` stays fast."""

from layton_batch.cli.app import main

__all__ = ["main"]
