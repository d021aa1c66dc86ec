"""Answers and verdicts in files, into a run: which files go together, and whose they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path

from layton_batch.errors import ManifestError
from layton_batch.interchange import judge_files, prediction_files
from layton_batch.interchange.entering import ImportResult, enter
from layton_batch.interchange.every_eval_ever import read_answers
from layton_batch.interchange.result_files import enter_results
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.prompt_files import PromptFiles
from layton_batch.records import ModelSpec
from layton_batch.runs.context import Run
from layton_batch.runs.folders import find_run, home_of, is_manifest
from layton_batch.runs.open import open_folder, open_run
from layton_batch.settings import Settings
from layton_batch.states import Role


@dataclass(frozen=True, slots=True)
class ImportedFiles:
    """The files of an import. ``model``: whose ``predictions`` or ``verdicts`` they are; ``eee``: Every Eval Ever
    lines, which name their models; ``results``: of batches that were sent by hand."""

    model: str | None = None
    predictions: Path | None = None
    verdicts: Sequence[Path] = ()
    eee: Sequence[Path] = ()
    family: str | None = None
    results: Sequence[Path] = ()

    def check(self) -> None:
        """Raise ManifestError for files that do not go together."""
        files = bool(self.predictions or self.verdicts)
        named = bool(self.model or files)
        if bool(self.eee) + bool(self.results) + named > 1:
            raise ManifestError(
                "import: --eee and --results are given alone, without --model, --predictions and --verdicts: their "
                "lines name the models"
            )
        if not (self.eee or self.results or files):
            raise ManifestError("import: give --predictions FILE, --verdicts FILE, --results FILE or --eee FILE")
        if files and self.model is None:
            raise ManifestError("import: --model NAME says whose predictions or verdicts these are")


def open_for_import(name: str | None, runs: Path, settings: Settings) -> AbstractContextManager[Run]:
    """Open the run of this name, folder or manifest (None: the only run), to enter answers and score them.

    A manifest whose run is not there begins it, and nobody is asked; so does one whose earlier import was refused
    before the run was planned. Raises ManifestError and StoreError.
    """
    if name is not None and is_manifest(name):
        manifest = load_manifest(Path(name), PromptFiles(settings, runs))
        if not home_of(manifest, runs).part("items", "items").exists():
            return open_run(manifest, runs, settings, only_scores=True)
    return open_folder(find_run(name, runs), settings, only_scores=True)


def import_answers(
    run: Run, files: ImportedFiles, settings: Settings, note: Callable[[str], None]
) -> list[ImportResult]:
    """Enter the answers and verdicts of the files, all of them or none. ``note`` is told what is left out of results.

    Raises ManifestError and DataError.
    """
    if files.results:
        return enter_results(run, files.results, note)
    if files.eee:
        return enter(run, read_answers(files.eee, _items(run), run.manifest.items.levels))
    return enter(run, _of_model(run, str(files.model), settings, files))


def _spec(run: Run, name: str) -> ModelSpec:
    """Return the specification of a model of the run."""
    specs = [job.spec for job in run.store.jobs() if job.role is Role.PREDICT and job.spec.name == name]
    if not specs:
        raise ManifestError(f"import: the run has no model {name!r}; give --predictions as well")
    if len(specs) > 1:
        raise ManifestError(
            f"import: {name!r} was asked {len(specs)} times, and no file of verdicts says which it is on"
        )
    return specs[0]


def _of_model(run: Run, name: str, settings: Settings, files: ImportedFiles) -> list[prediction_files.ImportedModel]:
    """Read the model's answers: an import for each sample and each of the run's hint levels."""
    ids, items, predictions = _items(run), run.load_items(), files.predictions
    given = judge_files.verdicts(files.verdicts, ids, settings)
    source = ", ".join(str(path) for path in (predictions, *files.verdicts) if path is not None)
    if predictions is None:
        return [prediction_files.ImportedModel(_spec(run, name), {}, source, given)]
    file = prediction_files.read_answers(predictions, settings)
    prediction_files.check_options(file, run.task, items)
    samples = prediction_files.models(
        file, ids, name, files.family, levels=run.manifest.items.levels,
        json_replies=prediction_files.has_json_replies(run.task, items),
    )  # fmt: skip
    if given and len(samples) > 1:
        raise ManifestError(f"import: {predictions} has several answers to an item, and no verdict says which it is on")
    return [replace(imported, source=source, verdicts=given) for imported in samples]


def _items(run: Run) -> frozenset[str]:
    """Return the ids of the run's items. An opened run that is not planned yet has them in its source only."""
    items = run.items if run.folder.part("items", "items").exists() else run.load_items()
    return frozenset(item.id for item in items)
