"""Beginning without a manifest: `run FILE --model …` and `run TASK --model …` write the one that they run, `init` one
to start from."""

from __future__ import annotations

import json
import os.path
import re
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from layton_batch.errors import ManifestError

if TYPE_CHECKING:
    from layton_batch.manifest.manifest import Manifest

ITEMS_SHOWN = 3
_MODEL = re.compile(r"(?P<provider>[A-Za-z0-9_-]+):(?P<model>\S.*)", re.DOTALL)


def register(app: typer.Typer) -> None:
    """Add this module's commands."""
    app.command("init")(init)


# ---- run TASK --model PROVIDER:ID, run FILE --model PROVIDER:ID ----------------------------------------------------


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
    from layton_batch.files.sources import ITEM_ENDINGS
    from layton_batch.tasks import task_names

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
    from layton_batch.clock import SystemClock
    from layton_batch.files.addresses import is_address
    from layton_batch.manifest.asked import load_items, manifest_task
    from layton_batch.manifest.model_checks import check_models
    from layton_batch.settings import Settings

    if not is_address(manifest.items.source):
        load_items(manifest, manifest_task(manifest), Settings.from_process())
    if sandbox:
        return
    if refused := check_models(manifest, Settings.from_process(), SystemClock()).refused:
        raise ManifestError("\n".join(refused))


def _of_file(given: Path) -> _Beginning:
    from layton_batch.cli.terminal import say
    from layton_batch.files.run_folder import slug
    from layton_batch.files.sources import read_rows
    from layton_batch.manifest.item_check import guess_split, guess_task, unread_columns
    from layton_batch.settings import Settings
    from layton_batch.tasks import OWN

    settings = Settings.from_process()
    rows = read_rows(str(given), settings.cwd, settings)
    task = guess_task(rows)
    if task != OWN:
        say(f"{given}: its columns are those of the task {task}; `task` in the manifest may name another")
    if unread := unread_columns(rows, task):
        say(f"{given}: models see nothing of the columns {', '.join(unread)}: {task} does not read them")
    split = guess_split(rows, task)
    if other_splits := Counter(str(row["split"]) for row in rows if row.get("split") not in (None, "", split)):
        left_out = ", ".join(f"{name} ({count})" for name, count in other_splits.most_common(5))
        say(f"{given}: of its splits only {split!r} is asked, and rows of others are left out: {left_out}")
    return _Beginning(str(given), given.with_suffix(".toml"), slug(given.stem), task, given.name, split)


def _of_task(task: str, models: Sequence[str]) -> _Beginning:
    from layton_batch.files.run_folder import slug
    from layton_batch.manifest.asked import BUNDLED

    name = slug("-".join([task, *(_provider_and_model(model)[1] for model in models)]).replace("/", "-"))
    return _Beginning(task, Path(f"{name}.toml"), name, task, BUNDLED, _split(task))


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
    if max_usd is not None:
        yield from ("[budget]", f"max_usd = {quoted(max_usd)}")
    for provider, model in map(_provider_and_model, models):
        yield "[[models]]"
        yield f"name = {quoted(model)}"
        yield f"provider = {quoted(provider)}"
        yield f"model = {quoted(model)}"


def write_manifest(path: Path, text: str) -> Path:
    """Write a checked manifest, unless one is there: that one may have other labels or another budget."""
    from layton_batch.cli.terminal import say
    from layton_batch.files import atomic

    if not path.exists():
        atomic.write_text(path, text)
        say(f"{path}: the manifest of this run; edit it at any time")
    return path


def check_manifest(path: Path, text: str) -> Manifest:
    """Return the manifest at ``path``; if none is there, the manifest of ``text``, which can be read from any folder.

    Raises ManifestError for a wrong text, and where the manifest at ``path`` asks for something else.
    """
    from layton_batch.manifest.checks import load_manifest

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
    from layton_batch.providers import provider_names, unknown_provider

    matched = _MODEL.fullmatch(text)
    if matched is None:
        raise ManifestError(f"--model {text!r}: give PROVIDER:ID; providers: {', '.join(provider_names())}")
    if matched["provider"] not in provider_names():
        raise ManifestError(f"--model {text!r}: {unknown_provider(matched['provider'])}")
    return matched["provider"], matched["model"]


def _split(task: str) -> str:
    """Return the split of the task's bundled items."""
    from layton_batch.cli.demo import MANIFESTS, demo_manifest
    from layton_batch.tasks import task_names, unknown_task

    if task not in task_names():
        raise ManifestError(f"run: {task} is no manifest, and {unknown_task(task)}")
    return demo_manifest(task).items.split if task in MANIFESTS else "llm"


