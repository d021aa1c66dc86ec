"""layton-batch: evaluate language and vision models through paid batch APIs."""

__version__ = "0.1.0"
