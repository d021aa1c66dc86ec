"""Reads a manifest and what it refers to, and finds everything that is wrong with it at once.

The one place below the stages that asks the registries of providers and tasks what they know. Checks look at the raw
tables beside the validated form, so that one mistake does not hide the others.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, cast

from pydantic import BaseModel, ValidationError

from layton_batch.errors import DataError, LaytonBatchError
from layton_batch.files import limits
from layton_batch.files.sources import near_file
from layton_batch.manifest.form import JudgeTable, ManifestForm, PanelFile
from layton_batch.manifest.hint_levels import MOST_HINTS
from layton_batch.manifest.logo import logo_url
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.problems import Key, Problem, complain, form_problems
from layton_batch.manifest.prompt_files import PromptFiles, prompt_path
from layton_batch.settings import Settings
from layton_batch.text import did_you_mean

_PACKAGE = Path(__file__).parents[1]
_SHIPPED = (_PACKAGE / "manifests", _PACKAGE.parent / "manifests")
"""Where the manifests that come with the package are: in a wheel, in a checkout."""
DEFAULT_PANEL = "panel.toml"
"""The paper's panel, one of them."""

_SHARED_KEYS = {"models", "prices"}
"""Keys of a file that ``models`` of a manifest names."""

Toml = Mapping[str, object]
_Form = TypeVar("_Form", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class CheckedManifest:
    """A manifest without fault: its form, its panel (empty for rule-graded tasks), the texts of its prompt files, and
    the logo of its site as a data URL, empty where there is none."""

    form: ManifestForm
    panel: tuple[JudgeTable, ...]
    prompt_texts: dict[str, str]
    logo: str


@dataclass(frozen=True, slots=True)
class _TaskFacts:
    """Properties of a task that a manifest is checked against."""

    metrics: tuple[str, ...]
    uses_jury: bool


@dataclass(frozen=True, slots=True)
class _PanelSource:
    """The judges' raw tables, and where they stand."""

    file: str
    key: Key
    judges: object


def shipped(name: str) -> Path:
    """Return the path of a manifest or panel file that comes with the package."""
    folder = next((folder for folder in _SHIPPED if folder.is_dir()), _SHIPPED[0])
    return folder / name


def load_manifest(path: Path, prompts: PromptFiles | None = None) -> Manifest:
    """The manifest in a TOML file; ``prompts`` reads the prompt files it names (default: where they are, without a
    look at earlier runs). Raises ManifestError with every problem found, one a line: file, key, reason."""
    return _manifest(check(path, prompts), path.resolve().parent)


def manifest_of_tables(tables: Toml, folder: Path, function: str, arguments: Mapping[Key, str]) -> Manifest:
    """Make the manifest of tables that a Python function was given, checked as those of a file in ``folder``.

    ``arguments``: names of the function's arguments, by the keys that they are in the tables; the longer keys first.
    Raises ManifestError with every problem, one a line: function, argument, reason.
    """
    return _manifest(_Check(function, folder, PromptFiles(), tables, arguments).result(), folder)


def check(path: Path, prompts: PromptFiles | None = None) -> CheckedManifest:
    """Check a manifest as a whole, and return it. Raises ManifestError with every problem on a line of its own."""
    return _Check(str(path), path.resolve().parent, prompts or PromptFiles()).result()


def _manifest(checked: CheckedManifest, folder: Path) -> Manifest:
    manifest = Manifest.model_validate(checked.form.model_dump(exclude_unset=True))
    manifest.attach(folder, checked.panel, checked.prompt_texts, checked.logo)
    return manifest


class _Check:
    """One check. ``tables``: None: those of the file; ``arguments``: see ``manifest_of_tables``."""

    def __init__(
        self,
        file: str,
        folder: Path,
        prompts: PromptFiles,
        tables: Toml | None = None,
        arguments: Mapping[Key, str] | None = None,
    ) -> None:
        self.prompts = prompts
        self.file = file
        self.folder = folder
        self.arguments = arguments or {}
        self.problems: list[Problem] = []
        self.shared_tables: dict[str, str] = {}  # keys of the tables that another file holds, and that file
        self.raw = self._with_models((self._toml(Path(file), file) or {}) if tables is None else tables)
        complain(self.problems)

    def result(self) -> CheckedManifest:
        form = self._validated(ManifestForm, self.raw, self.file)
        panel_source = self._panel_source()
        self._check_models(self.raw.get("models"), self.file, ("models",))
        self._check_models(panel_source.judges, panel_source.file, panel_source.key)
        self._check_prices()
        for name in own if isinstance(own := self.raw.get("limits"), Mapping) else ():
            self._check_provider(name, self.file, ("limits", name))
        self._check_own_providers()
        texts = self._prompt_texts()
        logo = self._logo(self.raw.get("site"))
        task = self._task_facts(texts)
        metric = self._metric(task)
        panel = self._panel(panel_source)
        self._complain()
        if form is None or task is None:  # each has left a problem, so this is never reached
            raise AssertionError(self.file)
        judges = panel if task.uses_jury else ()
        self._check_jury(form, task, judges)
        if form.gold is not None and form.gold.label_error and form.scoring.method == "paper":
            reason = "the paper's method takes labels as right; leave out method under [scoring]"
            self._add(self.file, ("gold", "label_error"), reason)
        if form.scoring.method == "paper" and form.scoring.level != 0.95:
            self._add(
                self.file, ("scoring", "level"), "the paper's method has its own, 0.95; leave out the one or the other"
            )
        self._complain()
        scoring = form.scoring.model_copy(update={"metric": metric})
        return CheckedManifest(form.model_copy(update={"scoring": scoring}), judges, texts, logo)

    # ---- reading ---------------------------------------------------------------------------------------------------

    def _toml(self, path: Path, file: str) -> Toml | None:
        try:
            limits.check_is_file(path, file)
            return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
        except OSError as error:
            self._add(file, (), f"cannot be read ({error.strerror or error}){near_file(path)}")
        except UnicodeDecodeError as error:
            self._add(file, (), f"not UTF-8 (byte {error.start + 1}); save it as UTF-8")
        except tomllib.TOMLDecodeError as error:
            self._add(file, (), f"not TOML: {error}")
        except RecursionError:
            self._add(file, (), "not TOML that can be read: nested too deep")
        return None

    def _with_models(self, tables: Toml) -> Toml:
        """Put the tables of the file that ``models`` names in place of its name."""
        named = tables.get("models")
        if not isinstance(named, str):
            return tables
        path = self.folder / named
        file = str(path)
        if not path.is_file():
            self._add(self.file, ("models",), f"no file {path}{near_file(path)}")
            return tables
        shared = self._toml(path, file)
        if shared is None:
            return tables
        for key in sorted(shared.keys() - _SHARED_KEYS):
            self._add(file, (key,), "unknown key; a file of models has only tables [[models]] and [[prices]]")
        if not isinstance(shared.get("models"), list):
            self._add(file, ("models",), "is missing: add tables [[models]]")
        if "prices" in shared and "prices" in tables:
            self._add(self.file, ("prices",), f"{named} has [[prices]] too; keep them in one of the two files")
        self.shared_tables = dict.fromkeys(shared, file)
        return {**tables, **shared}

    def _validated(self, form: type[_Form], tables: Toml, file: str, at: Key = ()) -> _Form | None:
        try:
            return form.model_validate(dict(tables))
        except ValidationError as error:
            self.problems.extend(form_problems(file, form, error, at))
        return None

    def _panel_source(self) -> _PanelSource:
        jury = self.raw.get("jury")
        table = jury if isinstance(jury, Mapping) else {}
        if "judges" in table:
            return _PanelSource(self.file, ("jury", "judges"), table["judges"])
        named = table.get("panel")
        if isinstance(named, str):
            path = self.folder / named
            if path.is_file():
                return self._panel_file(path)
            self._add(self.file, ("jury", "panel"), f"no panel file {path}{near_file(path)}")
            return _PanelSource(self.file, (), None)
        return self._panel_file(shipped(DEFAULT_PANEL))

    def _panel_file(self, path: Path) -> _PanelSource:
        file = str(path)
        tables = self._toml(path, file)
        if tables is None:
            return _PanelSource(file, (), None)
        self._validated(PanelFile, tables, file)
        return _PanelSource(file, ("judges",), tables.get("judges"))

    def _panel(self, source: _PanelSource) -> tuple[JudgeTable, ...]:
        """The judges validated; their faults are reported where the file or form they stand in is."""
        try:
            return PanelFile.model_validate({"judges": source.judges}).judges
        except ValidationError:
            return ()

    def _prompt_texts(self) -> dict[str, str]:
        texts: dict[str, str] = {}
        run = str(self.raw.get("name"))
        for name, source in _strings(self.raw.get("prompts")):
            try:
                texts[name] = self.prompts.text(name, source, self.folder, run)
            except DataError as error:
                self._add(self.file, ("prompts", name), str(error))
        return texts

    def _logo(self, site: object) -> str:
        name = site.get("logo") if isinstance(site, Mapping) else None
        if not isinstance(name, str):
            return ""
        try:
            return logo_url(self.folder / name)
        except DataError as error:
            self._add(self.file, ("site", "logo"), str(error))
            return ""

    # ---- checking --------------------------------------------------------------------------------------------------

    def _check_models(self, tables: object, file: str, at: Key) -> None:
        names: set[str] = set()
        for index, entry in _tables(tables):
            name = entry.get("name")
            if isinstance(name, str) and name in names:
                self._add(
                    file, (*at, index, "name"),
                    f"{name!r} is the name of an earlier one; names must be unique, `model` may be the same",
                )  # fmt: skip
            names |= {name} if isinstance(name, str) else set()
            self._check_provider(entry.get("provider"), file, (*at, index, "provider"))

    def _check_prices(self) -> None:
        seen: set[tuple[object, object]] = set()
        for index, entry in _tables(self.raw.get("prices")):
            self._check_provider(entry.get("provider"), self.file, ("prices", index, "provider"))
            priced = (entry.get("provider"), entry.get("model"))
            if all(isinstance(part, str) for part in priced) and priced in seen:
                self._add(self.file, ("prices", index), f"a second price for {priced[0]} {priced[1]}")
            seen.add(priced if all(isinstance(part, str) for part in priced) else (index, None))

    def _check_own_providers(self) -> None:
        """A manifest, perhaps a stranger's, sends no key of another provider to an address of its own."""
        from layton_batch.providers import provider_names

        keys = {key: name for name in provider_names() for key in Settings(Path()).key_names(name)}
        for name in own if isinstance(own := self.raw.get("providers"), Mapping) else ():
            if (other := keys.get(Settings(Path()).key_names(name)[0])) is not None:
                reason = f"its key would be {other}'s: give it another name; another address of {other} is set in the "
                self._add(self.file, ("providers", name), f"{reason}environment")

    def _check_provider(self, name: object, file: str, key: Key) -> None:
        from layton_batch import providers

        own = self.raw.get("providers")
        if not isinstance(name, str) or name in providers.BUILT_IN or (isinstance(own, Mapping) and name in own):
            return
        if name not in providers.provider_names():
            self._add(file, key, providers.unknown_provider(name))

    def _task_facts(self, texts: Mapping[str, str]) -> _TaskFacts | None:
        from layton_batch.tasks import load_task, task_names, unknown_task
        from layton_batch.tasks.protocol import TaskOptions

        name = self.raw.get("task")
        if not isinstance(name, str):
            return None
        if name not in task_names():
            self._add(self.file, ("task",), unknown_task(name))
            return None
        items = self.raw.get("items")
        items_table = items if isinstance(items, Mapping) else {}
        split, hints = items_table.get("split", "llm"), items_table.get("hints", 0)
        levels = hints if isinstance(hints, list) else [hints]
        sources = dict(_strings(self.raw.get("prompts")))
        options = TaskOptions(
            split if isinstance(split, str) else "llm",
            max((level for level in levels if isinstance(level, int) and 0 <= level <= MOST_HINTS), default=0),
            {key: prompt_path(sources[key], text, self.folder) for key, text in texts.items()},
        )
        try:
            settings = self.raw.get("task_options")
            task = load_task(name, options, settings if isinstance(settings, Mapping) else {})
        except LaytonBatchError as error:
            self._add(self.file, (), str(error))  # the message says which of the options it is about
            return None
        return _TaskFacts(tuple(task.metrics), task.uses_jury)

    def _metric(self, task: _TaskFacts | None) -> str:
        scoring = self.raw.get("scoring")
        metric = scoring.get("metric") if isinstance(scoring, Mapping) else None
        if task is None or not isinstance(metric, str):
            return task.metrics[0] if task else ""
        if metric not in task.metrics:
            metric_names = ", ".join(task.metrics)
            key = ("scoring", "metric")
            self._add(self.file, key, f"{metric!r} is not one of {metric_names}{did_you_mean(metric, task.metrics)}")
        return metric

    def _check_jury(self, form: ManifestForm, task: _TaskFacts, judges: tuple[JudgeTable, ...]) -> None:
        from layton_batch.manifest.jury import seat_jury

        if not task.uses_jury:
            if form.jury is not None:
                self._add(
                    self.file, ("jury",), f"task {form.task!r} is graded by a rule, no jury sits: leave [jury] out"
                )
            return
        if form.jury is not None and form.jury.anchors and (form.gold is None or form.gold.source is None):
            reason = "asks labelled answers of the gold set again: give [gold] source, such as an `export RUN --to ppi`"
            self._add(self.file, ("jury", "anchors"), reason)
        if form.jury is not None and form.jury.ask != "all" and form.scoring.method == "paper":
            reason = "the published method knows juries that judge every answer: leave ask or [scoring] method out"
            self._add(self.file, ("jury", "ask"), reason)
        panel = tuple(judge.judge() for judge in judges)
        for index, model in enumerate(form.models):
            spec = model.spec()
            if not seat_jury(panel, spec, seats=1):
                reason = f"no judge may sit for {spec.name!r}: all of the panel are of its family {spec.family!r}"
                advice = "add a judge of another maker to [[jury.judges]] or the panel file, or correct family"
                self._add(self.file, ("models", index), f"{reason}; {advice}")

    def _complain(self) -> None:
        complain(map(self._by_source, self.problems))

    def _by_source(self, problem: Problem) -> Problem:
        """Name the file of shared tables, or the argument, that a problem is about."""
        key = problem.key
        if problem.file == self.file and key and (file := self.shared_tables.get(str(key[0]))):
            return replace(problem, file=file)
        prefixes = (prefix for prefix in self.arguments if problem.file == self.file and key[: len(prefix)] == prefix)
        if (prefix := next(prefixes, None)) is None:
            return problem
        return replace(problem, key=(self.arguments[prefix], *key[len(prefix) :]))

    def _add(self, file: str, key: Key, reason: str) -> None:
        self.problems.append(Problem(file, key, reason))


def _tables(value: object) -> Iterator[tuple[int, Toml]]:
    """The tables of an array of tables, with their places; anything else is left to the form."""
    if isinstance(value, list):
        yield from ((index, cast("Toml", entry)) for index, entry in enumerate(value) if isinstance(entry, Mapping))


def _strings(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        yield from ((str(key), text) for key, text in value.items() if isinstance(text, str))
