"""layton in two roles: models answer riddles (``answer``), or write the reference explanation of riddles whose answers
are known (``justify``), which the jury verifies and people confirm.

Both are the same jobs, tables and labels; only what is asked differs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from layton_batch.errors import DataError, ManifestError
from layton_batch.records import Item, JsonValue, Prompt
from layton_batch.tasks.layton import ANSWER_SCHEMA, LaytonTask
from layton_batch.tasks.layton_rules.original_requests import CORRECTED
from layton_batch.tasks.protocol import TaskOptions
from layton_batch.tasks.templates import TemplateVariables

ANSWER, JUSTIFY = "answer", "justify"
ROLES = (ANSWER, JUSTIFY)
_REFERENCES = "participant_references"


class JustifyTask(LaytonTask):
    """Asks for the explanation that leads from a riddle to its recorded answer, with all hints and the solution in
    sight; a recorded explanation is shown to nobody. Template names: see ``prompts/layton_justify/``."""

    all_metrics: Sequence[str] = ("justification_correct", "answer_correct", "both_correct")
    prompts = "layton_justify"
    slots: Mapping[str, TemplateVariables] = {
        **{name: slots for name, slots in LaytonTask.slots.items() if name != "participant_hints"},
        _REFERENCES: TemplateVariables(
            frozenset({"hints", "answer", "solution"}), must=frozenset({"answer", "solution"})
        ),
    }

    def items(self, rows: Iterable[Mapping[str, JsonValue]]) -> Sequence[Item]:
        """Raises DataError also for a riddle of which neither answer nor solution is recorded."""
        items = super().items({**row, "justification": None} for row in rows)
        for item in items:
            if item.answer is None and item.solution is None:
                raise DataError(f"item {item.id!r}: has neither an answer nor a solution to explain")
        return items

    def prompt(self, item: Item) -> Prompt:
        show = self._form_of(_REFERENCES)
        references = {"answer": item.answer if item.answer != item.solution else None, "solution": item.solution}
        rest = self._templates.render(
            _REFERENCES,
            hints=self._hints(_REFERENCES, item.hints),
            **{name: show(text) if text else None for name, text in references.items()},
        )
        system = self._templates.render("participant_system", has_image=bool(item.images))
        question = self._question("participant_question", item)
        if item.images:
            return Prompt(system, (question, *item.images, rest), ANSWER_SCHEMA)
        return Prompt(system, (f"{question}\n\n{rest}",), ANSWER_SCHEMA)


def layton_task(
    options: TaskOptions, protocol: str = CORRECTED, fence: bool | None = None, role: str = ANSWER
) -> LaytonTask:
    """The task in one role. Raises ManifestError for a role there is none of, or none by this protocol."""
    if role not in ROLES:
        raise ManifestError(f"task_options.role {role!r}: the layton task has {' and '.join(ROLES)}")
    if role == JUSTIFY and protocol != CORRECTED:
        raise ManifestError(f"task_options.role = {JUSTIFY!r}: only by the protocol {CORRECTED!r}")
    return JustifyTask(options, protocol, fence) if role == JUSTIFY else LaytonTask(options, protocol, fence)
