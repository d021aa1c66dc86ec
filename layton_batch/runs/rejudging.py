"""Rejudging: labelled answers of the gold set go before the run's own jury.

A label says how often people agree with the votes of one jury. Where the gold set has the votes of another jury, the
jury of this run judges the labelled answers again, by ordinary requests. The labels then stand beside those votes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Literal

import polars as pl

from layton_batch.errors import ManifestError
from layton_batch.files.run_folder import slug
from layton_batch.manifest.asked import JUDGE_PROMPTS, judge_prompts_sha256
from layton_batch.manifest.jury import seat_jury
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Job, ModelSpec
from layton_batch.runs.identity import predict_id
from layton_batch.scoring.evidence import ENTRANT, Entrant
from layton_batch.scoring.gold import VERDICT, Gold
from layton_batch.scoring.gold_file import BUNDLED
from layton_batch.scoring.jury_record import JudgeRecord, judge_record
from layton_batch.states import Role

_SAID = {
    "provider": "the provider of the judge {judge} is {here} here and was {there}",
    "model": "the judge {judge} is the model {here} here and was {there}",
    "settings": "the settings of the judge {judge} are {here} here and were {there}",
    "prompt_sha256": "the judges' prompts are others",
}


@dataclass(frozen=True, slots=True)
class Rejudged:
    """One judge's work on the labelled answers of one model. ``own``: the id of the job that asks the same model in
    this run; the jury judges those answers anyway."""

    job: Job
    judged: ModelSpec
    rows: pl.DataFrame
    own: str | None = None
    hints: int = 0

    @property
    def about(self) -> str:
        """Whose answers these are."""
        return repr((self.judged.provider, self.judged.name, self.hints))


def differences(manifest: Manifest, gold: Gold) -> list[str]:
    """How the jury whose votes stand in the gold set differs from this run's, a clause each; empty: as far as the file
    tells, it is the same jury.

    Every file names its judges. Only one that this program wrote says more of them (``recorded_jury``); of the bundled
    one the prompts are known as well.
    """
    found: dict[str, None] = {}
    models = {judge.model.name: judge.model.model for judge in manifest.panel()}
    here_and_now = recorded_jury(manifest)
    is_bundled = manifest.gold is not None and manifest.gold.source == BUNDLED
    for judged, _, rows in _by_model(manifest, gold.labelled):
        voted = {judge for judge in gold.judges if not _decided(rows, judge).is_empty()}
        seated = {judge.model.name for judge in seat_jury(manifest.panel(), judged, manifest.seats)}
        if voted and voted != seated:
            there, here = ", ".join(sorted(voted)), ", ".join(sorted(seated))
            found[f"{judged.name} was judged by {there}, and would be by {here}"] = None
        for name in sorted(voted & models.keys()):
            record = gold.recorded.get(name, JudgeRecord())
            if record.model is None and models[name] != name:
                found[f"the judge {name} is the model {models[name]} here"] = None
            for what, here, there in here_and_now[name].differences(record):
                if what != "prompt_sha256" or not is_bundled:
                    found[_SAID[what].format(judge=name, here=here, there=there)] = None
    if is_bundled:
        found |= {f"the prompt {name} is another": None for name in manifest.prompts if name.startswith(JUDGE_PROMPTS)}
    return list(found)


def recorded_jury(manifest: Manifest) -> Mapping[str, JudgeRecord]:
    """By name, what a gold set made from a run of this manifest says of its judges."""
    prompts = judge_prompts_sha256(manifest.task, manifest.prompt_texts, manifest.task_options)
    return {judge.model.name: judge_record(judge.model, prompts) for judge in manifest.panel()}


def frozen_gold(manifest: Manifest, gold: Gold) -> Gold:
    """The gold set as a run keeps it: of the bundled one it is known that its judges had the packaged prompts."""
    if manifest.gold is None or manifest.gold.source != BUNDLED or gold.recorded:
        return gold
    prompts = JudgeRecord(prompt_sha256=judge_prompts_sha256(manifest.task))
    return replace(gold, recorded={} if prompts.is_empty else dict.fromkeys(gold.judges, prompts))


def check_labels(manifest: Manifest, gold: Gold) -> None:
    """Raises ManifestError where the manifest neither rejudges nor trusts the labels of another jury."""
    table = manifest.gold
    if table is None or table.rejudge != 0 or table.trust:
        return
    if found := differences(manifest, gold):
        raise ManifestError(
            f"{manifest.name}: the gold set {table.source} has the votes of another jury ({'; '.join(found[:3])}). Its "
            "labels do not say how often people agree with this run's jury. Choose one: take out `rejudge = 0` (this "
            "run's jury judges the labelled answers, which costs money); seat the gold set's jury under [jury]; or "
            "set `trust = true` under [gold] (the board then says that the labels are those of another jury)"
        )


def rejudge_count(manifest: Manifest, gold: Gold) -> int | Literal["all"]:
    """How many labelled answers go before the run's jury: as the manifest says, else all where the jury differs."""
    table = manifest.gold
    if table is None:
        return 0
    if table.rejudge is not None:
        return table.rejudge
    return "all" if not table.trust and differences(manifest, gold) else 0


