"""The providers' side of the wire, on loopback: one server that plays seven batch APIs, keeps a bill, and can
misbehave.

Stands alone: it imports nothing else of this package, so that a mistake in how we read a provider is not repeated here.
`faults` documents the fault file, `questions` what an answerer sees, `lifecycle` how time passes.
"""

from layton_batch.sandbox.configuration import Limits, SandboxConfig
from layton_batch.sandbox.faults import Fault, load_faults
from layton_batch.sandbox.ledger import BilledRow, Ledger, LedgerLine
from layton_batch.sandbox.questions import Answerer, Question, Reply
from layton_batch.sandbox.server import Sandbox, serve_forever

__all__ = [
    "Answerer",
    "BilledRow",
    "Fault",
    "Ledger",
    "LedgerLine",
    "Limits",
    "Question",
    "Reply",
    "Sandbox",
    "SandboxConfig",
    "load_faults",
    "serve_forever",
]
