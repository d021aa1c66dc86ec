"""Tokens that earlier answers of the workspace needed for a request of the same model and task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from layton_batch.manifest.manifest import Manifest
from layton_batch.records import ModelSpec
from layton_batch.states import Role
from layton_batch.store.run_store import RunStore

_Key = tuple[Role, str, str, str | None, int | None]
"""Role, provider, its name of the model, effort, budget: what decides how much a model writes."""


@dataclass(slots=True)
class Tokens:
    """Added up over ``requests`` answers. ``longest``: the most that one reply wrote beside its reasoning."""

    requests: int = 0
    input: int = 0
    output: int = 0
    longest: int = 0


class PastUsage:
    """Tokens by role and model, over the runs of a store's workspace with the manifest's task, split and hints."""

    def __init__(self, manifest: Manifest, store: RunStore) -> None:
        self._tokens: dict[_Key, Tokens] = {}
        of_run: dict[str, bool] = {}
        for usage in store.token_usage():
            if usage.manifest not in of_run:
                of_run[usage.manifest] = _kind(usage.manifest) == _kind(manifest.frozen_json())
            if of_run[usage.manifest]:
                tokens = self._tokens.setdefault(_key(usage.role, usage.spec), Tokens())
                tokens.requests += usage.requests
                tokens.input += usage.input
                tokens.output += usage.output
                tokens.longest = max(tokens.longest, usage.longest)

    def mean(self, role: Role, spec: ModelSpec) -> Tokens | None:
        """Return the tokens of one request, rounded up; None: no earlier run has any."""
        sums = self._tokens.get(_key(role, spec))
        if sums is None:
            return None
        return Tokens(1, -(-sums.input // sums.requests), -(-sums.output // sums.requests), sums.longest)


def _kind(frozen: str) -> Sequence[object]:
    """Return what decides how long prompts and replies are: task, split, hints, and whether judges say why."""
    content = orjson.loads(frozen)["manifest"]
    has_reasons = (content.get("jury") or {}).get("reasons", False)
    return content["task"], content["items"].get("split"), content["items"].get("hints"), has_reasons


def _key(role: Role, spec: ModelSpec) -> _Key:
    return role, spec.provider, spec.model, spec.reasoning.effort, spec.reasoning.budget_tokens
