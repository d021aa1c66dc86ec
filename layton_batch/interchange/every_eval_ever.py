"""Every Eval Ever, version 0.3: a document an evaluation and model, and a line an item and metric.

Read as scores: the lines (``<id>_samples.jsonl``) are ranked; the document (``<id>.json``), if there is one, says what
a metric is called, how high it can be, and whether less is better. Read as answers: what models answered, and, in our
own lines, what judges said of it. Written: the same run gives the same files, but for the moment of writing.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson

from layton_batch import __version__
from layton_batch.errors import DataError
from layton_batch.files.run_folder import slug
from layton_batch.files.sources import check_file, unknown_item
from layton_batch.interchange.prediction_files import IMPORTED, ImportedModel, asked_as
from layton_batch.interchange.run_contents import FLAG, JUDGED, VOTE, ModelContents, RunContents, hub_data_set
from layton_batch.interchange.score_file import (
    ItemOutcome,
    Object,
    ScoreFile,
    document_of,
    fingerprint,
    json_lines,
    number_of,
    object_at,
    object_of,
    text_at,
)
from layton_batch.providers.wire_json import at, objects, text, whole
from layton_batch.records import Item, JsonValue, ModelSpec, Response
from layton_batch.runs.context import Run
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
VERDICT_FIELDS = ("is_answer_correct", "is_justification_correct")
_KINDS = frozenset(map(str, PredictionKind))


Json = dict[str, JsonValue]
Answer = Mapping[str, Any]
"""A row of a model's answers, or of a board."""


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
    """The models of a file of lines. Raises DataError with file, line and reason.

    Our own exports name the model as their board does; others by ``model_id``.
    """
    metrics = _metrics_beside(path)
    files: dict[tuple[str, str, str, int, int], ScoreFile] = {}
    for place, row in json_lines(path):
        model, about = text_at(row, "model_id", place), _texts_about(row)
        key = (
            about.get("layton_batch.model") or model,
            text_at(row, "evaluation_name", place),
            about.get("layton_batch.provider", ""),
            whole(about.get(HINTS_MARK)) or 0,
            whole(about.get(SAMPLE_MARK)) or 1,
        )
        if (file := files.get(key)) is None:
            file = files[key] = ScoreFile(str(path), *key)
        _add_mark(file, row, place, _metric(row, metrics))
        if not file.notes and any(name.startswith(JUDGE_MARK) for name in about):
            file.notes.append(
                "Marks that are shares of a jury's votes are ranked as they are, uncorrected by people's labels."
            )
    return list(files.values())


def _add_mark(file: ScoreFile, row: Object, place: str, metric: _Metric) -> None:
    item, about = text_at(row, "sample_id", place), _texts_about(row)
    judged, given = object_at(row, "evaluation", place), object_at(row, "input", place)
    score = judged.get("score")
    mark = None if isinstance(score, bool) else number_of(score)
    if mark is None:
        raise DataError(f"{place}: 'evaluation.score' must be a number")
    if not isinstance(judged.get("is_correct"), bool):
        raise DataError(f"{place}: 'evaluation.is_correct' must be true or false")
    if "raw" not in given or "reference" not in given:
        raise DataError(f"{place}: 'input' must have 'raw' and 'reference'")
    kind = about.get("kind", "")
    outcome = ItemOutcome(mark, kind if kind in _KINDS else str(PredictionKind.ANSWERED), about.get("failure"))
    file.add(metric.name, item, outcome, place)
    if metric.largest is not None:
        file.largest[metric.name] = metric.largest
    if metric.least is not None:
        file.least[metric.name] = metric.least
    if metric.lower_is_better:
        file.lower_is_better.add(metric.name)
    file.questions[item] = ("input", fingerprint(given["raw"], given["reference"]))


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
    results = objects(document_of(document), "evaluation_results")
    return {
        text(result, "evaluation_result_id") or "": _metric_of(config)
        for result in results if (config := at(result, "metric_config"))
    }  # fmt: skip


def _metric_of(config: Object) -> _Metric:
    name = next(filter(None, (text(config, key) for key in ("metric_id", "metric_name", "metric_kind"))), "score")
    largest = number_of(config.get("max_score"))
    largest = largest if largest and largest > 0 else None
    return _Metric(name, largest, config.get("lower_is_better") is True, number_of(config.get("min_score")))


# ---- answers -------------------------------------------------------------------------------------------------------


_PROVIDER = re.compile(r"[a-z0-9_-]{1,40}")


