"""Reads a manifest and what it refers to, and finds everything that is wrong with it at once.

The one place below the stages that asks the registries of providers and tasks what they know. Checks look at the raw
tables beside the validated form, so that one mistake does not hide the others.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar, cast

from pydantic import BaseModel, ValidationError

from layton_batch.errors import DataError, LaytonBatchError
from layton_batch.files import limits
from layton_batch.manifest.form import JudgeTable, ManifestForm, PanelFile
from layton_batch.manifest.hint_levels import MOST_HINTS
from layton_batch.manifest.logo import logo_url
from layton_batch.manifest.manifest import Manifest
from layton_batch.manifest.problems import OF_THE_WHOLE, Key, Problem, complain, form_problems, nearest
from layton_batch.manifest.prompt_files import PromptFiles, prompt_path

_PACKAGE = Path(__file__).parents[1]
_SHIPPED = (_PACKAGE / "manifests", _PACKAGE.parent / "manifests")
"""Where the manifests that come with the package are: in a wheel, in a checkout."""
DEFAULT_PANEL = "panel.toml"
"""The paper's panel, one of them."""

_CURLY_QUOTES = re.compile("[\u201c\u201d\u201e\u2018\u2019]")
_AT_LINE = re.compile(r"\(at line (?P<line>\d+), column \d+\)")
"""Place in a message of TOML's parser."""
_ESCAPES = "; in double quotes a backslash begins an escape: write a path with / or in single quotes"
_TOML_ADVICE = {
    "Invalid value": '; a value is text in quotes (name = "mine"), a number, true or false',
    "Invalid hex value": _ESCAPES,
    "Unescaped '\\'": _ESCAPES,
}
"""Advice on the errors of TOML's parser, by how their texts begin."""

_SET_TWICE = re.compile(r"Cannot (?:overwrite a value|declare .* twice) \(at line (?P<line>\d+), column \d+\)")
"""Error of TOML's parser for a key or a table that is there already."""
_DECIMAL_COMMA = re.compile(r"=\s*(?P<whole>\d+),(?P<part>\d+)\s*(?:#.*)?$", re.MULTILINE)

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
        self.raw: Toml = (self._toml(Path(file), file) or {}) if tables is None else tables
        complain(self.problems)

    def result(self) -> CheckedManifest:
        form = self._validated(ManifestForm, self.raw, self.file)
        panel_source = self._panel_source()
        self._check_models(self.raw.get("models"), self.file, ("models",))
        self._check_models(panel_source.judges, panel_source.file, panel_source.key)
        self._check_prices()
        for name in own if isinstance(own := self.raw.get("limits"), Mapping) else ():
            self._check_provider(name, self.file, ("limits", name))
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
        command = f"`layton-batch run {file} --model PROVIDER:ID`"
        is_manifest = file == self.file and path.suffix != ".toml"
        for_questions = f". {command} is for a file of questions"
        for_questions = "; `layton-batch init` writes one" if path.suffix in (".yaml", ".yml") else for_questions
        other_form = f"; a manifest is TOML{for_questions}" if is_manifest else ""
        text = ""
        try:
            limits.check_is_file(path, file)
            text = path.read_bytes().decode("utf-8-sig")
            return tomllib.loads(text)
        except OSError as error:
            advice = _instead_of_nothing(file) if file == self.file else ""
            is_relative = isinstance(error, FileNotFoundError) and not Path(file).is_absolute()
            where = f"; the working folder is {Path.cwd()}" if is_relative else ""
            self._add(file, (), f"cannot be read ({error.strerror or error}{where}){_manifest_below(path) or advice}")
        except UnicodeDecodeError as error:
            self._add(file, (), f"not UTF-8 (byte {error.start + 1}); save it as UTF-8{other_form}")
        except tomllib.TOMLDecodeError as error:
            self._add(file, (), f"not TOML: {_toml_reason(str(error), text)}{other_form}")
        except RecursionError:
            self._add(file, (), "not TOML that can be read: nested too deep")
        return None

    def _validated(self, form: type[_Form], tables: Toml, file: str, at: Key = ()) -> _Form | None:
        try:
            return form.model_validate(dict(tables))
        except ValidationError as error:
            self.problems.extend(form_problems(file, form, error, tables, at))
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
            from layton_batch.files.sources import near_file

            advice = "name a TOML file with [[judges]], or leave panel out for the package's own judges"
            self._add(self.file, ("jury", "panel"), f"no panel file {path}{near_file(path)}; {advice}")
            return _PanelSource(self.file, (), None)
        return self._panel_file(shipped(DEFAULT_PANEL))

    def _panel_file(self, path: Path) -> _PanelSource:
        file = str(path)
        tables = self._toml(path, file)
        if tables is None:
            return _PanelSource(file, (), None)
        if "judges" not in tables and "models" in tables:
            self._add(file, (), "is a manifest; a panel is a TOML file with a table [[judges]] for each judge")
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

    def _check_provider(self, name: object, file: str, key: Key) -> None:
        from layton_batch import providers

        if not isinstance(name, str) or name in providers.BUILT_IN:
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
            self._add(self.file, key, f"{metric!r} is not one of {metric_names}{nearest(metric, task.metrics)}")
        return metric

    def _check_jury(self, form: ManifestForm, task: _TaskFacts, judges: tuple[JudgeTable, ...]) -> None:
        from layton_batch.manifest.jury import seat_jury

        if not task.uses_jury:
            if form.jury is not None:
                self._add(
                    self.file, ("jury",), f"task {form.task!r} is graded by a rule, no jury sits: leave [jury] out"
                )
            return
        panel = tuple(judge.judge() for judge in judges)
        for index, model in enumerate(form.models):
            spec = model.spec()
            if not seat_jury(panel, spec, seats=1):
                reason = f"no judge may sit for {spec.name!r}: all of the panel are of its family {spec.family!r}"
                advice = "add a judge of another maker to [[jury.judges]] or the panel file, or correct family"
                self._add(self.file, ("models", index), f"{reason}; {advice}")

    def _complain(self) -> None:
        complain(map(self._by_argument, self.problems))

    def _by_argument(self, problem: Problem) -> Problem:
        """Name the argument that a problem is about, where there are arguments."""
        key = problem.key
        prefixes = (prefix for prefix in self.arguments if problem.file == self.file and key[: len(prefix)] == prefix)
        if (prefix := next(prefixes, None)) is None:
            return problem
        return replace(problem, key=(self.arguments[prefix], *key[len(prefix) :]))

    def _add(self, file: str, key: Key, reason: str) -> None:
        self.problems.append(Problem(file, key, reason))


