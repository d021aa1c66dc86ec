"""A manifest: what one run asks of whom. Loaded from TOML, checked as a whole before anything is sent.

A loaded manifest carries what it refers to (the panel's judges, the text of its prompt files), so that its identity
covers them and a run can go on where those files are not.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Self

from pydantic import PrivateAttr

from layton_batch.errors import ManifestError
from layton_batch.files import atomic
from layton_batch.manifest.form import BudgetTable, JudgeTable, JuryTable, ManifestForm, ManifestTable
from layton_batch.manifest.prompt_files import prompt_path
from layton_batch.records import JsonValue, Judge, ModelSpec, ServerForm
from layton_batch.settings import Settings

_FROZEN_FORMAT = 1
_IDENTITY_FIELDS = {"name", "task", "items", "models"}
"""Fields that determine the requests, beside jury and prompts. Budget, scoring, gold, policy and prices may change, and
of the limits those that do not say how large a batch file is. A model's window says how long a batch may take, not what
is asked."""
_NOT_ASKED = {"window"}


class Manifest(ManifestForm):
    """A checked manifest. Attributes are the tables of the file; methods give what other modules work with."""

    _folder: Path = PrivateAttr(default_factory=Path)
    _panel: tuple[JudgeTable, ...] = PrivateAttr(default=())
    _prompt_texts: dict[str, str] = PrivateAttr(default_factory=dict)
    _logo: str = PrivateAttr(default="")

    @property
    def folder(self) -> Path:
        """Return the folder that the manifest's relative paths start from."""
        return self._folder

    @property
    def _jury(self) -> JuryTable:
        return self.jury or JuryTable()

    @property
    def seats(self) -> int:
        return self._jury.seats

    @property
    def has_reasons(self) -> bool:
        """Return whether judges say why."""
        return self._jury.reasons

    @property
    def in_turn(self) -> bool:
        """Return whether a third judge is asked only where the verdicts of two differ."""
        return self._jury.ask != "all"

    @property
    def anchors(self) -> int:
        """Return the number of labelled answers that judges are asked about once more."""
        return self._jury.anchors

    @property
    def anchor_sample(self) -> int:
        """Return the sample number of these verdicts; the first verdict on an answer is sample 1."""
        return 1 + self._jury.anchor_round if self.jury else 1

    def model_specs(self) -> tuple[ModelSpec, ...]:
        """Return the models to evaluate, in the file's order."""
        return tuple(model.spec() for model in self.models)

    def asked_specs(self) -> tuple[ModelSpec, ...]:
        """Return the models to evaluate, each once for every hint level and sample."""
        levels = self.items.levels if len(self.items.levels) > 1 else (None,)
        numbered = (
            (table, level, number + 1)
            for table in self.models
            for level in levels
            for number in range(table.samples or 1)
        )
        return tuple(replace(table.spec(), sample=number, hints=level) for table, level, number in numbered)

    def hints_of(self, spec: ModelSpec) -> int:
        """Return the number of hints of a job. Imported answers have the first hint level."""
        return self.items.levels[0] if spec.hints is None else spec.hints

    def server(self, provider: str) -> ServerForm | None:
        """Return the server that the manifest itself gives the name of the provider; None: it gives none."""
        table = self.providers.get(provider)
        return None if table is None else table.server(provider)

    def addressed(self, settings: Settings) -> Settings:
        """Return the settings with the addresses of the manifest's own providers, where the environment sets none."""
        return settings.with_addresses({name: table.base_url for name, table in self.providers.items()})

    def panel(self) -> tuple[Judge, ...]:
        """Return the judges of the panel in order; none for a task graded by rule."""
        return tuple(judge.judge() for judge in self._panel)

    def all_specs(self) -> tuple[ModelSpec, ...]:
        """Return the models to evaluate, and every judge of the panel, also substitutes."""
        return (*self.model_specs(), *(judge.model for judge in self.panel()))

    def window(self, name: str, *, judge: bool) -> str | None:
        """Return the completion window of the batches of a model or judge; None: its provider's usual window."""
        tables = self._panel if judge else self.models
        return next((table.window for table in tables if table.name == name), None)

    def prompt_paths(self, folder: Path | None = None) -> Mapping[str, Path]:
        """The prompt files by template name: the ones named (what was at an address, in a temporary file), or, with a
        folder, the carried texts written there."""
        if folder is None:
            texts = self._prompt_texts.items()
            return {name: prompt_path(self.prompts[name], text, self._folder) for name, text in texts}
        paths = {name: folder / f"{name}.txt" for name in self.prompts}
        for name, path in paths.items():
            atomic.write_text(path, self._prompt_texts[name])
        return paths

    @property
    def prompt_texts(self) -> Mapping[str, str]:
        """Return the manifest's own prompts, by template name."""
        return self._prompt_texts

    def identity(self) -> str:
        """Return the SHA-256, in hex, of everything that determines the requests."""
        canonical = json.dumps(self._asked(), sort_keys=True, separators=(",", ":"), ensure_ascii=True)
        return hashlib.sha256(canonical.encode("ascii")).hexdigest()

    def differing_keys(self, other: Manifest) -> list[str]:
        """Return the keys by which two manifests have different identities, such as ``jury.seats``."""
        first, second = _leaves(self._asked()), _leaves(other._asked())
        return sorted(key for key in first.keys() | second.keys() if first.get(key) != second.get(key))

    def _asked(self) -> dict[str, object]:
        """Return everything that determines the requests."""
        exclude = {"models": {"__all__": _NOT_ASKED}}
        content: dict[str, object] = self.model_dump(
            mode="json", include=_IDENTITY_FIELDS, exclude=exclude, exclude_none=True
        )
        if self.task_options:
            content["task_options"] = self.task_options
        if files := {name: packed for name, table in self.limits.items() if (packed := table.of_files())}:
            content["limits"] = files
        if self.providers:  # elsewhere it is the same server, whose requests have another form
            content["providers"] = {name: table.max_tokens for name, table in self.providers.items()}
        content["jury"] = None
        if self._panel:
            content["jury"] = {
                "seats": self.seats,
                "panel": [_dumped(judge, exclude=_NOT_ASKED) for judge in self._panel],
                **({"ask": "in turn"} if self.in_turn else {}),
                **({"anchors": [self.anchors, self.anchor_sample]} if self.anchors else {}),
                **({"reasons": True} if self.has_reasons else {}),
            }
        content["prompts"] = self._prompt_texts
        return content

    def frozen_json(self) -> str:
        """Return all that is needed to continue the run without the manifest's files, as JSON text without secrets."""
        return json.dumps(self.frozen(), indent=2, ensure_ascii=False)

    def frozen(self) -> dict[str, JsonValue]:
        """Return the content of ``frozen_json``."""
        return {
            "format": _FROZEN_FORMAT,
            "identity": self.identity(),
            "folder": str(self._folder),
            "manifest": _dumped(self),
            "panel": [_dumped(judge) for judge in self._panel],
            "prompts": self._prompt_texts,
            **({"logo": self._logo} if self._logo else {}),
        }

    def place_of(self, secrets: Collection[str]) -> str | None:
        """Return the key of a secret value in the manifest, its panel or its prompts; None if there is none."""
        frozen = self.frozen()
        names = ("manifest", "panel", "prompts")
        return next((place for name in names for place in _places(frozen[name], secrets, name)), None)

    @classmethod
    def from_frozen(cls, text: str | bytes, file: str = "run.json") -> Self:
        """Load a frozen manifest. Raises ManifestError if the text is no result of ``frozen_json``."""
        try:
            frozen = json.loads(text)
            if frozen["format"] != _FROZEN_FORMAT:
                raise ManifestError(f"{file}: written by another version of layton-batch (format {frozen['format']})")
            manifest = cls.model_validate(frozen["manifest"])
            panel = tuple(JudgeTable.model_validate(judge) for judge in frozen["panel"])
            manifest.attach(Path(frozen["folder"]), panel, dict(frozen["prompts"]), str(frozen.get("logo", "")))
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ManifestError(f"{file}: not a frozen manifest ({type(error).__name__}: {error})") from error
        if manifest.identity() != frozen["identity"]:
            raise ManifestError(f"{file}: was changed by hand; its identity no longer fits its content")
        return manifest

    def attach(self, folder: Path, panel: tuple[JudgeTable, ...], prompt_texts: dict[str, str], logo: str = "") -> None:
        """Give the manifest what its file refers to; for those who load it, before anyone else has it. ``logo``: a data
        URL."""
        self._folder, self._panel, self._prompt_texts, self._logo = folder, panel, prompt_texts, logo


