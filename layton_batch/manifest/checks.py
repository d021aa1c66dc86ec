"""Read a manifest and what it refers to. The form checks the tables; here is checked what needs files or registries.

Every fault of the form is named at once, then every fault of what the form refers to.
"""

from __future__ import annotations

import reprlib
import tomllib
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import UnionType
from typing import TYPE_CHECKING, Annotated, TypeVar, Union, get_args, get_origin

import orjson
from pydantic import BaseModel, ValidationError

from layton_batch import providers
from layton_batch.errors import DataError, LaytonBatchError, ManifestError
from layton_batch.files import limits
from layton_batch.files.sources import near_file
from layton_batch.manifest.asked import manifest_task
from layton_batch.manifest.form import SECRET_NAME, JudgeTable, ManifestForm, PanelFile
from layton_batch.manifest.jury import seat_jury
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.prompt_files import PromptFiles
from layton_batch.settings import key_names
from layton_batch.tasks import task_names, unknown_task
from layton_batch.tasks.benchmark_rows import media_type
from layton_batch.tasks.protocol import Task
from layton_batch.text import did_you_mean

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails


_PACKAGE = Path(__file__).parents[1]
_SHIPPED = (_PACKAGE / "manifests", _PACKAGE.parent / "manifests")
"""Folders of the manifests that come with the package: in a wheel, in a checkout."""
DEFAULT_PANEL = "panel.toml"
"""The paper's panel, one of the shipped files."""
MOST_LOGO_BYTES = 100_000
"""Limit of a logo: it stands in the manifest of every revision, and in the page."""
_SHARED_KEYS = {"models", "prices"}
"""Keys of a file that ``models`` of a manifest names."""

Toml = Mapping[str, object]
Key = tuple[str | int, ...]
_Form = TypeVar("_Form", bound=BaseModel)


def shipped(name: str) -> Path:
    """Return the path of a manifest or panel file that comes with the package."""
    folder = next((folder for folder in _SHIPPED if folder.is_dir()), _SHIPPED[0])
    return folder / name


def load_manifest(path: Path, prompts: PromptFiles | None = None) -> Manifest:
    """Load the manifest in a TOML file. ``prompts`` reads the prompt files it names (default: where they are, without a
    look at earlier runs). Raises ManifestError with every problem found, one a line: file, key, reason."""
    places = _Places(str(path))
    return _loaded(_toml(path), places, path.resolve().parent, prompts or PromptFiles())


def manifest_of_tables(tables: Toml, path: Path) -> Manifest:
    """Make the manifest of tables that will be written to ``path``. Raises ManifestError as ``load_manifest``."""
    return _loaded(tables, _Places(str(path)), path.resolve().parent, PromptFiles())


# ---- problems ------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Places:
    """Problems of one manifest, each a line of file, key and reason. ``shared``: the keys of tables that another file
    holds, and that file."""

    file: str
    shared: Mapping[str, str] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def add(self, key: Key, reason: str, file: str | None = None) -> None:
        """Note a problem of the manifest, or of another ``file``."""
        if file is None:
            file = self.shared.get(str(key[0]), self.file) if key else self.file
        self.problems.append(": ".join(part for part in (file, _dotted(key), reason) if part))

    @contextmanager
    def noting(self, *key: str) -> Iterator[None]:
        """Note what this package raises inside as a problem of a key; without one the message says which."""
        try:
            yield
        except LaytonBatchError as error:
            self.add(key, str(error))

    def complain(self) -> None:
        """Raise ManifestError with the problems, if there are any."""
        if self.problems:
            raise ManifestError("\n".join(dict.fromkeys(self.problems)))


def _dotted(key: Key) -> str:
    name = ""
    for part in key:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name