def rejudge_jobs(manifest: Manifest, gold: Gold, item_ids: Collection[str]) -> list[Rejudged]:
    """The jobs that put labelled answers before the run's jury, one for each labelled model and judge.

    An answer to an item that the run does not have cannot be judged, and is left out.
    """
    rows = gold.labelled.filter(~pl.col("silent"), pl.col("item_id").is_in(list(item_ids)))
    chosen = _sample(rows, gold, rejudge_count(manifest, gold))
    own = {
        (spec.name, spec.provider, manifest.hints_of(spec)): predict_id(spec)
        for spec in manifest.asked_specs()
        if spec.sample == 1
    }
    found = []
    for judged, n_hints, answers in _by_model(manifest, chosen):
        asked = own.get((judged.name, judged.provider, n_hints))
        name = slug(f"h{n_hints}." * bool(n_hints) + f"{judged.provider}.{judged.name}")
        for judge in seat_jury(manifest.panel(), judged, manifest.seats):
            job = Job(f"rejudge-{slug(judge.model.name)}--{name}", Role.REJUDGE, judge.model)
            found.append(Rejudged(job, judged, answers, asked, n_hints))
    return found


def _decided(rows: pl.DataFrame, judge: str) -> pl.DataFrame:
    """The rows that a judge decided anything of."""
    return rows.filter(pl.any_horizontal(pl.col([prefix + judge for prefix in VERDICT.values()]).is_not_null()))


def _by_model(manifest: Manifest, rows: pl.DataFrame) -> Iterator[tuple[ModelSpec, int, pl.DataFrame]]:
    """The model that answered, its hint level and its rows. A model that the run does not ask is of its provider's
    family."""
    known = {(spec.name, spec.provider): spec for spec in manifest.model_specs()}
    for names, answers in rows.group_by(ENTRANT, maintain_order=True):
        who = Entrant(*names)
        spec = known.get((who.model, who.provider)) or ModelSpec(who.model, who.provider, who.model, who.provider)
        yield spec, who.n_hints, answers


def _sample(rows: pl.DataFrame, gold: Gold, count: int | Literal["all"]) -> pl.DataFrame:
    """So many of the rows, from every published vote in proportion; which ones hangs on the rows alone."""
    if count == "all" or count >= rows.height:
        return rows
    votes = replace(gold, rows=rows).on("both_correct").select("yes", "total").rows()
    keys = rows.select("item_id", "provider", "model", "n_hints").rows()
    strata: dict[tuple[int, int], list[tuple[str, str, str, int]]] = defaultdict(list)
    for key, vote in sorted(zip(keys, votes, strict=True), key=_order):
        strata[vote].append(key)
    shares = {vote: count * len(members) / len(keys) for vote, members in strata.items()}
    sizes = {vote: int(share) for vote, share in shares.items()}
    for vote in sorted(shares, key=lambda vote: (sizes[vote] - shares[vote], vote))[: count - sum(sizes.values())]:
        sizes[vote] += 1
    kept = {key for vote, members in strata.items() for key in members[: sizes[vote]]}
    return rows.filter(pl.Series([key in kept for key in keys], dtype=pl.Boolean))


def _order(row: tuple[tuple[str, str, str, int], object]) -> bytes:
    return sha256(repr(row[0]).encode("utf-8", "surrogatepass")).digest()
