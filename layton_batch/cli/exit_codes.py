"""Exit codes of documents: what a command that only looks ends with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from layton_batch.errors import DamagedTableError

if TYPE_CHECKING:
    from layton_batch.commands.check import ItemsDocument, MachineDocument
    from layton_batch.commands.compare import ComparisonDocument
    from layton_batch.commands.plan import Plan
    from layton_batch.commands.run_result import RunResult
    from layton_batch.commands.verify import VerificationDocument

WRONG = 2
"""`check`: something that a run would refuse or misread."""
OF_DECISION = {"not worse": 0, "worse": 6, "undecided": 7}
"""`compare --margin`, by the gate's result."""


def _check(checked: MachineDocument | ItemsDocument) -> int:
    return WRONG if checked.is_wrong else 0


def _compare(compared: ComparisonDocument) -> int:
    return 0 if compared.decision is None else OF_DECISION[compared.decision.result]


def _plan(plan: Plan) -> int:
    if plan.refusal is not None:
        raise plan.refusal
    return 0


def _run(result: RunResult) -> int:
    from layton_batch.cli.endings import run_exit_code  # loads the store

    return run_exit_code(result)


def _verify(verified: VerificationDocument) -> int:
    return DamagedTableError.exit_code if verified.differences else 0


ENDINGS: Mapping[str, Callable[[Any], int]] = {
    "check": _check,
    "compare": _compare,
    "judge": _run,
    "plan": _plan,
    "run": _run,
    "verify": _verify,
}
"""Exit code by command; every other document ends with 0."""
