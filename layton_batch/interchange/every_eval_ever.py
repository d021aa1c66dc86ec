"""Every Eval Ever, version 0.3: a document an evaluation and model, and a line an item and metric.

Read as scores: the lines (``<id>_samples.jsonl``) are ranked; the document (``<id>.json``), if there is one, says what
a metric is called, how high it can be, and whether less is better. Read as answers: what models answered, and, in our
own lines, what judges said of it. Written: the same run gives the same files, but for the moment of writing.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from layton_batch import __version__
from layton_batch.errors import DataError
from layton_batch.files.run_folder import slug
from layton_batch.files.sources import check_file, unknown_item
from layton_batch.interchange.prediction_files import IMPORTED, ImportedModel, asked_as, verdict_text
from layton_batch.interchange.run_contents import ModelContents, Row, RunContents
from layton_batch.interchange.score_file import (
    ItemOutcome,
    Object,
    ScoreFile,
    fingerprint,
    json_lines,
    number_of,
    object_at,
    object_of,
    text_at,
)
from layton_batch.records import Item, JsonValue, ModelSpec, Response
from layton_batch.stages.prompts import candidates
from layton_batch.states import PredictionKind, Role
from layton_batch.tasks.offline import no_response, response
from layton_batch.tasks.protocol import juried

VERSION = "0.3.0"
SUFFIX = "_samples.jsonl"
METRIC_MARK = "#"
"""Our own exports end ``evaluation_result_id`` in this mark and the metric's name."""
HINTS_MARK = "layton_batch.n_hints"
SAMPLE_MARK = "layton_batch.sample"
"""Our own exports say so which answer of a model to an item a line is of, where it was asked several times."""
JUDGE_MARK = "judge."
"""Our own exports begin the metadata of a judge's verdict so; its name follows."""
_KINDS = frozenset(map(str, PredictionKind))


Json = dict[str, JsonValue]


@dataclass(frozen=True, slots=True)
class _Metric:
    name: str
    largest: float | None
    lower_is_better: bool
    least: float | None = None


def is_line(row: Object) -> bool:
    """Return whether a file's first line is a line of Every Eval Ever."""
    return {"evaluation_id", "sample_id", "evaluation"} <= row.keys()


def is_document(row: Object) -> bool:
    """Return whether a JSON document describes a whole evaluation."""
    return {"evaluation_id", "evaluation_results"} <= row.keys()


def samples_beside(document: Path) -> Path:
    """The lines that belong to a document. Raises DataError where there are none: it holds totals alone."""
    lines = document.with_name(document.stem + SUFFIX)
    if not lines.is_file():
        raise DataError(
            f"{document}: holds totals, and models are ranked by item: give the file of its items ({lines.name})"
        )
    return lines


def read_scores(path: Path) -> list[ScoreFile]:
    """The models of a file of lines. Raises DataError with file, line and reason."""
    metrics = _metrics_beside(path)
    files: dict[tuple[str, str, str, int, int], ScoreFile] = {}
    for place, row in json_lines(path):
        new = _file_of(path, text_at(row, "model_id", place), text_at(row, "evaluation_name", place), row)
        file = files.setdefault((new.model, new.provider, new.task, new.n_hints, new.sample), new)
        _add_mark(file, row, place, metrics)
    return list(files.values())


def _file_of(path: Path, model: str, task: str, row: Object) -> ScoreFile:
    """Our own exports name the model as their board does; others by ``model_id``."""
    about = row.get("metadata")
    about = about if isinstance(about, Mapping) else {}
    name, provider = (about.get(f"layton_batch.{key}") for key in ("model", "provider"))
    return ScoreFile(
        where=str(path),
        model=name if isinstance(name, str) and name else model,
        task=task,
        provider=provider if isinstance(provider, str) else "",
        n_hints=whole_number(about.get(HINTS_MARK)) or 0,
        sample=whole_number(about.get(SAMPLE_MARK)) or 1,
    )


