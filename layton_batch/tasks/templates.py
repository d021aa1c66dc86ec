"""Prompts: templates in Jinja's language, and the words of others made safe to stand in them.

Templates are the packaged ones or those a manifest puts in their place. Replacements are checked when a task is made,
before anything is sent: they must be UTF-8, parse, use only variables the task gives and use those without which the
prompt would be pointless. They run in Jinja's sandbox, and the text they are given is fenced already, so no template
can show it raw, unless the user's manifest says so (``as_written``).

Text is fenced in two forms. :func:`fence` turns text into one JSON string: nothing in it can end the string, start a
line, turn the writing direction or hide. :func:`block` keeps text verbatim between two fence lines that no line of it
equals. The first is for participants, whose words are hostile; the second for the data set, whose words are shown as
they are.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from layton_batch.errors import ManifestError
from layton_batch.records import Image
from layton_batch.text import IGNORABLE, did_you_mean, without_surrogates

if TYPE_CHECKING:
    from jinja2 import Environment, Template

_JINJA = re.compile(r"\{[{%]")
_BRACED = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")
NO_OVERRIDES: Mapping[str, Path] = {}
PROMPTS = Path(__file__).parent / "prompts"
"""The folder with a folder of templates for each task."""


@dataclass(frozen=True, slots=True)
class TemplateVariables:
    """Names of the variables that a template must use and may use, with blanks between them.

    ``instead``: all of these will do as well as the needed ones.
    """

    must: str = ""
    may: str = ""
    instead: str = ""

    @property
    def names(self) -> frozenset[str]:
        """Return all names."""
        return frozenset(f"{self.must} {self.may} {self.instead}".split())

    def missing(self, used: Collection[str]) -> list[str]:
        """Return the needed names that a template does not use."""
        is_replaced = bool(self.instead) and set(self.instead.split()) <= set(used)
        return [] if is_replaced else sorted(set(self.must.split()) - set(used))


@dataclass(frozen=True, slots=True)
class BraceTemplate:
    """A text in which ``{name}`` stands for a variable of ``names``. What is put in is not looked through again."""

    source: str
    names: frozenset[str]

    def render(self, **values: object) -> str:
        def shown(match: re.Match[str]) -> str:
            return str(values[match[1]] or "") if match[1] in self.names else match[0]

        return _BRACED.sub(shown, self.source)


class Templates:
    """The templates of one task: ``<folder>/<name>.txt`` or the override of that name. Compiled when first rendered.

    With ``as_written``, overrides keep the blanks at their ends, and one that has no ``{{`` and no ``{%`` is no Jinja:
    ``{name}`` stands for a variable of that name, and any other brace for itself.
    """

    def __init__(
        self,
        folder: str,
        slots: Mapping[str, TemplateVariables],
        overrides: Mapping[str, Path] | None = None,
        *,
        as_written: bool = False,
    ) -> None:
        self._folder = PROMPTS / folder
        self._slots = slots
        self._overrides = overrides or NO_OVERRIDES
        self._as_written = frozenset(self._overrides if as_written else ())
        self._compiled: dict[str, Template | BraceTemplate] = {}
        self._switched: dict[tuple[object, ...], str] = {}
        """Rendered texts of templates whose values are only yes or no: equal for many items."""
        for name in self._overrides:
            if name not in slots:
                suggestion = f"{did_you_mean(name, slots)} (templates: {', '.join(slots)})"
                raise ManifestError(f"unknown prompt template {name!r}{suggestion}")
            self._template(name)

    def is_as_written(self, name: str) -> bool:
        """Tell whether the template is the user's own and shows other people's words without a fence."""
        return name in self._as_written

    def render(self, name: str, **values: object) -> str:
        """The text, without blank ends unless it is as written. Raises ManifestError where an overriding template fails
        on these values."""
        if not all(isinstance(value, bool) for value in values.values()):
            return self._rendered(name, values)
        key = (name, *values.items())
        if key not in self._switched:
            self._switched[key] = self._rendered(name, values)
        return self._switched[key]

    def _rendered(self, name: str, values: Mapping[str, object]) -> str:
        from jinja2 import TemplateError

        try:
            text = self._template(name).render(**values)
            return text if name in self._as_written else text.strip()
        except (
            TemplateError,
            ArithmeticError,
            LookupError,
            TypeError,
            ValueError,
            RecursionError,
            MemoryError,
        ) as error:
            reason = str(error) or type(error).__name__
            raise ManifestError(f"prompt template {name} ({self._path(name)}) fails: {reason}") from error

    @cached_property
    def _environment(self) -> Environment:
        from jinja2 import StrictUndefined
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        # No autoescape: the reader is a model, not a browser. What must be escaped is fenced before it gets here.
        return ImmutableSandboxedEnvironment(
            undefined=StrictUndefined,
            autoescape=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )

    def _path(self, name: str) -> Path:
        return self._overrides.get(name) or self._folder / f"{name}.txt"

    def _template(self, name: str) -> Template | BraceTemplate:
        if name not in self._compiled:
            self._compiled[name] = self._compile(name, self._path(name))
        return self._compiled[name]

    def _compile(self, name: str, path: Path) -> Template | BraceTemplate:
        from jinja2 import TemplateSyntaxError

        slots, as_written = self._slots[name], name in self._as_written
        template: Template | BraceTemplate
        used: AbstractSet[str]
        try:
            source = path.read_bytes().decode("utf-8")
            if as_written and not _JINJA.search(source):
                template, used = BraceTemplate(source, slots.names), slots.names & set(_BRACED.findall(source))
            else:
                template, used = self._parsed(source, keep_end=as_written)
        except OSError as error:
            raise ManifestError(f"prompt template {name}: cannot read {path} ({error.strerror or error})") from error
        except UnicodeDecodeError as error:
            raise ManifestError(f"prompt template {name}: {path} is not UTF-8 (byte {error.start})") from error
        except TemplateSyntaxError as error:
            raise ManifestError(f"prompt template {name}: {path}, line {error.lineno}: {error.message}") from error
        if unknown := sorted(used - slots.names):
            raise ManifestError(
                f"prompt template {name}: {path} uses {', '.join(unknown)}; it may use {', '.join(sorted(slots.names))}"
            )
        if missing := slots.missing(used):
            raise ManifestError(f"prompt template {name}: {path} must use {{{{ {' }}, {{ '.join(missing)} }}}}")
        return template

    def _parsed(self, source: str, *, keep_end: bool) -> tuple[Template, AbstractSet[str]]:
        """The Jinja template and the variables it uses; ``keep_end``: with the line break it ends in."""
        from jinja2 import meta

        environment = self._environment.overlay(keep_trailing_newline=keep_end)
        template = environment.from_string(source)
        template.globals = dict(template.globals)  # gone through at each rendering, which takes a chain of maps long
        return template, meta.find_undeclared_variables(environment.parse(source))


# ---- other people's words, made safe to stand in a prompt ----------------------------------------------------------


_INVISIBLE = re.compile(
    f"[{IGNORABLE}\x7f-\x9f\u0600-\u0605\u06dd\u070f\u0890\u0891\u08e2\u2028\u2029\ud800-\udfff\ufff9-\ufffb\ufffe\uffff"
    "\U000110bd\U000110cd\U00013430-\U0001343f]"
)
"""Invisible, control, format, separator and surrogate characters beyond those that JSON escapes by itself."""
_TILDES = re.compile("~+")
_SHORTEST_FENCE = 4


def fence(text: str) -> str:
    """The text as one JSON string on one line; decoding it gives the text back. Letters of any script stay readable."""
    return _INVISIBLE.sub(_escaped, json.dumps(text, ensure_ascii=False))


def block(text: str) -> str:
    """The text between two lines of tildes, longer than any run of tildes in it. Blanks at the ends are dropped."""
    clean = without_surrogates(text).strip()
    longest = max(map(len, _TILDES.findall(clean))) if "~" in clean else 0
    line = "~" * max(_SHORTEST_FENCE, longest + 1)
    return f"{line}\n{clean}\n{line}"


def message(*parts: str | Image) -> tuple[str | Image, ...]:
    """Return the parts of a message without empty ones, neighbouring texts as one."""
    joined: list[str | Image] = []
    for part in parts:
        last = joined[-1] if joined else None
        if isinstance(part, str) and isinstance(last, str):
            joined[-1] = f"{last}\n\n{part}" if part else last
        elif part:
            joined.append(part)
    return tuple(joined)


def _escaped(match: re.Match[str]) -> str:
    return json.dumps(match.group())[1:-1]