def _validated(
    form: type[_Form], tables: Toml, places: _Places, own_providers: object, file: str | None = None
) -> _Form:
    """Return the tables in their form. Raises ManifestError with pydantic's findings."""
    own = own_providers if isinstance(own_providers, Mapping) else {}

    def complaint(name: str) -> str | None:
        is_known = name in providers.BUILT_IN or name in own or name in providers.provider_names()
        return None if is_known else providers.unknown_provider(name)

    try:
        return form.model_validate(dict(tables), context=complaint)
    except ValidationError as error:
        for detail in error.errors(include_url=False):
            # An array all of whose entries are faulty is reported as too short as well, which it is not.
            if not (detail["type"] == "too_short" and detail["input"]):
                key = tuple(part for part in detail["loc"] if part != "[key]")
                places.add(key, _reason(detail, form), file)
        places.complain()
        raise


def _reason(detail: ErrorDetails, form: type[BaseModel]) -> str:
    kind, value = detail["type"], detail["input"]
    if kind == "extra_forbidden" and SECRET_NAME.search(str(detail["loc"][-1])):
        return "keys are read from the environment or from .env, never from a manifest: delete this line"
    if kind == "extra_forbidden":
        names = _known_keys(form, detail["loc"][:-1])
        return f"unknown key{did_you_mean(str(detail['loc'][-1]), names)} (known: {', '.join(names)})"
    if kind == "manifest":
        return str(detail["ctx"]["reason"])
    reason = f"{detail['msg'][:1].lower()}{detail['msg'][1:]}"
    is_scalar = isinstance(value, str | int | float) and kind != "missing"
    return f"{reason}, not {reprlib.repr(value)}" if is_scalar else reason


def _known_keys(form: type[BaseModel], key: Key) -> list[str]:
    """Return the keys of the table at ``key``."""
    for part in key:
        if isinstance(part, str) and part in form.model_fields:
            form = _table(form.model_fields[part].annotation) or form
    return list(form.model_fields)


def _table(annotation: object) -> type[BaseModel] | None:
    """Return the table in an annotation such as ``tuple[ModelTable, ...]`` or ``JuryTable | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in {Union, UnionType, tuple, dict, Annotated}:
        return next((table for part in get_args(annotation) if (table := _table(part))), None)
    return None


# ---- the manifest and what it refers to ----------------------------------------------------------------------------


def _loaded(tables: Toml, places: _Places, folder: Path, prompts: PromptFiles) -> Manifest:
    tables = _with_models(tables, places, folder)
    manifest = _validated(Manifest, tables, places, tables.get("providers"))
    _check_own_providers(manifest, places)
    panel = _panel(manifest, places, folder)
    texts: dict[str, str] = {}
    for name, source in manifest.prompts.items():
        with places.noting("prompts", name):
            texts[name] = prompts.text(name, source, folder, manifest.name)
    logo = ""
    task: Task | None = None
    if manifest.site is not None and manifest.site.logo is not None:
        with places.noting("site", "logo"):
            logo = _image(folder / manifest.site.logo)
    if manifest.task not in task_names():
        places.add(("task",), unknown_task(manifest.task))
    else:
        with places.noting():
            manifest.attach(folder, (), texts)
            task = manifest_task(manifest, hints=max(manifest.items.levels))
    if task is not None:
        metric, metrics = manifest.scoring.metric or task.metrics[0], tuple(task.metrics)
        if metric not in metrics:
            reason = f"{metric!r} is not one of {', '.join(metrics)}{did_you_mean(metric, metrics)}"
            places.add(("scoring", "metric"), reason)
        manifest = manifest.model_copy(update={"scoring": manifest.scoring.model_copy(update={"metric": metric})})
        panel = panel if task.uses_jury else ()
        _check_jury(manifest, places, panel, uses_jury=task.uses_jury)
    places.complain()
    manifest.attach(folder, tuple(panel), texts, logo)
    return manifest


def _toml(path: Path) -> Toml:
    try:
        limits.check_is_file(path, str(path))
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise ManifestError(f"{path}: cannot be read ({error.strerror or error}){near_file(path)}") from error
    except UnicodeDecodeError as error:
        raise ManifestError(f"{path}: not UTF-8 (byte {error.start + 1}); save it as UTF-8") from error
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise ManifestError(f"{path}: not TOML: {error}") from error


def _with_models(tables: Toml, places: _Places, folder: Path) -> Toml:
    """Put the tables of the file that ``models`` names in place of its name."""
    named = tables.get("models")
    if not isinstance(named, str):
        return tables
    path = folder / named
    if not path.is_file():
        places.add(("models",), f"no file {path}{near_file(path)}")
        places.complain()
    shared, file = _toml(path), str(path)
    for key in sorted(shared.keys() - _SHARED_KEYS):
        places.add((key,), "unknown key; a file of models has only tables [[models]] and [[prices]]", file)
    if not isinstance(shared.get("models"), list):
        places.add(("models",), "is missing: add tables [[models]]", file)
    if "prices" in shared and "prices" in tables:
        places.add(("prices",), f"{named} has [[prices]] too; keep them in one of the two files")
    places.complain()
    places.shared = dict.fromkeys(shared, file)
    return {**tables, **shared}


def _panel(manifest: Manifest, places: _Places, folder: Path) -> Sequence[JudgeTable]:
    jury = manifest.jury
    if jury is not None and jury.judges is not None:
        return jury.judges
    path = shipped(DEFAULT_PANEL) if jury is None or jury.panel is None else folder / jury.panel
    if not path.is_file():
        places.add(("jury", "panel"), f"no panel file {path}{near_file(path)}")
        return ()
    return _validated(PanelFile, _toml(path), places, manifest.providers, str(path)).judges


def _check_own_providers(manifest: Manifest, places: _Places) -> None:
    """Let a manifest, perhaps a stranger's, send no key of another provider to an address of its own."""
    keys = {key: name for name in providers.provider_names() for key in key_names(name)}
    for name in manifest.providers:
        if (other := keys.get(key_names(name)[0])) is not None:
            reason = f"its key would be {other}'s: give it another name; another address of {other} is set in the "
            places.add(("providers", name), f"{reason}environment")


