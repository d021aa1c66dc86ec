"""``run.json``: the frozen manifest of now, and every revision of it with what it changed, in plain words."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import orjson

from layton_batch.clock import iso
from layton_batch.errors import ManifestError
from layton_batch.files.item_list import digest
from layton_batch.files.run_folder import RunFolder
from layton_batch.manifest.manifest import Manifest
from layton_batch.records import Item, JsonValue

_QUIET = {"models", "items", "name", "prompts"}
"""Tables of a manifest of which more is said than their name."""


def run_json(
    folder: RunFolder,
    run_id: str,
    manifest: Manifest,
    at: float,
    asked: str,
    new_items: Callable[[], str | None],
    local: Collection[str] = (),
    played: Collection[str] = (),
) -> str:
    """What the folder's ``run.json`` is to hold. ``asked``: the digest of what the manifest and its items ask;
    ``new_items``: what changed of the items, where that is another than the last revision's; ``local``: the providers
    whose addresses are on this machine; ``played``: the ones that a sandbox plays."""
    known = _known(folder)
    revisions = list(known.get("revisions", ()))  # type: ignore[call-overload]
    frozen = manifest.frozen()
    entry = {"at": iso(at), "asked": asked, "manifest": frozen}
    if not revisions:
        revisions.append({"number": 1, "changes": ["the run began"], **entry})
    last = revisions[-1]
    said = changes(last["manifest"], manifest)
    if last["asked"] != asked and (of_items := new_items()):
        said.append(of_items)
    if said:
        revisions.append({"number": len(revisions) + 1, "changes": said, **entry})
    providers = {
        name: sorted({*map(str, known.get(name, ())), *more})  # type: ignore[call-overload]
        for name, more in (("on_this_machine", local), ("made_up", played))
    }
    told = {**frozen, "run_id": run_id, **providers, "revisions": revisions}
    return json.dumps(told, indent=2, ensure_ascii=False)


def item_changes(old: Sequence[Item], new: Sequence[Item]) -> str | None:
    """What another list of items changed, in a sentence; None: nothing but their order."""
    before, after = ({item.id: digest([item]) for item in items} for items in (old, new))
    both = before.keys() & after.keys()
    counts = {
        "added": len(after.keys() - before.keys()),
        "taken out": len(before.keys() - after.keys()),
        "changed": sum(before[item_id] != after[item_id] for item_id in both),
    }
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"items: {said}" if said else None


def changes(before: Mapping[str, JsonValue], after: Manifest) -> list[str]:
    """What an edit changed, a sentence each; empty: nothing."""
    try:
        old = Manifest.from_frozen(json.dumps(before))
    except ManifestError:
        return ["the manifest (its earlier form cannot be read)"]
    return list(_changes(old, after))


def _changes(old: Manifest, new: Manifest) -> Iterator[str]:
    yield from _named("model", _tables(old, "models"), _tables(new, "models"))
    yield from _named("judge", _tables(old, "panel"), _tables(new, "panel"))
    yield from _named("prompt", old.prompt_texts, new.prompt_texts)
    was, now = old.items.model_dump(mode="json"), new.items.model_dump(mode="json")
    yield from (f"items: {key} was {was[key]!r}, is {now[key]!r}" for key in was if was[key] != now[key])
    first, second = (one.model_dump(mode="json", exclude=_QUIET, exclude_none=True) for one in (old, new))
    for table in sorted(first.keys() | second.keys()):
        if first.get(table) != second.get(table):
            yield f"{table} changed"


def _tables(manifest: Manifest, part: str) -> dict[str, object]:
    """The models, or the judges, by name and in order."""
    frozen = manifest.frozen()
    held = frozen["panel"] if part == "panel" else frozen["manifest"]["models"]  # type: ignore[index,call-overload]
    return {str(one["name"]): one for one in held}  # type: ignore[union-attr,index,call-overload]


def _named(kind: str, old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    yield from (f"{kind} {name} added" for name in new if name not in old)
    yield from (f"{kind} {name} removed" for name in old if name not in new)
    yield from (f"{kind} {name} changed" for name in new if name in old and old[name] != new[name])
    if list(old) != list(new) and old.keys() == new.keys():
        yield f"{kind}s in another order"


def _known(folder: RunFolder) -> dict[str, object]:
    try:
        told = orjson.loads(folder.manifest.read_bytes())
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}
