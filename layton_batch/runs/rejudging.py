"""Rejudging: labelled answers of the gold set go before the run's own jury.

A label says how often people agree with the votes of one jury. Where the gold set has the votes of another jury, the
jury of this run judges the labelled answers again, by ordinary requests. The labels then stand beside those votes.

Anchors are a few labelled answers that the same judges judge once more, under a sample number of their own. They show
whether judges still judge as they did when people labelled; no label stands beside them.
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
from layton_batch.runs.jobs import predict_id
from layton_batch.scoring.evidence import ENTRANT, Entrant
from layton_batch.scoring.gold import BUNDLED, VERDICT, GoldSet, JudgeRecord, judge_record
from layton_batch.states import Role

_SAID = {
    "provider": "the provider of the judge {judge} is {here} here and was {there}",
    "model": "the judge {judge} is the model {here} here and was {there}",
    "settings": "the settings of the judge {judge} are {here} here and were {there}",
    "prompt_sha256": "the judges' prompts are others",
}


@dataclass(frozen=True, slots=True)
class RejudgeJob:
    """One judge's work on the labelled answers of one model. ``own``: the id of the job that asks the same model in
    this run; the jury judges those answers anyway."""

    job: Job
    judged: ModelSpec
    rows: pl.DataFrame
    own: str | None = None
    hints: int = 0

    @property
    def about(self) -> str:
        """Return the name of the model that answered."""
        return repr((self.judged.provider, self.judged.name, self.hints))


def differences(manifest: Manifest, gold: GoldSet) -> list[str]:
    """List the differences between the gold set's jury and this run's, a clause each. Empty: as far as the file tells,
    it is the same jury.

    Every file names its judges. Only one that this program wrote says more of them (``recorded_jury``); of the bundled
    one the prompts are known as well.
    """
    clauses: dict[str, None] = {}
    models = {judge.model.name: judge.model.model for judge in manifest.panel()}
    here_and_now = recorded_jury(manifest)
    is_bundled = manifest.gold is not None and manifest.gold.source == BUNDLED
    for judged, _, rows in _by_model(manifest, gold.labelled):
        decided = rows.select(_decided(judge).any().alias(judge) for judge in gold.judges).row(0, named=True)
        voted = {judge for judge, has_voted in decided.items() if has_voted}
        seated = {judge.model.name for judge in seat_jury(manifest.panel(), judged, manifest.seats)}
        if voted and voted != seated:
            recorded_judges, here = ", ".join(sorted(voted)), ", ".join(sorted(seated))
            clauses[f"{judged.name} was judged by {recorded_judges}, and would be by {here}"] = None
        for name in sorted(voted & models.keys()):
            record = gold.recorded.get(name, JudgeRecord())
            if record.model is None and models[name] != name:
                clauses[f"the judge {name} is the model {models[name]} here"] = None
            for fact, here, recorded_judges in here_and_now[name].differences(record):
                if fact != "prompt_sha256" or not is_bundled:
                    clauses[_SAID[fact].format(judge=name, here=here, there=recorded_judges)] = None
    if is_bundled:
        clauses |= {
            f"the prompt {name} is another": None for name in manifest.prompts if name.startswith(JUDGE_PROMPTS)
        }
    return list(clauses)


def recorded_jury(manifest: Manifest) -> Mapping[str, JudgeRecord]:
    """Return the records of judges, by name, that a gold set made from a run of this manifest has."""
    options = {**manifest.task_options, **({"reasons": True} if manifest.has_reasons else {})}
    prompts = judge_prompts_sha256(manifest.task, manifest.prompt_texts, options)
    return {judge.model.name: judge_record(judge.model, prompts) for judge in manifest.panel()}


def frozen_gold(manifest: Manifest, gold: GoldSet) -> GoldSet:
    """The gold set as a run keeps it: of the bundled one it is known that its judges had the packaged prompts."""
    if manifest.gold is None or manifest.gold.source != BUNDLED or gold.recorded:
        return gold
    prompts = JudgeRecord(prompt_sha256=judge_prompts_sha256(manifest.task))
    return replace(gold, recorded={} if prompts.is_empty else dict.fromkeys(gold.judges, prompts))


def check_labels(manifest: Manifest, gold: GoldSet) -> None:
    """Raises ManifestError where the manifest neither rejudges nor trusts the labels of another jury."""
    table = manifest.gold
    if table is None or table.rejudge != 0 or table.trust:
        return
    if clauses := differences(manifest, gold):
        raise ManifestError(
            f"{manifest.name}: the gold set {table.source} has the votes of another jury ({'; '.join(clauses[:3])}). "
            "Its labels do not say how often people agree with this run's jury. Choose one: take out `rejudge = 0` "
            "(this run's jury judges the labelled answers, which costs money); seat the gold set's jury under [jury]; "
            "or set `trust = true` under [gold] (the board then says that the labels are those of another jury)"
        )


def rejudge_count(manifest: Manifest, gold: GoldSet) -> int | Literal["all"]:
    """Return the number of labelled answers for the run's jury: the manifest's, else all where the jury differs."""
    table = manifest.gold
    if table is None:
        return 0
    if table.rejudge is not None:
        return table.rejudge
    return "all" if not table.trust and differences(manifest, gold) else 0


def rejudge_jobs(manifest: Manifest, gold: GoldSet, item_ids: Collection[str]) -> list[RejudgeJob]:
    """The jobs that put labelled answers before the run's jury, one for each labelled model and judge, and those that
    ask for anchors.

    An answer to an item that the run does not have cannot be judged, and is left out.
    """
    rows = gold.labelled.filter(~pl.col("silent"), pl.col("item_id").is_in(list(item_ids)))
    chosen = _sample(rows, gold, rejudge_count(manifest, gold))
    own = {
        (spec.name, spec.provider, manifest.hints_of(spec)): predict_id(spec)
        for spec in manifest.asked_specs()
        if spec.sample == 1
    }
    rejudged_jobs = []
    for kind, answers in (("rejudge", chosen), ("anchor", _sample(rows, gold, manifest.anchors))):
        for judged, n_hints, of_model in _by_model(manifest, answers):
            name = slug(f"h{n_hints}." * bool(n_hints) + f"{judged.provider}.{judged.name}")
            own_job = own.get((judged.name, judged.provider, n_hints)) if kind == "rejudge" else None
            for judge in seat_jury(manifest.panel(), judged, manifest.seats):
                spec, judge_name = judge.model, slug(judge.model.name)
                if kind == "anchor":
                    spec = replace(spec, sample=manifest.anchor_sample)
                    judge_name += f"@{spec.sample}"
                job = Job(f"{kind}-{judge_name}--{name}", Role.REJUDGE, spec)
                rejudged_jobs.append(RejudgeJob(job, judged, of_model, own_job, n_hints))
    return rejudged_jobs


def _decided(judge: str) -> pl.Expr:
    """Return an expression: whether a judge decided anything of a row."""
    return pl.any_horizontal(pl.col([prefix + judge for prefix in VERDICT.values()]).is_not_null())


def _by_model(manifest: Manifest, rows: pl.DataFrame) -> Iterator[tuple[ModelSpec, int, pl.DataFrame]]:
    """The model that answered, its hint level and its rows. A model that the run does not ask is of its provider's
    family."""
    specs = {(spec.name, spec.provider): spec for spec in manifest.model_specs()}
    for names, answers in rows.group_by(ENTRANT, maintain_order=True):
        entrant = Entrant(*names)
        spec = specs.get((entrant.model, entrant.provider)) or ModelSpec(
            entrant.model, entrant.provider, entrant.model, entrant.provider
        )
        yield spec, entrant.n_hints, answers


def _sample(rows: pl.DataFrame, gold: GoldSet, count: int | Literal["all"]) -> pl.DataFrame:
    """Choose so many of the rows, from every published vote in proportion. The choice depends on the rows alone."""
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
    chosen = {key for vote, members in strata.items() for key in members[: sizes[vote]]}
    return rows.filter(pl.Series([key in chosen for key in keys], dtype=pl.Boolean))


def _order(row: tuple[tuple[str, str, str, int], object]) -> bytes:
    return sha256(repr(row[0]).encode("utf-8", "surrogatepass")).digest()