def whole_number(text: object) -> int | None:
    """The number that a metadata's text is; None where it is none."""
    return int(text) if isinstance(text, str) and text.isdecimal() and len(text) < 4 else None


def _add_mark(file: ScoreFile, row: Object, place: str, metrics: Mapping[str, _Metric]) -> None:
    item, judged = text_at(row, "sample_id", place), object_at(row, "evaluation", place)
    mark = number_of(judged.get("score"))
    if mark is None or isinstance(judged.get("score"), bool):
        raise DataError(f"{place}: 'evaluation.score' must be a number")
    if not isinstance(judged.get("is_correct"), bool):
        raise DataError(f"{place}: 'evaluation.is_correct' must be true or false")
    metric = _metric(row, metrics)
    about = row.get("metadata")
    about = about if isinstance(about, Mapping) else {}
    kind, failure = about.get("kind"), about.get("failure")
    outcome = ItemOutcome(
        mark,
        str(kind) if kind in _KINDS else str(PredictionKind.ANSWERED),
        failure if isinstance(failure, str) else None,
    )
    file.add(metric.name, item, outcome, place)
    if metric.largest is not None:
        file.largest[metric.name] = metric.largest
    if metric.least is not None:
        file.least[metric.name] = metric.least
    if not file.notes and any(name.startswith(JUDGE_MARK) for name in about):
        file.notes.append(
            "Marks that are shares of a jury's votes are ranked as they are, uncorrected by people's labels."
        )
    if metric.lower_is_better:
        file.lower_is_better.add(metric.name)
    file.questions[item] = _asked(row, place)


def _asked(row: Object, place: str) -> tuple[str, int]:
    given = object_at(row, "input", place)
    if "raw" not in given or "reference" not in given:
        raise DataError(f"{place}: 'input' must have 'raw' and 'reference'")
    return ("input", fingerprint(given["raw"], given["reference"]))


def _metric(row: Object, metrics: Mapping[str, _Metric]) -> _Metric:
    result = row.get("evaluation_result_id")
    if not isinstance(result, str):
        return next(iter(metrics.values())) if len(metrics) == 1 else _Metric("score", None, False)
    if result in metrics:
        return metrics[result]
    name = result.rpartition(METRIC_MARK)[2] if METRIC_MARK in result else "score"
    return _Metric(name or "score", None, False)


# ---- the document beside the lines ---------------------------------------------------------------------------------


def _metrics_beside(lines: Path) -> dict[str, _Metric]:
    """Return the metrics by the result's id; empty without a document."""
    document = lines.with_name(lines.name.removesuffix(SUFFIX) + ".json")
    if not lines.name.endswith(SUFFIX) or not document.is_file():
        return {}
    try:
        content = object_of(document.read_bytes(), str(document))
    except OSError as error:
        raise DataError(f"{document}: cannot be read ({error.strerror or error})") from error
    results = content.get("evaluation_results")
    metrics = {}
    for result in results if isinstance(results, list) else ():
        if isinstance(result, Mapping) and isinstance(result.get("metric_config"), Mapping):
            identity = result.get("evaluation_result_id")
            metrics[identity if isinstance(identity, str) else ""] = _metric_of(result)
    return metrics


def _metric_of(result: Object) -> _Metric:
    config = result["metric_config"]
    assert isinstance(config, Mapping)  # noqa: S101  the caller looked
    names = (config.get(key) for key in ("metric_id", "metric_name", "metric_kind"))
    name = next((candidate for candidate in names if isinstance(candidate, str) and candidate), "score")
    largest = number_of(config.get("max_score"))
    largest = largest if largest and largest > 0 else None
    return _Metric(name, largest, config.get("lower_is_better") is True, number_of(config.get("min_score")))


# ---- answers -------------------------------------------------------------------------------------------------------


_PROVIDER = re.compile(r"[a-z0-9_-]{1,40}")
_VERDICT = re.compile(r"is_answer_correct=(true|false|unknown) is_justification_correct=(true|false|unknown)")
_WORDS = {"true": True, "false": False, "unknown": None}


