"""Manifests that commands write for their arguments: `run FILE --model …`, `run TASK --model …` and `judge FILE`."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from layton_batch.clock import SystemClock
from layton_batch.commands.notes import note, warn
from layton_batch.errors import ManifestError
from layton_batch.files import atomic
from layton_batch.files.addresses import is_address
from layton_batch.files.run_folder import slug
from layton_batch.files.sources import ITEM_ENDINGS, read_rows
from layton_batch.manifest.asked import BUNDLED, load_items, manifest_task
from layton_batch.manifest.checks import DEFAULT_PANEL, load_manifest, manifest_of_tables, shipped
from layton_batch.manifest.item_check import guess_split, guess_task, unread_columns
from layton_batch.manifest.jury import seat_jury
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.model_checks import asked_models, check_models
from layton_batch.providers import provider_names, unknown_provider
from layton_batch.records import JsonValue
from layton_batch.settings import Settings, key_names
from layton_batch.tasks import BUILT_IN, FIRST, OWN, task_names, unknown_task
from layton_batch.text import plural

Table = Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class ManifestContent:
    """Content of a manifest for ``path``. ``comment``: its first line. ``tables``: keys, tables, and lists of tables;
    an empty table is left out. Without ``jury`` a manifest at the path may have any."""

    path: Path
    comment: str
    tables: Mapping[str, str | Table | Sequence[Table]]

    def checked(self) -> Manifest:
        """Return the manifest at the path; if none is there, that of this content, which can be read from any folder.

        Raises ManifestError for wrong content, and where the manifest at the path asks for something else.
        """
        content = {name: value for name, value in self.tables.items() if value}
        manifest = manifest_of_tables(content, self.path)
        if not self.path.exists():
            return manifest
        written = load_manifest(self.path)
        is_stated = "jury" in self.tables
        if keys := [key for key in written.differing_keys(manifest) if is_stated or not key.startswith("jury")]:
            raise ManifestError(
                f"{self.path} is there and asks for something else ({', '.join(keys)}): edit it and `run` it"
            )
        return written

    @property
    def text(self) -> str:
        return "".join(f"{line}\n" for line in (f"# {self.comment}", *_lines(self.tables)))

    def write(self) -> Path:
        """Write the manifest, unless one is there: that one may have other labels or another budget."""
        if not self.path.exists():
            atomic.write_text(self.path, self.text)
            note(f"{self.path}: the manifest of this run; edit it at any time")
        return self.path


def _lines(table: Mapping[str, object], name: str = "") -> Iterator[str]:
    """Yield the keys of a table, then the tables in it. ``name``: of the table, with a point at its end."""
    inner = {key: value for key, value in table.items() if isinstance(value, Mapping | list | tuple)}
    yield from (f"{key} = {_toml(value)}" for key, value in table.items() if key not in inner)
    for key, value in inner.items():
        tables, head = (value, f"[[{name}{key}]]") if isinstance(value, Sequence) else ([value], f"[{name}{key}]")
        for each in filter(None, tables):
            yield head
            yield from _lines(each, f"{name}{key}.")


def _toml(value: object) -> str:
    """Return a TOML value: JSON's escapes are TOML's, but for the delete character and halves of pairs."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


DEMO_MANIFESTS = {name: "demo.toml" if name == FIRST else f"demo-{name}.toml" for name in BUILT_IN}
"""The demonstration's manifest for each task that has bundled items."""
_MODEL = re.compile(r"(?P<provider>[A-Za-z0-9_-]+):(?P<model>\S.*)", re.DOTALL)


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
    if is_items:
        path, name, (task, split) = given.with_suffix(".toml"), slug(given.stem), _task_and_split(given)
    else:
        task, split = str(given), bundled_split(str(given))
        name = slug("-".join([task, *(_provider_and_model(model)[1] for model in models)]).replace("/", "-"))
        path = Path(f"{name}.toml")
    named_models = [
        {"name": model, "provider": provider, "model": model} for provider, model in map(_provider_and_model, models)
    ]
    items: Table = {"source": given.name if is_items else BUNDLED, "split": split}
    content = ManifestContent(
        path,
        f"Written by `layton-batch run {given}`; `layton-batch run {path}` goes on with it.",
        {
            "name": name,
            "task": task,
            "items": items if limit is None else {**items, "limit": limit},
            "budget": {} if max_usd is None else {"max_usd": max_usd},
            "models": named_models,
        },
    )
    manifest = content.checked()
    reasons: Table = {"reasons": True} if task == OWN else {}
    if path.exists():
        rehearsed = replace(content, tables={**content.tables, "budget": {}, "jury": reasons}).text
        if (
            sandbox
            or path.read_text(encoding="utf-8") != rehearsed
            or not _jury_of_keys(manifest, Settings.from_process())
        ):
            return path
        path.unlink()  # a rehearsal wrote it, which needs no key, and nobody edited it since
    jury = {**reasons, **_checked_jury(manifest, sandbox=sandbox)}
    return replace(content, tables={**content.tables, "jury": jury}).write()


def _checked_jury(manifest: Manifest, *, sandbox: bool) -> Mapping[str, JsonValue]:
    """Return the ``[jury]`` to write. Raise DataError for items, and ManifestError for models, that `run` refuses,
    before a manifest is written that names them."""
    settings = Settings.from_process()
    if not is_address(manifest.items.source):
        load_items(manifest, manifest_task(manifest), settings)
    if sandbox:  # it takes any model, and plays every judge
        return {}
    if refused := check_models(manifest, settings, SystemClock()).refused:
        raise ManifestError("\n".join(refused))
    return _jury_of_keys(manifest, settings)


def _jury_of_keys(manifest: Manifest, settings: Settings) -> Mapping[str, JsonValue]:
    """Return the ``[jury]`` of the judges whose key is set; nothing if all that would sit have one.

    Raises ManifestError, with what each missing key is for, if a model or every judge that may sit for it has no key.
    """
    models, panel = manifest.model_specs(), manifest.panel()
    sitting = asked_models(manifest)
    if not panel or all(settings.has_key(spec.provider) for spec in sitting):
        return {}
    with_key = [judge for judge in panel if settings.has_key(judge.model.provider)]
    uses: dict[str, list[str]] = {}
    for spec in sitting:
        if not settings.has_key(spec.provider):
            uses.setdefault(key_names(spec.provider)[0], []).append(spec.name)
    offers = "; ".join(f"{key} buys {', '.join(names)}" for key, names in uses.items())
    seats = min(len(seat_jury(with_key, model, manifest.seats)) for model in models)
    if not seats or not all(settings.has_key(model.provider) for model in models):
        raise ManifestError(f"run: a key is missing: {offers}; each model needs a judge of another maker")
    judges = [judge.model.name for judge in with_key]
    warn((f"{plural(seats, 'judge')} for each model, of {', '.join(judges)}, by the keys that are set; {offers}",))
    tables = tomllib.loads(shipped(DEFAULT_PANEL).read_text(encoding="utf-8"))["judges"]
    return {"seats": seats, "judges": [table for table in tables if table["name"] in judges]}


def _task_and_split(given: Path) -> tuple[str, str]:
    """Return the task and the split of a file of items. Say what of the file is not asked."""
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
    return task, split


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