def _check_jury(manifest: Manifest, places: _Places, judges: Iterable[JudgeTable], *, uses_jury: bool) -> None:
    if not uses_jury and manifest.jury is not None:
        places.add(("jury",), f"task {manifest.task!r} is graded by a rule, no jury sits: leave [jury] out")
    panel = tuple(judge.judge() for judge in judges)
    for index, spec in enumerate(manifest.model_specs()) if panel else ():
        if not seat_jury(panel, spec, seats=1):
            reason = f"no judge may sit for {spec.name!r}: all of the panel are of its family {spec.family!r}"
            advice = "add a judge of another maker to [[jury.judges]] or the panel file, or correct family"
            places.add(("models", index), f"{reason}; {advice}")


def _image(path: Path) -> str:
    """Return a logo as a data URL, so that a page loads nothing."""
    try:
        if not path.is_file():
            raise DataError(f"no file {path}; a logo is a file on this machine")
        if (size := path.stat().st_size) > MOST_LOGO_BYTES:
            raise DataError(f"{path}: {size:,} bytes are too many for a logo (at most {MOST_LOGO_BYTES:,})")
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    return f"data:{media_type(content, str(path))};base64,{b64encode(content).decode()}"


SCHEMA_FILE = "layton-batch.schema.json"
"""Name of the schema's file beside a manifest."""


def manifest_schema() -> Mapping[str, object]:
    """Return the schema of the manifest's form. It knows the tasks and providers that are installed here, and allows
    others: what is wrong beyond the form, `plan` says."""
    schema = ManifestForm.model_json_schema()
    schema["properties"]["models"]["type"] = ["array", "string"]  # a string names a file with the tables
    tables = schema["$defs"]
    named = [(schema, "task", task_names())]
    named += [
        (tables[name], "provider", providers.provider_names()) for name in ("ModelTable", "JudgeTable", "PriceTable")
    ]
    for table, key, names in named:
        table["properties"][key]["anyOf"] = [{"enum": list(names)}, {"type": "string"}]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "A manifest of layton-batch"}


def schema_text() -> str:
    """Return the schema as the text of a file."""
    return orjson.dumps(manifest_schema(), option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE).decode()