def _toml_reason(error: str, text: str) -> str:
    """Return what the parser says of a TOML text, with advice."""
    if (twice := _SET_TWICE.fullmatch(error)) is not None:
        line = text.split("\n")[int(twice["line"]) - 1]
        key = line.partition("=")[0].strip() if "=" in line or line.startswith("[") else "a key"
        place = f"; {key} of the manifest itself stands above the first [table]" if key in OF_THE_WHOLE else ""
        return f"line {twice['line']} sets {key} a second time; remove one of the two{place}"
    if (comma := _DECIMAL_COMMA.search(text)) is not None and error.startswith("Expected newline"):
        return f"{error}; write {comma['whole']}.{comma['part']}, with a point"
    line = text.split("\n")[int(at["line"]) - 1].strip() if (at := _AT_LINE.search(error)) is not None else ""
    if _CURLY_QUOTES.search(line):
        return f'{error}; the line has curly quotation marks: write straight ones, "'
    if line.startswith("```"):
        return f"{error}; leave out the lines with ```"
    if error.startswith("Illegal character '\\n'"):
        return f"{error}; a text ends on its line, with the quotation mark it begins with"
    if line.startswith(("//", "/*", "--")):
        return f"{error}; a comment begins with #"
    if line.endswith((",", ";")) and error.startswith("Expected newline"):
        return f"{error}; leave out the {line[-1]!r} at the end of the line"
    if error.startswith("Expected '='") and re.match(r"[\w-]+\s*:", line):
        return f"{error}; write {line.partition(':')[0].strip()} = …, with = and quotation marks around text"
    return error + next((advice for start, advice in _TOML_ADVICE.items() if error.startswith(start)), "")


def _manifest_below(path: Path) -> str:
    """Return what to name instead of a folder; nothing for any other path."""
    if not os.path.isdir(path):
        return ""
    names = sorted(map(str, path.glob("*.toml")))
    return f": name a manifest, such as {names[0]}" if names else ": name a manifest; `layton-batch init` writes one"


def _instead_of_nothing(file: str) -> str:
    """Return what to do where a manifest that is named is not there."""
    from layton_batch.files.sources import near_file
    from layton_batch.tasks import task_names

    if file in task_names():
        return f": {file} is a task; `layton-batch init {file}` writes a manifest for it"
    near = near_file(Path(file) if file.endswith(".toml") else Path(f"{file}.toml"))
    return f"{near or ';'} `layton-batch init` writes a manifest, and `layton-batch status` lists the runs"


def _tables(value: object) -> Iterator[tuple[int, Toml]]:
    """The tables of an array of tables, with their places; anything else is left to the form."""
    if isinstance(value, list):
        yield from ((index, cast("Toml", entry)) for index, entry in enumerate(value) if isinstance(entry, Mapping))


def _strings(value: object) -> Iterator[tuple[str, str]]:
    if isinstance(value, Mapping):
        yield from ((str(key), text) for key, text in value.items() if isinstance(text, str))