def quoted(text: str) -> str:
    """Return a TOML string: JSON's escapes are TOML's, but for the delete character and halves of pairs."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# ---- init ----------------------------------------------------------------------------------------------------------


def init(
    task: Annotated[
        str | None, typer.Argument(metavar="TASK", help="Which benchmark; default: questions of one's own.")
    ] = None,
    folder: Annotated[Path, typer.Option("--out", help="Where the files go.")] = Path(),
    schema: Annotated[bool, typer.Option("--schema", help="Print the JSON Schema of a manifest.")] = False,
) -> None:
    """Write a manifest to start from, and a file of three items.

    And the JSON Schema by which editors complete the manifest, named in its first line. Says what to do next. Files
    that are there are never replaced.
    """
    from layton_batch.cli.terminal import say
    from layton_batch.files import atomic
    from layton_batch.manifest.json_schema import SCHEMA_FILE, schema_text
    from layton_batch.tasks import OWN, task_names, unknown_task

    if schema:
        typer.echo(schema_text(), nl=False)
        return
    task = task or OWN
    if task not in task_names():
        raise ManifestError(f"init: {unknown_task(task)}")
    if os.path.isfile(folder):
        raise ManifestError(f"init: --out {folder}: is a file, not a folder")
    manifest, items = folder / f"{task}.toml", folder / f"{task}-items.jsonl"
    name = _run_name(folder, task)
    contents = {items: "".join(_first_items(task)), manifest: _template(name, task, items.name)}
    schema_file = folder / SCHEMA_FILE
    for path in contents:
        if path.exists():
            raise ManifestError(f"init: {path} is there already; --out names another folder")
    for path, text in contents.items():
        atomic.write_text(path, text)
    if not schema_file.exists():
        atomic.write_text(schema_file, schema_text())
    say(f"{manifest}: the manifest; edit its models\n{items}: {ITEMS_SHOWN} items in the form of {task}")
    keys = "".join(f"  export {key}=…\n" for key in _key_names(manifest))
    say(f"next:\n{keys}  layton-batch plan {manifest}   # what it would cost; sends nothing")
    say(f"  layton-batch run {manifest}    # start, or go on; the run is called {name}")


def _key_names(manifest: Path) -> list[str]:
    """Return a variable for the key of each provider that a manifest's models and judges need."""
    from layton_batch.manifest.checks import load_manifest
    from layton_batch.manifest.model_checks import asked_models
    from layton_batch.settings import Settings

    settings = Settings.from_process()
    providers = dict.fromkeys(spec.provider for spec in asked_models(load_manifest(manifest)))
    return [settings.key_names(provider)[0] for provider in providers]


def _run_name(folder: Path, task: str) -> str:
    """Return what the run is called: as its folder, so that two projects are two runs, with the task behind it where
    the folder has another manifest; as its task where that is no name of a run."""
    from layton_batch.files.run_folder import BATCHES
    from layton_batch.manifest.form import RUN_NAME

    name = folder.resolve().name + (f"-{task}" if any(folder.glob("*.toml")) else "")
    return name if RUN_NAME.match(name) and name != BATCHES else task


def _first_items(task: str) -> Iterator[str]:
    """The first of those that come with the package, which are ours. Raises ManifestError for a task without."""
    from layton_batch.tasks import load_task
    from layton_batch.tasks.protocol import TaskOptions

    split = _split(task)
    with load_task(task, TaskOptions(split)).bundled(split).open(encoding="utf-8") as lines:
        yield from islice(lines, ITEMS_SHOWN)


def _template(name: str, task: str, items: str) -> str:
    from layton_batch.manifest.checks import load_manifest, shipped
    from layton_batch.tasks import load_task
    from layton_batch.tasks.protocol import TaskOptions

    model = load_manifest(shipped("layton-today.toml")).models[0]
    loaded_task = load_task(task, TaskOptions(_split(task)))
    return _TEMPLATE.format(
        name=name,
        task=task,
        items=items,
        split=_split(task),
        metric=loaded_task.metrics[0],
        metrics=" | ".join(loaded_task.metrics),
        provider=model.provider,
        model=model.model,
        jury=_JURY if loaded_task.uses_jury else "# Rules grade the answers: there is no jury.\n",
    )


_JURY = """# Judges of other families than the model's own judge every answer. Without this table: the package's panel.
# [jury]
# seats = 3
# panel = "panel.toml"              # [[judges]] with the keys of a model

# Labels that people gave, to correct the jury by: item_id, model, answer_correct, justification_correct
# [gold]
# annotations = "labels.jsonl"
"""
_TEMPLATE = """#:schema ./layton-batch.schema.json
# A run of {task}. Edit it at any time: what was answered is not asked again.
#
#   layton-batch plan {task}.toml     what it would send and cost at most; sends nothing
#   layton-batch run {task}.toml      start, or go on where it stopped

name = "{name}"                     # the run's name, by which other commands know it
task = "{task}"

[items]
source = "{items}"                  # a file, address, hf://datasets/OWNER/NAME/PATH, or "bundled"
split = "{split}"
# limit = 20                        # the first so many

[scoring]
metric = "{metric}"                 # {metrics}

[budget]
max_usd = 5.0                       # over everything; nothing is sent that could exceed it

[[models]]
name = "{model}"                    # as the leaderboard shows it
provider = "{provider}"             # openai anthropic gemini mistral together groq doubleword openrouter xai vertex
model = "{model}"                   # as the provider is told
# family = "{provider}"             # who made it: no judge of the same family sits
# reasoning = "high"                # none minimal low medium high xhigh max, or {{ budget_tokens = 16000 }}
max_output_tokens = 16000           # thoughts included; the budget sets aside as much for each answer
# params = {{ temperature = 0 }}

{jury}"""