def read_answers(paths: Collection[Path], items: Collection[str], levels: Sequence[int]) -> list[ImportedModel]:
    """The models of the files, each sample and each of the run's numbers of hints (``levels``) apart. Lines of several
    metrics say the same of an item; what differs is refused. Raises DataError with file, line and reason."""
    models: dict[tuple[str, int | None, int], ImportedModel] = {}
    for path in paths:
        check_file(path, path)
        for place, row in json_lines(path):
            if not is_line(row):
                raise DataError(f"{place}: is no line of Every Eval Ever")
            about = _texts_about(row)
            spec = _spec(text_at(row, "model_id", place), about, levels, place)
            model = models.setdefault((spec.name, spec.hints, spec.sample), ImportedModel(spec, {}, str(path)))
            _add_answer(model, row, about, place, items)
    return list(models.values())


def _add_answer(
    model: ImportedModel, row: Object, about: Mapping[str, str], place: str, items: Collection[str]
) -> None:
    item, reply = text_at(row, "sample_id", place), _reply(row, place, about)
    if item not in items:
        raise DataError(f"{place}: {unknown_item(item, items)}")
    if model.answers.setdefault(item, reply) != reply:
        raise DataError(f"{place}: model {model.spec.name!r} has another answer to item {item!r} already")
    for key, words in about.items():
        if key.startswith(JUDGE_MARK):
            object_of(words.encode(), f"{place}, metadata {key!r}")
            model.verdicts.setdefault(key.removeprefix(JUDGE_MARK), {})[item] = response(words, {})


def _texts_about(row: Object) -> Mapping[str, str]:
    return {key: value for key, value in at(row, "metadata").items() if isinstance(value, str)}


def _spec(model_id: str, about: Mapping[str, str], levels: Sequence[int], place: str) -> ModelSpec:
    provider, name = about.get("layton_batch.provider", ""), about.get("layton_batch.model") or model_id
    family = model_id.partition("/")[0] if "/" in model_id else name
    given_hints, given_sample = (whole(about.get(mark)) for mark in (HINTS_MARK, SAMPLE_MARK))
    hints, sample = asked_as(given_hints, given_sample, levels, place)
    served = provider if _PROVIDER.fullmatch(provider) else IMPORTED
    return ModelSpec(name, served, name, family, hints=hints, sample=sample)


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


# ---- a run, written ------------------------------------------------------------------------------------------------


