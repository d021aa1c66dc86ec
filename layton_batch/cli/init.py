"""init: a manifest to start from."""

from __future__ import annotations

import os.path
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Annotated

import typer

from layton_batch.cli.terminal import say
from layton_batch.commands.starting import bundled_split
from layton_batch.errors import ManifestError
from layton_batch.files import atomic
from layton_batch.files.run_folder import BATCHES
from layton_batch.manifest.checks import SCHEMA_FILE, load_manifest, schema_text, shipped
from layton_batch.manifest.form import RUN_NAME
from layton_batch.manifest.model_checks import asked_models
from layton_batch.settings import key_names
from layton_batch.tasks import OWN, load_task, task_names, unknown_task
from layton_batch.tasks.protocol import TaskOptions

ITEMS_SHOWN = 3


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
    providers = dict.fromkeys(spec.provider for spec in asked_models(load_manifest(manifest)))
    return [key_names(provider)[0] for provider in providers]


def _run_name(folder: Path, task: str) -> str:
    """Return what the run is called: as its folder, so that two projects are two runs, with the task behind it where
    the folder has another manifest; as its task where that is no name of a run."""
    name = folder.resolve().name + (f"-{task}" if any(folder.glob("*.toml")) else "")
    return name if RUN_NAME.match(name) and name != BATCHES else task


def _first_items(task: str) -> Iterator[str]:
    """The first of those that come with the package, which are ours. Raises ManifestError for a task without."""
    split = bundled_split(task)
    with load_task(task, TaskOptions(split)).bundled(split).open(encoding="utf-8") as lines:
        yield from islice(lines, ITEMS_SHOWN)


def _template(name: str, task: str, items: str) -> str:
    model = load_manifest(shipped("layton-today.toml")).models[0]
    loaded_task = load_task(task, TaskOptions(bundled_split(task)))
    return _TEMPLATE.format(
        name=name,
        task=task,
        items=items,
        split=bundled_split(task),
        metric=loaded_task.metrics[0],
        metrics=" | ".join(loaded_task.metrics),
        provider=model.provider,
        model=model.model,
        jury=_jury(task) if loaded_task.uses_jury else "# Rules grade the answers: there is no jury.\n",
    )


def _jury(task: str) -> str:
    """Return the table of the jury. Its judges say why, but for benchmarks: their prompts are published ones."""
    table = "[jury]\nreasons = true                      # a judge says why, in a sentence"
    return _JURY.format(jury=table if task == OWN else "# [jury]")


_JURY = """# Judges of other families than the model's own judge every answer: the package's panel, or your own.
{jury}
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
