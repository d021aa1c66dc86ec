"""The providers' side of the wire, on loopback: one server that plays nine batch APIs, keeps a bill, and can
misbehave.

Stands alone: it imports nothing else of this package, so that a mistake in how we read a provider is not repeated here.
`wire` is HTTP, by providers; `engine` plays batches over time (`faults` documents the fault file,
`lifecycle` how time passes); `answerers` say what models answer (`questions`: what they see). Each knows only those
after it.
"""

from layton_batch.sandbox.answerers.questions import Answerer, ModelReply, Question
from layton_batch.sandbox.engine.faults import Fault, load_faults
from layton_batch.sandbox.engine.lifecycle import SandboxConfig, SandboxLimits
from layton_batch.sandbox.engine.store import BilledRow, Ledger
from layton_batch.sandbox.server import Sandbox, serve_forever

__all__ = [
    "Answerer",
    "BilledRow",
    "Fault",
    "Ledger",
    "ModelReply",
    "Question",
    "Sandbox",
    "SandboxConfig",
    "SandboxLimits",
    "load_faults",
    "serve_forever",
]