def write(contents: RunContents, organization: str) -> Iterator[tuple[str, bytes]]:
    """Yield every model's document and lines with their paths. Models and metrics without a score are left out.

    ``organization``: who evaluated.
    """
    run = contents.run
    metrics_by_model: dict[tuple[str, int], dict[str, Answer]] = defaultdict(dict)
    benchmark = f"{run.manifest.task}-{run.manifest.items.split}"
    for metric, board in contents.boards.items():
        for row in board.drop_nulls("score").iter_rows(named=True):
            metrics_by_model[row["model"], row["n_hints"]][metric] = row
    for model in contents.models:
        spec, rows = model.spec, metrics_by_model[model.spec.name, model.hints]
        if not rows or spec.sample > 1:
            continue
        folder = f"data/{slug(benchmark)}/{slug(spec.family)}/{slug(spec.name)}"
        hint_parts = () if spec.hints is None else (f"{model.hints} hints",)
        identity = _uuid(run.id, repr(run.born), spec.provider, spec.name, *hint_parts)
        evaluation = "/".join((benchmark, _model_id(spec), *hint_parts, str(int(run.born))))
        samples = [sample for sample in contents.models if _is_same(sample.spec, spec)]
        same: Json = {"schema_version": VERSION, "evaluation_id": evaluation, "model_id": _model_id(spec),
                      "evaluation_name": benchmark}  # fmt: skip
        lines = b"".join(line for sample in samples for line in _lines(run, sample, list(rows), same))
        path = f"{folder}/{identity}{SUFFIX}"
        yield path, lines
        document = {
            "schema_version": VERSION,
            "evaluation_id": evaluation,
            "evaluation_timestamp": str(int(run.born)),
            "retrieved_timestamp": str(int(run.clock.now())),
            "source_metadata": {
                "source_name": run.manifest.name,
                "source_type": "evaluation_run",
                "source_organization_name": organization,
                "evaluator_relationship": "third_party",
            },
            "eval_library": {"name": "layton-batch", "version": __version__},
            "model_info": _model_info(spec),
            "evaluation_results": [
                {
                    "evaluation_result_id": f"{evaluation}{METRIC_MARK}{metric}",
                    "evaluation_name": benchmark,
                    "source_data": _source(run, benchmark),
                    "metric_config": _metric_config(run, model, metric),
                    "score_details": _score(row, model),
                    "generation_config": _generation(spec),
                }
                for metric, row in rows.items()
            ],
            "detailed_evaluation_results": {
                "format": "jsonl",
                "file_path": path,
                "hash_algorithm": "sha256",
                "checksum": sha256(lines).hexdigest(),
                "total_rows": lines.count(b"\n"),
            },
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


def _source(run: Run, benchmark: str) -> Json:
    source = run.manifest.items.source
    same: Json = {"dataset_name": benchmark}
    if repo := hub_data_set(run):
        return {**same, "source_type": "hf_dataset", "hf_repo": repo, "samples_number": len(run.items)}
    if source.startswith(("http://", "https://")):
        return {**same, "source_type": "url", "url": [source]}
    return {**same, "source_type": "other"}


def _metric_config(run: Run, model: ModelContents, metric: str) -> Json:
    config: Json = {
        "metric_id": metric,
        "metric_name": metric.replace("_", " "),
        "metric_unit": "proportion",
        "lower_is_better": False,
        "score_type": "continuous",
        "min_score": -1 if (model.answers[VOTE + metric] < 0).any() else 0,
        "max_score": 1,
    }
    if model.judges:
        config["llm_scoring"] = {
            "judges": [{"model_info": _model_info(judge)} for judge in model.judges],
            "input_prompt": _judge_prompt(run),
            "aggregation_method": "average",
        }
    return config


def _judge_prompt(run: Run) -> str:
    """Return the judges' instructions. The lines hold the judged items."""
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


def _details(row: Mapping[str, Any], model: ModelContents) -> Json:
    """Return the columns of the board as texts, and the tokens of all answers."""
    details = {name: str(value) for name, value in row.items() if isinstance(value, str | int | float) and value != ""}
    tokens = model.answers.select("input_tokens", "output_tokens", "reasoning_tokens")
    is_counted = tokens.height > tokens["input_tokens"].null_count()
    return {
        **details,
        **({name: str(count) for name, count in tokens.sum().row(0, named=True).items()} if is_counted else {}),
    }


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


def _lines(run: Run, model: ModelContents, metrics: Sequence[str], same: Json) -> Iterator[bytes]:
    """Yield a line for each item with a score. Items with unreadable verdicts have none. ``same``: what the lines of
    all items say."""
    for answer in model.answers.iter_rows(named=True):
        item = run.item(str(answer["item_id"]))
        reference: list[JsonValue] = [text for text in (item.answer or item.solution,) if text]
        line: Json = {
            **same,
            "sample_id": item.id,
            "sample_hash": sha256(orjson.dumps([item.question, reference])).hexdigest(),
            "interaction_type": "single_turn",
            "input": {"raw": item.question, "reference": reference},
            "output": {"raw": [answer["raw_text"] or ""]},
            "messages": None,
            "answer_attribution": _attribution(answer),
            "token_usage": _tokens(answer),
        }
        if answer["kind"] == PredictionKind.MISSING:
            line["error"] = answer["note"] or "no answer"
        for metric in metrics:
            if (vote := answer[VOTE + metric]) is None:
                continue
            about = _about(model, answer, item)
            about |= {SAMPLE_MARK: str(model.spec.sample)} if model.samples > 1 else {}
            about |= {"failure": flag} if (flag := answer[FLAG + metric]) else {}
            line |= {
                "evaluation_result_id": f"{same['evaluation_id']}{METRIC_MARK}{metric}",
                "evaluation": {"score": vote, "is_correct": vote > 0.5 if model.judges else vote >= 1},
                "metadata": about,
            }
            yield orjson.dumps(line) + b"\n"


def _attribution(answer: Answer) -> list[JsonValue]:
    if answer["answer"] is None:
        return []
    return [
        {
            "turn_idx": 0,
            "source": "output.raw",
            "extracted_value": answer["answer"],
            "extraction_method": "custom",
            "is_terminal": True,
        }
    ]


def _tokens(answer: Answer) -> Json | None:
    read, written = answer["input_tokens"], answer["output_tokens"]
    if read is None or written is None:
        return None
    tokens: Json = {"input_tokens": read, "output_tokens": written, "total_tokens": read + written}
    optional_columns = {"input_tokens_cache_read": "cached_input_tokens", "reasoning_tokens": "reasoning_tokens"}
    return tokens | {name: answer[key] for name, key in optional_columns.items() if answer[key] is not None}


def _about(model: ModelContents, answer: Answer, item: Item) -> dict[str, JsonValue]:
    """Return metadata as texts, as the schema requires. ``layton_batch.*``: the model's names on our boards."""
    about: dict[str, JsonValue] = {
        "layton_batch.model": model.spec.name,
        "layton_batch.provider": model.spec.provider,
        HINTS_MARK: str(answer["n_hints"] or 0),
        "kind": answer["kind"],
        "split": item.split,
        "category": item.category,
    }
    about |= {name: answer[name] for name in ("justification", "finish_reason") if answer[name] is not None}
    for judge in model.judges:
        if (verdict := answer[JUDGED + judge.name]) is not None:
            about[f"{JUDGE_MARK}{judge.name}"] = orjson.dumps({name: verdict[name] for name in VERDICT_FIELDS}).decode()
    return about
