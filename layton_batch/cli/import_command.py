"""import: answers and verdicts that were given elsewhere, into a run."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layton_batch.cli.run_commands import RUNS, Json, RunName, Runs

if TYPE_CHECKING:
    from layton_batch.imports.entering import ImportResult
    from layton_batch.imports.reading import ImportedModel
    from layton_batch.records import ModelSpec
    from layton_batch.runs.context import Run
    from layton_batch.settings import Settings


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command("import")(import_)


def import_(
    run_name: RunName,
    model: Annotated[str | None, typer.Option("--model", metavar="NAME", help="Whose predictions or verdicts.")] = None,
    predictions: Annotated[
        Path | None, typer.Option("--predictions", metavar="FILE", help="JSON, JSONL, Parquet or CSV, a row an item.")
    ] = None,
    verdicts: Annotated[
        list[Path] | None, typer.Option("--verdicts", metavar="FILE", help="A judge's file; repeat it.")
    ] = None,
    eee: Annotated[
        list[Path] | None, typer.Option("--eee", metavar="FILE", help="Every Eval Ever lines; repeat it.")
    ] = None,
    annotations: Annotated[
        list[Path] | None,
        typer.Option("--annotations", metavar="FILE", help="Labels that people gave; may be repeated."),
    ] = None,
    labels: Annotated[
        list[Path] | None,
        typer.Option("--labels", metavar="FILE", help="What `label-plan --output` wrote, filled in; may be repeated."),
    ] = None,
    family: Annotated[str | None, typer.Option("--family", help="Who made the model: its judges do not sit.")] = None,
    provider: Annotated[str | None, typer.Option("--provider", help="Who served it; shown on the board.")] = None,
    runs: Runs = RUNS,
    as_json: Json = False,
) -> None:
    """Take in answers, verdicts or labels made elsewhere.

    Nothing that a file holds is asked or paid for. RUN may be a manifest whose run is not begun, also one without
    [[models]]: the run begins with the import.

    --predictions: a model's answers, judged by the run's jury at the next `run` and ranked beside the others.
    layton-eval's result files (`custom_id`, JSON in `answer`) are predictions as they are.
    --verdicts: layton-eval's judge files (`custom_id`, `answer`, `model`) on a model of the run, or on the one that
    comes with --predictions. --eee: the models of Every Eval Ever lines, with the verdicts in our own exports. Files
    are checked as a whole before anything changes; the same import twice changes nothing. Ends with 75 where another
    process drives the run.

    Labels (--annotations): a row has `item_id` (or `riddle_id`), `model`, `answer_correct` and `justification_correct`
    (or `is_answer_correct` and `is_justification_correct`, as in layton-eval's annotation files), and may have
    `provider`, `n_hints`, `annotator`, `time` and the `answer` and `justification` that were judged. JSONL or Parquet.
    A file is checked as a whole before anything changes. The same file twice changes nothing. A later label of one
    annotator on one prediction takes the place of the earlier. The next `score`, `leaderboard` or `run` uses them.

    --labels: the file of `label-plan --output`, filled in, as CSV, XLSX, JSONL or Parquet. A row is known by its
    label_id; one without a label is left out; a wrong one is named, and then nothing changes.
    """
    from layton_batch.cli.terminal import print_json, say
    from layton_batch.imports.entering import enter
    from layton_batch.settings import Settings
    from layton_batch.text import one_line

    has_labels = bool(annotations or labels)
    _check_choice(model, files=bool(predictions or verdicts), eee=bool(eee), labels=has_labels)
    if has_labels:
        _labels(run_name, annotations or [], labels or [], runs, as_json=as_json)
        return
    settings = Settings.from_process()
    with _opened(run_name, runs, settings) as opened:
        if eee:
            imported = _of_lines(opened, eee)
        else:
            spec = _spec(opened, str(model), predictions, family, provider)
            imported = _of_model(opened, spec, settings, predictions, verdicts or [])
        entered = enter(opened, imported)
    if as_json:
        print_json(entered)
        return
    for entry in entered:
        say(one_line(_summary(entry)))


def _opened(run_name: str, runs: Path, settings: Settings) -> AbstractContextManager[Run]:
    """Open the run of this name or folder; that of a manifest is begun where there is none yet, and nobody is asked."""
    from layton_batch.runs.folders import find_run, home_of
    from layton_batch.runs.open import open_folder, open_run

    if Path(run_name).suffix == ".toml" and Path(run_name).is_file():
        from layton_batch.manifest.checks import load_manifest
        from layton_batch.manifest.prompt_files import PromptFiles

        manifest = load_manifest(Path(run_name), PromptFiles(settings, runs))
        folder = home_of(manifest, runs)
        if not folder.manifest.exists():
            return open_run(manifest, runs, settings, only_scores=True)
        return open_folder(folder, settings, only_scores=True)
    return open_folder(find_run(run_name, runs), settings, only_scores=True)


def _check_choice(model: str | None, *, files: bool, eee: bool, labels: bool) -> None:
    from layton_batch.errors import ManifestError

    if labels and (model or files or eee):
        raise ManifestError("import: --annotations and --labels stand alone: their rows name the models")
    if eee and (model or files):
        raise ManifestError("import: --eee stands alone: its lines name the models")
    if not (labels or eee or files):
        raise ManifestError(
            "import: give --predictions FILE, --verdicts FILE, --eee FILE, --annotations FILE or --labels FILE"
        )
    if files and model is None:
        raise ManifestError("import: --model NAME says whose predictions or verdicts these are")


def _of_lines(run: Run, paths: Sequence[Path]) -> list[ImportedModel]:
    from layton_batch.imports.every_eval_ever import models

    return models(paths, _items(run), run.manifest.items.levels)


def _spec(run: Run, name: str, predictions: Path | None, family: str | None, provider: str | None) -> ModelSpec:
    """Return the specification of the model: that of a new model with predictions, or of a model of the run."""
    from layton_batch.errors import ManifestError
    from layton_batch.imports.reading import IMPORTED
    from layton_batch.records import ModelSpec
    from layton_batch.states import Role

    if predictions is not None:
        return ModelSpec(name, provider or IMPORTED, name, family or name)
    specs = [job.spec for job in run.store.jobs() if job.role is Role.PREDICT and job.spec.name == name]
    if not specs:
        raise ManifestError(f"import: the run has no model {name!r}; give --predictions as well")
    if len(specs) > 1:
        raise ManifestError(
            f"import: {name!r} was asked {len(specs)} times, and no file of verdicts says which it is on"
        )
    return specs[0]


def _of_model(
    run: Run, spec: ModelSpec, settings: Settings, predictions: Path | None, verdict_files: Sequence[Path]
) -> list[ImportedModel]:
    """Read the model's answers: an import for each sample and each of the run's hint levels."""
    from layton_batch.errors import ManifestError
    from layton_batch.imports import reading

    items, levels = _items(run), run.manifest.items.levels
    given = reading.verdicts(verdict_files, items, settings)
    is_json = reading.has_json_replies(run.task, run.load_items())
    source = ", ".join(str(path) for path in (predictions, *verdict_files) if path is not None)
    if predictions is None:
        return [reading.ImportedModel(spec, {}, source, given)]
    samples = reading.predictions(predictions, spec, items, levels, settings, json_replies=is_json)
    if given and len(samples) > 1:
        raise ManifestError(f"import: {predictions} has several answers to an item, and no verdict says which it is on")
    return [reading.ImportedModel(sample_spec, answers, source, given) for sample_spec, answers in samples]


def _items(run: Run) -> frozenset[str]:
    """Return the ids of the run's items. An opened run that is not planned yet has them in its source only."""
    items = run.items if run.folder.part("items", "items").exists() else run.load_items()
    return frozenset(item.id for item in items)


def _summary(entry: ImportResult) -> str:
    parts = [f"{entry.answers} answers" if entry.is_new else "nothing new of its answers"]
    if entry.missing:
        parts.append(f"{entry.missing} items of the run without one")
    if entry.verdicts:
        parts.append(f"{entry.verdicts} verdicts")
    if entry.to_ask:
        parts.append(f"{entry.to_ask} verdicts to be asked for by the next `run`")
    times = "" if entry.hints is None else f" with {entry.hints} hints"
    times += "" if entry.sample == 1 else f", sample {entry.sample}"
    return f"{entry.model}{times}: {', '.join(parts)}"


def _labels(run_name: str, annotations: list[Path], sheets: list[Path], runs: Path, *, as_json: bool) -> None:
    from layton_batch.cli.terminal import print_json, say
    from layton_batch.errors import ManifestError
    from layton_batch.imports.label_sheets import import_sheets
    from layton_batch.runs.folders import find_run
    from layton_batch.runs.label_import import import_labels
    from layton_batch.runs.open import read_run
    from layton_batch.settings import Settings
    from layton_batch.text import plural

    if annotations and sheets:
        raise ManifestError("import: give --annotations or --labels, one after the other")
    settings, blank = Settings.from_process(), 0
    with read_run(find_run(run_name, runs), settings) as run:
        if sheets:
            taken, blank = import_sheets(run, sheets, settings)
        else:
            taken = import_labels(run, annotations, settings)
    if as_json:
        print_json(taken)
        return
    for line in taken.lines():
        say(line)
    if blank:
        say(f"{plural(blank, 'row')} without a label left out")
