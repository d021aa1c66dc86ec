"""Every Eval Ever 0.3.0: a document a model, and a line an item and metric, in the folders of its data store.

The same run gives the same files, but for the moment at which they were written.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from uuid import UUID

import orjson

from layton_batch import __version__
from layton_batch.exports.run_contents import ModelContents, Row, RunContents
from layton_batch.files.run_folder import slug
from layton_batch.grading.harnesses.every_eval_ever_logs import HINTS_MARK, JUDGE_MARK, METRIC_MARK, SAMPLE_MARK, SUFFIX
from layton_batch.records import Item, JsonValue, ModelSpec
from layton_batch.stages.prompts import candidates
from layton_batch.states import PredictionKind, Role
from layton_batch.tasks.protocol import juried

VERSION = "0.3.0"
Json = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class EvaluationNames:
    """Origin of the files. ``benchmark``: the folder under ``data/`` and the evaluation's name."""

    benchmark: str
    organization: str
    written_at: float


def files(contents: RunContents, names: EvaluationNames) -> Iterator[tuple[str, bytes]]:
    """Yield every model's document and lines with their paths. Models and metrics without a score are left out."""
    for model in contents.models:
        metrics = [metric for metric in contents.metrics if contents.row(model, metric).item(0, "score") is not None]
        if not metrics:
            continue
        folder = f"data/{slug(names.benchmark)}/{slug(model.spec.family)}/{slug(model.spec.name)}"
        hint_parts = () if model.spec.hints is None else (f"{model.hints} hints",)
        identity = _uuid(contents.run.id, repr(contents.run.born), model.spec.provider, model.spec.name, *hint_parts)
        evaluation = "/".join((names.benchmark, _model_id(model.spec), *hint_parts, str(int(contents.run.born))))
        samples = [model, *(sample for sample in contents.later if _is_same(sample.spec, model.spec))]
        lines = b"".join(line for sample in samples for line in _lines(contents, sample, metrics, evaluation, names))
        path = f"{folder}/{identity}{SUFFIX}"
        yield path, lines
        document = _document(contents, model, metrics, evaluation, names)
        document["detailed_evaluation_results"] = {
            "format": "jsonl",
            "file_path": path,
            "hash_algorithm": "sha256",
            "checksum": sha256(lines).hexdigest(),
            "total_rows": lines.count(b"\n"),
        }
        yield f"{folder}/{identity}.json", orjson.dumps(document, option=orjson.OPT_INDENT_2)


def _uuid(*parts: str) -> str:
    """A UUID of version 4's form that hangs on nothing but these."""
    return str(UUID(bytes=sha256("\x1f".join(parts).encode("utf-8", "surrogatepass")).digest()[:16], version=4))


def _is_same(spec: ModelSpec, other: ModelSpec) -> bool:
    return (spec.name, spec.provider, spec.hints) == (other.name, other.provider, other.hints)


def _model_id(spec: ModelSpec) -> str:
    return f"{spec.family}/{spec.name}"


# ---- the document --------------------------------------------------------------------------------------------------


def _document(
    contents: RunContents, model: ModelContents, metrics: Sequence[str], evaluation: str, names: EvaluationNames
) -> Json:
    run = contents.run
    return {
        "schema_version": VERSION,
        "evaluation_id": evaluation,
        "evaluation_timestamp": str(int(run.born)),
        "retrieved_timestamp": str(int(names.written_at)),
        "source_metadata": {
            "source_name": run.manifest.name,
            "source_type": "evaluation_run",
            "source_organization_name": names.organization,
            "evaluator_relationship": "third_party",
        },
        "eval_library": {"name": "layton-batch", "version": __version__},
        "model_info": _model_info(model.spec),
        "evaluation_results": [_result(contents, model, metric, evaluation, names) for metric in metrics],
    }


def _model_info(spec: ModelSpec) -> Json:
    return {
        "name": spec.name,
        "id": _model_id(spec),
        "developer": spec.family,
        "inference_platform": spec.provider,
        "additional_details": {
            "deployment_type": "externally_managed",
            "model_availability": "unknown",
            "model_told_to_provider": spec.model,
        },
    }


