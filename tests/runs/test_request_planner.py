"""The planner says of each wanted request what a job has to do, from rows alone: nothing is opened or written."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from layton_batch.costs.estimate import PromptSize
from layton_batch.providers import connect
from layton_batch.providers.wire_json import request_line
from layton_batch.records import ModelSpec, Prompt, Request
from layton_batch.runs.requests import (
    PORTION,
    UNNAMED,
    AnswerStatus,
    PlannedRequest,
    RequestKind,
    RequestPlanner,
    SizedPrompt,
    WantedPrompt,
    custom_id,
    fingerprint_bytes,
    scoped,
)
from layton_batch.states import AnswerState
from layton_batch.store.request_rows import KnownRequest

OPENAI = connect("openai", None)
PREFIX = "r0a1b2c3d-4e5f6a7b-"
SPEC = ModelSpec("m", "openai", "larch-2-mini", "openai")
OTHER_MODEL = replace(SPEC, model="larch-2")
OWN = "run lab"
KEPT, TO_ASK = RequestKind.KEPT, RequestKind.TO_ASK
ANSWERED, IN_PROGRESS, GIVEN_UP = RequestKind.ANSWERED, RequestKind.IN_PROGRESS, RequestKind.GIVEN_UP


def digest_of(text: str, spec: ModelSpec = SPEC) -> bytes:
    """The fingerprint of a request that asks this."""
    line = request_line(OPENAI, Request("name", "", spec, Prompt("", (text,))))
    return fingerprint_bytes(spec.provider, spec.model, line, "name")


@dataclass(frozen=True)
class Answers:
    """What is known of answers, by what they reply to. ``scope``: of the run's fingerprints."""

    known: Mapping[str, AnswerStatus] = field(default_factory=dict)
    scope: str = ""

    def fingerprint(self, spec: ModelSpec, digest: bytes) -> bytes:
        return scoped(digest, self.scope)

    def all_prints(self, spec: ModelSpec, digest: bytes) -> Iterable[bytes]:
        return digest, scoped(digest, OWN)

    def look_up(self, fingerprints: Collection[bytes]) -> Mapping[bytes, AnswerStatus]:
        there = {digest_of(text): status for text, status in self.known.items()}
        unknown = {fingerprint: AnswerStatus(fingerprint, fingerprint) for fingerprint in fingerprints}
        return unknown | {
            fingerprint: replace(there[fingerprint], fingerprint=fingerprint, answer=fingerprint)
            for fingerprint in fingerprints & there.keys()
        }


def status(state: AnswerState, *, is_to_ask: bool) -> AnswerStatus:
    return AnswerStatus(b"", b"", 0, state, is_to_ask, "other")


def wanted(texts: Mapping[str, str], spec: ModelSpec = SPEC) -> list[WantedPrompt]:
    """A prompt an item."""
    prompts = {item_id: Prompt("", (text,)) for item_id, text in texts.items()}
    return [(item_id, spec, SizedPrompt(prompt, PromptSize.of(prompt))) for item_id, prompt in prompts.items()]


def known(
    texts: Mapping[str, str], *, scope: str = "", retired: Collection[str] = (), imported: bool = False
) -> list[KnownRequest]:
    """The rows of a job that asked this, an item each."""
    prints = {item_id: scoped(digest_of(text), scope) for item_id, text in texts.items()}
    return [
        KnownRequest(
            custom_id(PREFIX, number, own), item_id, None if imported else own, own, 0, 0, item_id in retired,
            AnswerState.ANSWERED, None, None, None,
        )
        for number, (item_id, own) in enumerate(prints.items(), 1)
    ]  # fmt: skip


@dataclass(frozen=True)
class Case:
    """``planned``: by item, what is to be done, and the number in the custom_id."""

    wanted: Sequence[WantedPrompt]
    planned: Mapping[str, tuple[RequestKind, int]]
    known: Sequence[KnownRequest] = ()
    answers: Answers = field(default_factory=Answers)
    retired: Sequence[int] = ()