def frozen_prices(text: str) -> object:
    """Return the parts of a frozen manifest that bound planned batches: [[prices]], and the bound of [budget].

    Results of two manifests can be compared. None: the text is no frozen manifest.
    """
    try:
        manifest = json.loads(text)["manifest"]
        budget = manifest.get("budget") or {}
        return [manifest.get("prices") or [], budget.get("bound"), budget.get("bound") and budget.get("safety")]
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _places(value: object, secrets: Collection[str], at: str) -> Iterator[str]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _places(key, secrets, f"a key in {at}")
            yield from _places(part, secrets, f"{at}.{key}")
    elif isinstance(value, list):
        for number, part in enumerate(value):
            yield from _places(part, secrets, f"{at}[{number}]")
    elif isinstance(value, str) and any(secret in value for secret in secrets):
        yield at


def _leaves(value: object, key: str = "") -> dict[str, object]:
    """Return the values of nested tables, by their keys with dots between them. Lists and empty tables are values."""
    if not isinstance(value, dict) or not value:
        return {key: value}
    parts = (_leaves(inner, f"{key}.{part}" if key else part) for part, inner in value.items())
    return {name: leaf for part in parts for name, leaf in part.items()}


def _dumped(table: ManifestTable, exclude: set[str] | None = None) -> dict[str, JsonValue]:
    return table.model_dump(mode="json", exclude=exclude, exclude_none=True)


def with_budget(manifest: Manifest, max_usd: str | None) -> Manifest:
    """Return the manifest with another budget. Raises ManifestError for what is not an amount."""
    if max_usd is None:
        return manifest
    try:
        amount = BudgetTable(max_usd=max_usd).max_usd  # type: ignore[arg-type]
    except ValueError as error:
        raise ManifestError(f"--max-usd {max_usd!r}: give an amount in US dollars such as 5.00, 0 or more") from error
    return manifest.model_copy(update={"budget": manifest.budget.model_copy(update={"max_usd": amount})})
