"""Beginning without a manifest: `run FILE --model …` and `run TASK --model …` write the one that they run."""

from __future__ import annotations

import json
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from layton_batch.clock import SystemClock
from layton_batch.commands.notes import note, warn
from layton_batch.errors import ManifestError
from layton_batch.files import atomic
from layton_batch.files.addresses import is_address
from layton_batch.files.run_folder import slug
from layton_batch.files.sources import ITEM_ENDINGS, read_rows
from layton_batch.manifest.asked import BUNDLED, load_items, manifest_task
from layton_batch.manifest.checks import load_manifest, shipped
from layton_batch.manifest.item_check import guess_split, guess_task, unread_columns
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.model_checks import check_models
from layton_batch.providers import provider_names, unknown_provider
from layton_batch.settings import Settings
from layton_batch.tasks import BUILT_IN, FIRST, OWN, task_names, unknown_task

DEMO_MANIFESTS = {name: "demo.toml" if name == FIRST else f"demo-{name}.toml" for name in BUILT_IN}
"""The demonstration's manifest for each task that has bundled items."""
_MODEL = re.compile(r"(?P<provider>[A-Za-z0-9_-]+):(?P<model>\S.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class _Beginning:
    """Content and path of a manifest that is written for a file of items or a task. ``given``: the user's argument."""

    given: str
    path: Path
    name: str
    task: str
    source: str
    split: str


def manifest_for(
    given: Path | None, models: Sequence[str], limit: int | None, max_usd: str | None, *, sandbox: bool = False
) -> Path:
    """Return the manifest to run: the file given, or a manifest written for models and a task or a file of items.

    ``sandbox``: a sandbox plays the providers, which takes any model.
    Raises ManifestError where it is none of these, and where a manifest that asks something else has the file's name.
    """
    if given is None:
        raise ManifestError("run: give a file of questions, a task or a manifest")
    is_items = given.suffix.lower() in ITEM_ENDINGS
    if not models:
        if is_items or str(given) in task_names():
            raise ManifestError(f"run: {given}: say whom to ask, with --model PROVIDER:ID")
        if limit is not None:
            raise ManifestError(f"run: --limit goes with --model; {given} takes `limit` under [items]")
        return given
    if given.suffix == ".toml":
        raise ManifestError(f"run: --model goes with a file of questions or a task; {given} names its models itself")
    if repeated := [model for model in dict.fromkeys(models) if models.count(model) > 1]:
        raise ManifestError(f"run: --model {repeated[0]} is given {models.count(repeated[0])} times; give it once")
    beginning = _of_file(given) if is_items else _of_task(str(given), models)
    text = "".join(f"{line}\n" for line in _manifest_lines(beginning, models, limit, max_usd))
    manifest = check_manifest(beginning.path, text)
    if not beginning.path.exists():
        _check_asked(manifest, sandbox=sandbox)
    return write_manifest(beginning.path, text)


def _check_asked(manifest: Manifest, *, sandbox: bool) -> None:
    """Raise DataError for items, and ManifestError for models, that `run` refuses, before a manifest is written that
    names them."""
    if not is_address(manifest.items.source):
        load_items(manifest, manifest_task(manifest), Settings.from_process())
    if sandbox:
        return
    if refused := check_models(manifest, Settings.from_process(), SystemClock()).refused:
        raise ManifestError("\n".join(refused))


def _of_file(given: Path) -> _Beginning:
    settings = Settings.from_process()
    rows = read_rows(str(given), settings.cwd, settings)
    task = guess_task(rows)
    if task != OWN:
        warn((f"{given}: its columns are those of the task {task}; `task` in the manifest may name another",))
    if unread := unread_columns(rows, task):
        warn((f"{given}: models see nothing of the columns {', '.join(unread)}: {task} does not read them",))
    split = guess_split(rows, task)
    if other_splits := Counter(str(row["split"]) for row in rows if row.get("split") not in (None, "", split)):
        left_out = ", ".join(f"{name} ({count})" for name, count in other_splits.most_common(5))
        warn((f"{given}: of its splits only {split!r} is asked, and rows of others are left out: {left_out}",))
    return _Beginning(str(given), given.with_suffix(".toml"), slug(given.stem), task, given.name, split)


def _of_task(task: str, models: Sequence[str]) -> _Beginning:
    name = slug("-".join([task, *(_provider_and_model(model)[1] for model in models)]).replace("/", "-"))
    return _Beginning(task, Path(f"{name}.toml"), name, task, BUNDLED, bundled_split(task))


def _manifest_lines(
    beginning: _Beginning, models: Sequence[str], limit: int | None, max_usd: str | None
) -> Iterator[str]:
    yield f"# Written by `layton-batch run {beginning.given}`; `layton-batch run {beginning.path}` goes on with it."
    yield f"name = {quoted(beginning.name)}"
    yield f"task = {quoted(beginning.task)}"
    yield "[items]"
    yield f"source = {quoted(beginning.source)}"
    yield f"split = {quoted(beginning.split)}"
    if limit is not None:
        yield f"limit = {limit}"
    if beginning.task == OWN:
        yield from ("[jury]", "reasons = true")
    if max_usd is not None:
        yield from ("[budget]", f"max_usd = {quoted(max_usd)}")
    for provider, model in map(_provider_and_model, models):
        yield "[[models]]"
        yield f"name = {quoted(model)}"
        yield f"provider = {quoted(provider)}"
        yield f"model = {quoted(model)}"


def write_manifest(path: Path, text: str) -> Path:
    """Write a checked manifest, unless one is there: that one may have other labels or another budget."""
    if not path.exists():
        atomic.write_text(path, text)
        note(f"{path}: the manifest of this run; edit it at any time")
    return path


def check_manifest(path: Path, text: str) -> Manifest:
    """Return the manifest at ``path``; if none is there, the manifest of ``text``, which can be read from any folder.

    Raises ManifestError for a wrong text, and where the manifest at ``path`` asks for something else.
    """
    with tempfile.TemporaryDirectory(prefix="layton-batch-") as folder:
        draft = Path(folder) / path.name
        draft.write_text(text, encoding="utf-8")
        try:
            manifest = load_manifest(draft)
        except ManifestError as error:
            raise ManifestError(str(error).replace(str(draft), "run")) from error
    if path.exists():
        written = load_manifest(path)
        if keys := written.differing_keys(manifest):
            raise ManifestError(
                f"{path} is there and asks for something else ({', '.join(keys)}): edit it and `run` it"
            )
        return written
    return manifest.of_folder(path.resolve().parent)


def _provider_and_model(text: str) -> tuple[str, str]:

    matched = _MODEL.fullmatch(text)
    if matched is None:
        raise ManifestError(f"--model {text!r}: give PROVIDER:ID; providers: {', '.join(provider_names())}")
    if matched["provider"] not in provider_names():
        raise ManifestError(f"--model {text!r}: {unknown_provider(matched['provider'])}")
    return matched["provider"], matched["model"]


def bundled_split(task: str) -> str:
    """Return the split of the task's bundled items."""
    if task not in task_names():
        raise ManifestError(f"run: {task} is no manifest, and {unknown_task(task)}")
    return load_manifest(shipped(DEMO_MANIFESTS[task])).items.split if task in DEMO_MANIFESTS else "llm"


def quoted(text: str) -> str:
    """Return a TOML string: JSON's escapes are TOML's, but for the delete character and halves of pairs."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