AB, ABC = {"a": "Why?", "b": "How?"}, {"a": "Why?", "b": "How?", "c": "When?"}
CASES = {
    "a new job asks everything": Case(wanted(AB), {"a": (TO_ASK, 1), "b": (TO_ASK, 2)}),
    "the same again asks nothing": Case(wanted(AB), {"a": (KEPT, 1), "b": (KEPT, 2)}, known(AB)),
    "an item that holds what stands for a name is an item of its own": Case(
        wanted({"a": "Why?", "b": f"Why?{UNNAMED}"}), {"a": (TO_ASK, 1), "b": (TO_ASK, 2)}
    ),
    "an item more is numbered on": Case(wanted(ABC), {"a": (KEPT, 1), "b": (KEPT, 2), "c": (TO_ASK, 3)}, known(AB)),
    "an item before the others is numbered on": Case(
        wanted({"c": "When?", **AB}), {"c": (TO_ASK, 3), "a": (KEPT, 1), "b": (KEPT, 2)}, known(AB)
    ),
    "an item less is retired": Case(wanted(AB), {"a": (KEPT, 1), "b": (KEPT, 2)}, known(ABC), retired=(3,)),
    "what was retired before is not retired again": Case(
        wanted({"a": "Why?"}), {"a": (KEPT, 1)}, known(ABC, retired={"b"}), retired=(3,)
    ),
    "what comes back is kept": Case(wanted(AB), {"a": (KEPT, 1), "b": (KEPT, 2)}, known(AB, retired={"a", "b"})),
    "another text of an item is another request": Case(
        wanted({"a": "Why?", "b": "Where?"}), {"a": (KEPT, 1), "b": (TO_ASK, 3)}, known(AB), retired=(2,)
    ),
    "another model asks everything": Case(
        wanted(AB, OTHER_MODEL), {"a": (TO_ASK, 3), "b": (TO_ASK, 4)}, known(AB), retired=(1, 2)
    ),
    "answers of another run": Case(
        wanted({name: name for name in ("answered", "sent", "planned", "failed", "uncertain", "wanted")}),
        {
            "answered": (ANSWERED, 1),
            "sent": (IN_PROGRESS, 2),
            "planned": (TO_ASK, 3),
            "failed": (TO_ASK, 4),
            "uncertain": (GIVEN_UP, 5),
            "wanted": (TO_ASK, 6),
        },
        answers=Answers(
            {
                "answered": status(AnswerState.ANSWERED, is_to_ask=False),
                "sent": status(AnswerState.SENT, is_to_ask=False),
                "planned": status(AnswerState.PLANNED, is_to_ask=True),
                "failed": status(AnswerState.FAILED, is_to_ask=True),
                "uncertain": status(AnswerState.UNCERTAIN, is_to_ask=False),
                "wanted": status(AnswerState.WANTED, is_to_ask=True),
            }
        ),
    ),
    "what this run asked for in vain waits for a person": Case(
        wanted({"a": "Why?"}),
        {"a": (GIVEN_UP, 1)},
        answers=Answers({"Why?": status(AnswerState.FAILED, is_to_ask=False)}),
    ),
    "a question that two items have is asked once": Case(
        wanted({"a": "Why?", "b": "How?", "c": "Why?"}), {"a": (TO_ASK, 1), "b": (TO_ASK, 2), "c": (IN_PROGRESS, 3)}
    ),
    "without reuse nothing of others counts": Case(
        wanted({"a": "Why?"}),
        {"a": (TO_ASK, 1)},
        answers=Answers({"Why?": status(AnswerState.ANSWERED, is_to_ask=False)}, scope=OWN),
    ),
    "what was asked with reuse is kept without it": Case(
        wanted(AB), {"a": (KEPT, 1), "b": (KEPT, 2)}, known(AB), Answers(scope=OWN)
    ),
    "what was asked without reuse is kept with it": Case(
        wanted(AB), {"a": (KEPT, 1), "b": (KEPT, 2)}, known(AB, scope=OWN)
    ),
    "what came from a file stands for its item": Case(
        wanted({"a": "Another?"}), {"a": (KEPT, 1)}, known({"a": "Why?"}, imported=True)
    ),
}


def went(planner: RequestPlanner, prompts: Iterable[WantedPrompt]) -> dict[str, PlannedRequest]:
    return {request.item_id: request for request in planner.plan(prompts)}


def number_of(name: str) -> int:
    return int(name.removeprefix(PREFIX).partition("-")[0])


@pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())
def test_what_is_to_be_done_about_each_request(case: Case) -> None:
    planner = RequestPlanner(OPENAI, PREFIX, case.known, case.answers)
    planned = went(planner, case.wanted)
    assert {name: (one.kind, number_of(one.custom_id)) for name, one in planned.items()} == case.planned
    assert [number_of(name) for name in planner.retired()] == list(case.retired)
    prompts = {item_id: sized.prompt for item_id, _, sized in case.wanted}
    for one in planned.values():
        request = Request(one.custom_id, one.item_id, one.spec, prompts[one.item_id])
        assert one.line == (request_line(OPENAI, request) if one.kind is TO_ASK else b"")
        assert (one.status is None) == (one.kind is KEPT)


def test_a_job_of_several_portions_is_numbered_through_and_looked_up_a_portion_at_a_time() -> None:
    looked_up: list[int] = []

    class Counting(Answers):
        def look_up(self, fingerprints: Collection[bytes]) -> Mapping[bytes, AnswerStatus]:
            looked_up.append(len(fingerprints))
            return super().look_up(fingerprints)

    texts = {f"{number:04d}": f"Question {number}?" for number in range(2 * PORTION + 7)}
    before = {name: text for name, text in texts.items() if int(name) % 5 == 0}
    planned = went(RequestPlanner(OPENAI, PREFIX, known(before), Counting()), wanted(texts))
    new = [one for one in planned.values() if one.kind is not KEPT]
    assert [number_of(one.custom_id) for one in new] == list(range(len(before) + 1, len(texts) + 1))
    assert looked_up == [PORTION * 4 // 5, PORTION * 4 // 5, 5]
    assert all(one.custom_id.encode() in one.line for one in new)