def _result(contents: RunContents, model: ModelContents, metric: str, evaluation: str, names: EvaluationNames) -> Json:
    row = contents.row(model, metric).row(0, named=True)
    return {
        "evaluation_result_id": f"{evaluation}{METRIC_MARK}{metric}",
        "evaluation_name": names.benchmark,
        "source_data": _source(contents, names),
        "metric_config": _metric(contents, model, metric),
        "score_details": _score(row, model),
        "generation_config": _generation(model.spec),
    }


def _source(contents: RunContents, names: EvaluationNames) -> Json:
    source = contents.run.manifest.items.source
    same: Json = {"dataset_name": names.benchmark}
    if source.startswith("hf://datasets/"):
        repo = "/".join(source.removeprefix("hf://datasets/").split("/")[:2])
        return {**same, "source_type": "hf_dataset", "hf_repo": repo, "samples_number": len(contents.run.items)}
    if source.startswith(("http://", "https://")):
        return {**same, "source_type": "url", "url": [source]}
    return {**same, "source_type": "other"}


def _metric(contents: RunContents, model: ModelContents, metric: str) -> Json:
    votes = [row.get("vote") for (_, name), row in model.marks.items() if name == metric]
    least = min([0.0, *(vote for vote in votes if isinstance(vote, float))])
    config: Json = {
        "metric_id": metric,
        "metric_name": metric.replace("_", " "),
        "metric_unit": "proportion",
        "lower_is_better": False,
        "score_type": "continuous",
        "min_score": -1 if least < 0 else 0,
        "max_score": 1,
    }
    if model.judges:
        config["llm_scoring"] = {
            "judges": [{"model_info": _model_info(judge)} for judge in model.judges],
            "input_prompt": _judge_prompt(contents),
            "aggregation_method": "average",
        }
    return config


def _judge_prompt(contents: RunContents) -> str:
    """Return the judges' instructions. The lines hold the judged items."""
    run = contents.run
    for job in run.store.jobs():
        if job.role is Role.JUDGE and job.graded:
            for candidate in candidates(run, job):
                return juried(run.task).judge_prompt(candidate).system
    return ""


def _score(row: Mapping[str, Any], model: ModelContents) -> Json:
    """Return the score and interval that the row shows; ``details`` hold those of both targets."""
    score: Json = {"score": _fraction(row["score"] or 0.0), "details": _details(row, model)}
    if row["lower"] is not None and row["upper"] is not None:
        interval: Json = {
            "lower": _fraction(row["lower"]),
            "upper": _fraction(row["upper"]),
            "confidence_level": row["level"],
            "method": f"layton-batch, {row['method']}, for {row['target']}",
        }
        score["uncertainty"] = {"confidence_interval": interval, "num_samples": row["n_items"]}
    return score


def _fraction(percent: float) -> float:
    """Turn percent with one decimal into a fraction."""
    return round(percent / 100, 3)


_RANKS = ("rank", "rank_best", "rank_worst")


def _details(row: Mapping[str, Any], model: ModelContents) -> Json:
    both = (f"{target}_{name}" for target in ("new", "set") for name in ("score", "lower", "upper", *_RANKS))
    names = (*_RANKS, "target", *both, "n_items", "n_abstained", "n_unparsed", "n_missing", "n_unjudged",
             "own_labels", "borrowed_labels", "method", "flags")  # fmt: skip
    details = {name: str(row[name]) for name in names if row[name] not in (None, "")}
    tokens = ("input_tokens", "output_tokens", "reasoning_tokens")
    sums = {name: str(sum(int(str(usage[name] or 0)) for usage in model.usage.values())) for name in tokens}
    return {**details, **(sums if model.usage else {})}


def _generation(spec: ModelSpec) -> Json:
    sampling = {name: spec.params[name] for name in ("temperature", "top_p", "top_k") if name in spec.params}
    arguments: Json = {name: value for name, value in sampling.items() if isinstance(value, int | float)}
    if spec.max_output_tokens is not None:
        arguments["max_tokens"] = spec.max_output_tokens
    details: Json = {"api": "batch"}
    if spec.reasoning.effort is not None:
        arguments["reasoning"] = spec.reasoning.effort != "none"
        details["reasoning_effort"] = spec.reasoning.effort
    if spec.reasoning.budget_tokens is not None:
        arguments["reasoning"] = True
        details["reasoning_budget_tokens"] = str(spec.reasoning.budget_tokens)
    return {"generation_args": arguments, "additional_details": details}


