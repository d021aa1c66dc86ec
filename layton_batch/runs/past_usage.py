"""How many tokens earlier runs needed for a request of the same model and task."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from layton_batch.errors import LaytonBatchError
from layton_batch.files import tables
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import ModelSpec
from layton_batch.runs.folders import find_runs, stored_manifest
from layton_batch.states import Role

_COLUMNS = ("role", "provider", "model", "input_tokens", "output_tokens", "reasoning_tokens")
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
    """Tokens by role and model, over the runs under a folder that had the same task, split and hints."""

    def __init__(self, manifest: Manifest, runs: Path) -> None:
        self._found: dict[_Key, Tokens] = {}
        for folder in find_runs(runs):
            try:
                self._add(folder, manifest)
            except LaytonBatchError:
                continue  # a run that cannot be read says nothing here; the commands about it say what is wrong

    def mean(self, role: Role, spec: ModelSpec) -> Tokens | None:
        """Return the tokens of one request, rounded up; None: no earlier run has any."""
        sums = self._found.get(_key(role, spec))
        if sums is None:
            return None
        return Tokens(1, -(-sums.input // sums.requests), -(-sums.output // sums.requests), sums.longest)

    def _add(self, folder: RunFolder, manifest: Manifest) -> None:
        stored = stored_manifest(folder)
        if (stored.task, stored.items.split, stored.items.hints) != (
            manifest.task,
            manifest.items.split,
            manifest.items.hints,
        ):
            return
        keys = {(role, spec.provider, spec.name): _key(role, spec) for role, spec in _specs(stored)}
        usage = tables.read(folder.tables, "usage", _COLUMNS).drop_nulls()
        visible = pl.col("output_tokens") - pl.col("reasoning_tokens")
        for role, provider, model, count, read, written, longest in (
            usage.group_by(_COLUMNS[:3])
            .agg(
                pl.len(),
                pl.col("input_tokens").sum(),
                pl.col("output_tokens").sum().alias("output"),
                visible.max().alias("longest"),
            )
            .iter_rows()
        ):
            if (key := keys.get((Role(role), provider, model))) is not None:
                sums = self._found.setdefault(key, Tokens())
                sums.requests, sums.input, sums.output = sums.requests + count, sums.input + read, sums.output + written
                sums.longest = max(sums.longest, longest)


def _specs(manifest: Manifest) -> Iterator[tuple[Role, ModelSpec]]:
    for spec in manifest.model_specs():
        yield Role.PREDICT, spec
    for judge in manifest.panel():
        yield Role.JUDGE, judge.model


def _key(role: Role, spec: ModelSpec) -> _Key:
    return role, spec.provider, spec.model, spec.reasoning.effort, spec.reasoning.budget_tokens