@dataclass(slots=True)
class _Model:
    spec: ModelSpec
    source: str
    answers: dict[str, Response] = field(default_factory=dict)
    verdicts: dict[str, dict[str, Response]] = field(default_factory=dict)


_Asked = tuple[str, int | None, int]


def read_answers(paths: Collection[Path], items: Collection[str], levels: Sequence[int]) -> list[ImportedModel]:
    """The models of the files, each sample and each of the run's numbers of hints (``levels``) apart. Lines of several
    metrics say the same of an item; what differs is refused. Raises DataError with file, line and reason."""
    models_found: dict[_Asked, _Model] = {}
    for path in paths:
        check_file(path, path)
        for place, row in json_lines(path):
            if not is_line(row):
                raise DataError(f"{place}: is no line of Every Eval Ever")
            _add_answer(models_found, row, place, str(path), items, levels)
    return [ImportedModel(model.spec, model.answers, model.source, model.verdicts) for model in models_found.values()]


def _add_answer(
    models: dict[_Asked, _Model], row: Object, place: str, source: str, items: Collection[str], levels: Sequence[int]
) -> None:
    model_id, item, about = text_at(row, "model_id", place), text_at(row, "sample_id", place), _texts_about(row)
    if item not in items:
        raise DataError(f"{place}: {unknown_item(item, items)}")
    told_hints, told_sample = (whole_number(about.get(mark)) for mark in (HINTS_MARK, SAMPLE_MARK))
    hints, sample = asked_as(told_hints, told_sample, levels, place)
    name = about.get("layton_batch.model") or model_id
    spec = replace(_spec(name, model_id, about), hints=hints, sample=sample)
    model = models.setdefault((name, hints, sample), _Model(spec, source))
    reply = _reply(row, place, about)
    if model.answers.setdefault(item, reply) != reply:
        raise DataError(f"{place}: model {name!r} has another answer to item {item!r} already")
    for key, words in about.items():
        if key.startswith(JUDGE_MARK):
            model.verdicts.setdefault(key.removeprefix(JUDGE_MARK), {})[item] = _verdict(words, place, key)


def _texts_about(row: Object) -> Mapping[str, str]:
    about = row.get("metadata")
    if not isinstance(about, Mapping):
        return {}
    return {key: value for key, value in about.items() if isinstance(value, str)}


def _spec(name: str, model_id: str, about: Mapping[str, str]) -> ModelSpec:
    provider = about.get("layton_batch.provider", "")
    family = model_id.partition("/")[0] if "/" in model_id else name
    return ModelSpec(name, provider if _PROVIDER.fullmatch(provider) else IMPORTED, name, family)


def _reply(row: Object, place: str, about: Mapping[str, str]) -> Response:
    replies = object_at(row, "output", place).get("raw")
    if not isinstance(replies, list) or not all(isinstance(text, str) for text in replies):
        raise DataError(f"{place}: 'output.raw' must be a list of texts")
    if len(replies) > 1:
        raise DataError(f"{place}: has {len(replies)} answers; a run has one an item")
    error = row.get("error")
    if not replies or about.get("kind") == str(PredictionKind.MISSING) or (error and not replies[0]):
        return no_response(error if isinstance(error, str) else "no reply")
    ending = about.get("finish_reason")
    return response(str(replies[0]), {"finish_reason": ending} if ending else {})


def _verdict(words: str, place: str, key: str) -> Response:
    matched = _VERDICT.fullmatch(words)
    if matched is None:
        raise DataError(f"{place}: 'metadata.{key}' is no verdict")
    return response(verdict_text(*(_WORDS[word] for word in matched.groups())), {})


# ---- a run, written ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EvaluationNames:
    """Origin of the files. ``benchmark``: the folder under ``data/`` and the evaluation's name."""

    benchmark: str
    organization: str
    written_at: float


def write(contents: RunContents, names: EvaluationNames) -> Iterator[tuple[str, bytes]]:
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
        "metric_config": _metric_config(contents, model, metric),
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


def _metric_config(contents: RunContents, model: ModelContents, metric: str) -> Json:
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