# ---- the lines -----------------------------------------------------------------------------------------------------


def _lines(
    contents: RunContents, model: ModelContents, metrics: Sequence[str], evaluation: str, names: EvaluationNames
) -> Iterator[bytes]:
    """Yield a line for each item with a score. Items with unreadable verdicts have none."""
    for prediction in model.predictions:
        item = contents.run.item(str(prediction["item_id"]))
        same = _said(model, prediction, item, evaluation, names)
        sample = {SAMPLE_MARK: str(model.spec.sample)} if model.samples > 1 else {}
        for metric in metrics:
            mark = model.marks.get((item.id, metric))
            if mark is None or mark["vote"] is None:
                continue
            vote = float(str(mark["vote"]))
            right = vote > 0.5 if model.judges else vote >= 1
            about = {**_about(model, prediction, item), **sample}
            about |= {"failure": str(mark["flag"])} if mark["flag"] else {}
            line = {
                **same,
                "evaluation_result_id": f"{evaluation}{METRIC_MARK}{metric}",
                "evaluation": {"score": vote, "is_correct": right},
                "metadata": about,
            }
            yield orjson.dumps(line) + b"\n"


def _said(model: ModelContents, prediction: Row, item: Item, evaluation: str, names: EvaluationNames) -> Json:
    reference: list[JsonValue] = [text for text in (item.answer or item.solution,) if text]
    raw = str(prediction["raw_text"] or "")
    line: Json = {
        "schema_version": VERSION,
        "evaluation_id": evaluation,
        "model_id": _model_id(model.spec),
        "evaluation_name": names.benchmark,
        "sample_id": item.id,
        "sample_hash": sha256(orjson.dumps([item.question, reference])).hexdigest(),
        "interaction_type": "single_turn",
        "input": {"raw": item.question, "reference": reference},
        "output": {"raw": [raw]},
        "messages": None,
        "answer_attribution": _attribution(prediction),
        "token_usage": _tokens(model.usage.get(item.id)),
    }
    if prediction["kind"] == PredictionKind.MISSING:
        line["error"] = str(prediction["note"] or "no answer")
    return line


def _attribution(prediction: Row) -> list[JsonValue]:
    if prediction["answer"] is None:
        return []
    return [
        {
            "turn_idx": 0,
            "source": "output.raw",
            "extracted_value": str(prediction["answer"]),
            "extraction_method": "custom",
            "is_terminal": True,
        }
    ]


def _tokens(usage: Row | None) -> Json | None:
    if usage is None or usage["input_tokens"] is None or usage["output_tokens"] is None:
        return None
    read, written = int(str(usage["input_tokens"])), int(str(usage["output_tokens"]))
    tokens: Json = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    optional_columns = {"input_tokens_cache_read": "cached_input_tokens", "reasoning_tokens": "reasoning_tokens"}
    tokens.update({name: int(str(usage[key])) for name, key in optional_columns.items() if usage[key] is not None})
    return tokens


def _about(model: ModelContents, prediction: Row, item: Item) -> Mapping[str, str]:
    """Return metadata as texts, as the schema requires. ``layton_batch.*``: the model's names on our boards."""
    about = {
        "layton_batch.model": model.spec.name,
        "layton_batch.provider": model.spec.provider,
        HINTS_MARK: str(prediction["n_hints"] or 0),
        "kind": str(prediction["kind"]),
        "split": item.split,
        "category": item.category,
    }
    if prediction["justification"] is not None:
        about["justification"] = str(prediction["justification"])
    if prediction["finish_reason"] is not None:
        about["finish_reason"] = str(prediction["finish_reason"])
    for judge, verdict in model.verdicts.get(item.id, {}).items():
        words = (f"{name}={_word(verdict[name])}" for name in ("is_answer_correct", "is_justification_correct"))
        about[f"{JUDGE_MARK}{judge}"] = " ".join(words)
    return about


def _word(verdict: object) -> str:
    return "unknown" if verdict is None else str(verdict).lower()
