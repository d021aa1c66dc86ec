"""A command's function as Typer's: options from its signature, its document printed, its exit code."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from typer.models import ParameterInfo

from layton_batch.cli.options import Json
from layton_batch.cli.terminal import notes_below, print_json
from layton_batch.errors import ManifestError
from layton_batch.reports.table import Document

_TYPES = (type, types.GenericAlias, types.UnionType)
_FORM = "form"
_SHOWN_AS = "shown_as"
"""The parameter of a function whose work depends on the form in which its document is shown."""


def command(function: Callable[..., Document]) -> Callable[..., None]:
    """Return the function for Typer. Parameters without a Typer annotation are Python's alone."""
    parameters = inspect.signature(function, eval_str=True)
    converses = "conversation" in parameters.parameters  # then the outcome is told while the run is open
    forms = _forms(parameters.return_annotation)
    given = {name: _on_command_line(each) for name, each in parameters.parameters.items()}
    splits = {name: split for name, (_, split) in given.items() if split is not None}

    def call(**arguments: Any) -> None:
        chosen = arguments.pop(_FORM, False)
        form = ("json" if chosen else "table") if isinstance(chosen, bool) else chosen
        if form not in forms:
            raise ManifestError(f"--format {form!r}: must be one of {', '.join(forms)}")
        for name, split in splits.items():
            arguments |= split(arguments.pop(name))
        if converses:
            from layton_batch.cli.conversation import TerminalConversation  # loads what a plan need not

            with_board = not arguments.get("once", False)
            conversation = TerminalConversation(is_quiet=form == "json", with_board=with_board)
            arguments["conversation"] = conversation
        if _SHOWN_AS in parameters.parameters:
            arguments[_SHOWN_AS] = form
        with notes_below():
            document = function(**arguments)
            if not (converses and conversation.has_told_outcome):
                print_document(document, form)
        raise typer.Exit(document.end())

    shown = [parameter for parameter, _ in given.values() if parameter is not None]
    shown += _form_option(forms)
    call.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
    call.__doc__ = (function.__doc__ or "").partition("\f")[0]
    return call


def _forms(document: object) -> tuple[str, ...]:
    """Return the forms of a document's class, or of the first of several classes."""
    kind: type[Document] = (typing.get_args(document) or (document,))[0]
    return kind.FORMATS


def _on_command_line(
    parameter: inspect.Parameter,
) -> tuple[inspect.Parameter | None, Callable[[list[str]], Mapping[str, object]] | None]:
    """Return a parameter as Typer reads it, None if only Python has it; and what splits its words."""
    typed, *metadata = typing.get_args(parameter.annotation) or (parameter.annotation,)
    option = next((info for info in reversed(metadata) if isinstance(info, ParameterInfo)), None)
    if option is None:
        return None, None
    typed = next((entry for entry in reversed(metadata) if isinstance(entry, _TYPES)), typed)
    split = next((entry for entry in metadata if inspect.isfunction(entry)), None)
    may_be_missing = parameter.default is inspect.Parameter.empty and type(None) in typing.get_args(typed)
    default = None if may_be_missing else parameter.default
    annotation = Annotated[typed, option]  # type: ignore[valid-type]
    return (
        parameter.replace(annotation=annotation, default=default, kind=inspect.Parameter.KEYWORD_ONLY),
        split,
    )


def _form_option(forms: tuple[str, ...]) -> list[inspect.Parameter]:
    if len(forms) == 1:
        return []
    if len(forms) == 2:
        return [inspect.Parameter(_FORM, inspect.Parameter.KEYWORD_ONLY, default=False, annotation=Json)]
    kind = Annotated[str, typer.Option("--format", help=" | ".join(forms))]
    return [inspect.Parameter(_FORM, inspect.Parameter.KEYWORD_ONLY, default=forms[0], annotation=kind)]


def print_document(document: Document, form: str) -> None:
    """Print a document on stdout: for a terminal, as JSON, or as another of its forms."""
    if form == "table":
        document.show()
    elif form == "json":
        print_json(document.as_json())
    else:
        sys.stdout.write(document.text(form))
