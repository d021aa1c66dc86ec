"""Beginning without a manifest: `run TASK --model …` writes the one that it runs, `init` one to start from."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from layton_batch.errors import ManifestError

ITEMS_SHOWN = 3
_MODEL = re.compile(r"(?P<provider>[A-Za-z0-9_-]+):(?P<model>\S.*)", re.DOTALL)


def register(app: typer.Typer) -> None:
    """Add this module's command."""
    app.command("init")(init)


# ---- run TASK --model PROVIDER:ID ----------------------------------------------------------------------------------


def manifest_for(given: Path, models: Sequence[str], items: str | None, limit: int | None, max_usd: str | None) -> Path:
    """The manifest to run: the file given, or one written for a task and models. Raises ManifestError where it is
    neither, and where another manifest has the file's name."""
    from layton_batch.files import atomic

    if not models:
        if items is not None or limit is not None:
            raise ManifestError("run: --items and --limit are for a task with --model; a manifest says them itself")
        return given
    if given.suffix == ".toml" or given.exists():
        raise ManifestError(f"run: --model is for a task, such as `run TASK --model …`; {given} says its models")
    text = "".join(f"{line}\n" for line in _manifest_lines(str(given), models, items, limit, max_usd))
    path = Path(f"{_name(str(given), models)}.toml")
    if path.exists() and path.read_text(encoding="utf-8") != text:
        raise ManifestError(
            f"{path} is there and asks for something else: `layton-batch run {path}` goes on with it, or move it away"
        )
    atomic.write_text(path, text)
    return path


def _manifest_lines(
    task: str, models: Sequence[str], items: str | None, limit: int | None, max_usd: str | None
) -> Iterator[str]:
    yield f"# Written by `layton-batch run {task}`; `layton-batch run FILE` goes on with it."
    yield f"name = {_quoted(_name(task, models))}"
    yield f"task = {_quoted(task)}"
    yield "[items]"
    yield f"source = {_quoted(items or 'bundled')}"
    yield f"split = {_quoted(_split(task))}"
    if limit is not None:
        yield f"limit = {limit}"
    if max_usd is not None:
        yield from ("[budget]", f"max_usd = {_quoted(max_usd)}")
    for provider, model in map(_provider_and_model, models):
        yield "[[models]]"
        yield f"name = {_quoted(model)}"
        yield f"provider = {_quoted(provider)}"
        yield f"model = {_quoted(model)}"


def _provider_and_model(text: str) -> tuple[str, str]:
    matched = _MODEL.fullmatch(text)
    if matched is None:
        raise ManifestError(f"--model {text!r}: PROVIDER:ID, such as openai:gpt-5.2")
    return matched["provider"], matched["model"]


def _name(task: str, models: Sequence[str]) -> str:
    """Of the run and its file: the task and the models."""
    from layton_batch.files.run_folder import slug

    return slug("-".join([task, *(_provider_and_model(model)[1] for model in models)]).replace("/", "-"))


def _split(task: str) -> str:
    """The one that the task's bundled items are of."""
    from layton_batch.cli.demo import MANIFESTS, demo_manifest
    from layton_batch.tasks import task_names, unknown_task

    if task not in task_names():
        raise ManifestError(f"run: {task} is no manifest, and {unknown_task(task)}")
    return demo_manifest(task).items.split if task in MANIFESTS else "llm"


def _quoted(text: str) -> str:
    """A TOML string: JSON's escapes are TOML's, but for the delete character and halves of pairs."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


# ---- init ----------------------------------------------------------------------------------------------------------


def init(
    task: Annotated[str | None, typer.Argument(metavar="[TASK]", help="Which benchmark.")] = None,
    folder: Annotated[Path, typer.Option("--dir", help="Where the files go.")] = Path(),
) -> None:
    """Write a manifest to start from, and a file of three items.

    Says what to do next. Files that are there are never replaced.
    """
    from layton_batch.cli.terminal import say
    from layton_batch.files import atomic
    from layton_batch.tasks import FIRST

    task = task or FIRST
    manifest, items = folder / f"{task}.toml", folder / f"{task}-items.jsonl"
    contents = {items: "".join(_first_items(task)), manifest: _template(task, items.name)}
    for path in contents:
        if path.exists():
            raise ManifestError(f"init: {path} is there already; --dir names another folder")
    for path, text in contents.items():
        atomic.write_text(path, text)
    from layton_batch.manifest.checks import load_manifest

    key = f"{load_manifest(manifest).models[0].provider.upper()}_API_KEY"
    say(f"{manifest}: the manifest; edit its models\n{items}: {ITEMS_SHOWN} items in the form of {task}")
    say(f"next:\n  export {key}=…\n  layton-batch plan {manifest}   # what it would cost; sends nothing")
    say(f"  layton-batch run {manifest}    # start, or go on")


def _first_items(task: str) -> Iterator[str]:
    """The first of those that come with the package, which are ours. Raises ManifestError for a task without."""
    from layton_batch.tasks import load_task
    from layton_batch.tasks.protocol import TaskOptions

    split = _split(task)
    with load_task(task, TaskOptions(split)).bundled(split).open(encoding="utf-8") as lines:
        yield from islice(lines, ITEMS_SHOWN)


def _template(task: str, items: str) -> str:
    from layton_batch.manifest.checks import load_manifest, shipped
    from layton_batch.tasks import load_task
    from layton_batch.tasks.protocol import TaskOptions

    model = load_manifest(shipped("layton-today.toml")).models[0]
    found = load_task(task, TaskOptions(_split(task)))
    return _TEMPLATE.format(
        task=task,
        items=items,
        split=_split(task),
        metric=found.metrics[0],
        metrics=" | ".join(found.metrics),
        provider=model.provider,
        model=model.model,
        jury=_JURY if found.uses_jury else "# Rules grade the answers: there is no jury.\n",
    )


_JURY = """# Judges of other families than the model's own judge every answer. Without this table: the package's panel.
# [jury]
# seats = 3
# panel = "panel.toml"              # [[judges]] with the keys of a model

# Labels that people gave, to correct the jury by: item_id, model, answer_correct, justification_correct
# [gold]
# annotations = "labels.jsonl"
"""
_TEMPLATE = """# A run of {task}. Edit it at any time: what was answered is not asked again.
#
#   layton-batch plan {task}.toml     what it would send and cost at most; sends nothing
#   layton-batch run {task}.toml      start, or go on where it stopped

name = "{task}"                     # the run's name
task = "{task}"

[items]
source = "{items}"                  # JSONL or Parquet: a path, an address, hf://datasets/OWNER/NAME/PATH, or "bundled"
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
# max_output_tokens = 32000
# params = {{ temperature = 0 }}

{jury}"""
