"""Which recorded model a request means: the provider's model id and the reasoning setting against recorded names.

Records name a model as its authors liked: `gpt-5.1-2025-11-13-high` for `gpt-5.1-2025-11-13` at effort high,
`claude-opus-4-5-20251101-thinking-32k` for a budget of 32,000 tokens, `moonshotai-kimi-k2.5-thinking` for
`moonshotai/Kimi-K2.5`. The rule, in this order; the first step that names exactly one record decides:

1. an alias given by the caller, for `model@reasoning` or else for `model`;
2. a record called exactly as the request: `model-<setting>`, or `model` itself;
3. the same with names made alike: lower case, every separator a hyphen, without `preview` and `latest`;
4. a record that begins with the model's name, if nothing follows it but a date and a setting that fits;
5. steps 3 and 4 without the organisation before the last slash.

A setting fits if it is the requested one (`high`; for a budget `thinking-32k`, `32k`, `thinking-32000`; without
reasoning `no-thinking`, `none` or nothing at all) or says nothing of the amount (the bare word `thinking`, or the bare
name). Another setting never fits: an answer given at high effort is not passed off as one at low.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence

_SEPARATORS = re.compile(r"[^0-9a-z.]+")
_DATE = re.compile(r"^(?:\d{4}-\d{2}-\d{2}|\d{8}|\d{4}|\d{2}-\d{4}|\d{2}-\d{2})(?:-|$)")
_UNSAID = frozenset({"preview", "latest"})

Setting = str | int | None


class Ambiguous(LookupError):
    """More than one record fits equally well; the message names them."""


def alike(name: str) -> str:
    """The name in lower case with hyphens for separators and without words that say nothing of the model."""
    return "-".join(part for part in _SEPARATORS.split(name.lower()) if part and part not in _UNSAID)


def settings_of(reasoning: Setting) -> tuple[str, ...]:
    """The endings that record this reasoning setting, best first; the empty one is a bare name."""
    if reasoning is None:
        return ("", "no-thinking", "none", "thinking")
    if isinstance(reasoning, int):
        return _budget_endings(reasoning)
    word = alike(reasoning)
    if word in {"none", "off", "disabled"}:
        return ("no-thinking", "none", "")
    if word in {"default", "enabled", "dynamic"}:
        return ("thinking", "reasoning", "")
    return (word, f"thinking-{word}", "thinking")


def _budget_endings(tokens: int) -> tuple[str, ...]:
    if tokens == 0:
        return ("no-thinking", "none", "")
    if tokens < 0:
        return ("thinking", "reasoning", "")
    rounded = [f"{tokens // size}k" for size in (1000, 1024) if tokens % size == 0]
    amounts = [*rounded, str(tokens)]
    return (*(f"thinking-{amount}" for amount in amounts), *amounts, "thinking")


def resolve(
    model: str, reasoning: Setting, recorded: Sequence[str], aliases: Mapping[str, str] | None = None
) -> str | None:
    """The recorded name meant, or None. Raises Ambiguous where several fit equally well."""
    known = aliases or {}
    for key in (f"{model}@{reasoning}", model):
        if key in known:
            return known[key] if known[key] in recorded else None
    endings = settings_of(reasoning)
    for name in (*(f"{model}-{ending}" for ending in endings if ending), model):
        if name in recorded:
            return name
    base, own = alike(model), alike(model.rpartition("/")[2])
    for wanted in dict.fromkeys((base, own)):
        found = _by_likeness(wanted, endings, recorded)
        if found is not None:
            return found
    return None


def _by_likeness(base: str, endings: Sequence[str], recorded: Sequence[str]) -> str | None:
    rests = {name: rest for name in recorded if base and (rest := _rest(base, alike(name))) is not None}
    for ending in endings:
        exact = [name for name, rest in rests.items() if rest == ending]
        dated = [name for name, rest in rests.items() if _DATE.sub("", rest) == ending]
        for fitting in (exact, dated):
            if fitting:
                return _only(fitting)
    return next((name for name, rest in rests.items() if rest == ""), None)


def _rest(base: str, name: str) -> str | None:
    """What the name says beyond the base; None if it is another model's."""
    if name == base:
        return ""
    return name[len(base) + 1 :] if name.startswith(f"{base}-") else None


def _only(names: Iterable[str]) -> str:
    found = list(names)
    if len(found) > 1:
        raise Ambiguous(f"several records fit: {', '.join(sorted(found))}")
    return found[0]
