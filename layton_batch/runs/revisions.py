"""``run.json``: the frozen manifest of now, and every revision of it with what it changed, in plain words."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

import orjson

from layton_batch.clock import iso
from layton_batch.errors import ManifestError
from layton_batch.files.items import digest
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
    request_digest: str,
    new_items: Callable[[], str | None],
    local: Collection[str] = (),
    played: Collection[str] = (),
) -> str:
    """Return the new content of the folder's ``run.json``.

    ``request_digest``: digest of what the manifest and its items ask. ``new_items`` describes the changes of the items
    if that digest is new. ``local``: providers with addresses on this machine. ``played``: providers that a sandbox
    plays.
    """
    document_before = _read_document(folder)
    revisions = list(document_before.get("revisions", ()))  # type: ignore[call-overload]
    frozen = manifest.frozen()
    entry = {"at": iso(at), "asked": request_digest, "manifest": frozen}
    if not revisions:
        revisions.append({"number": 1, "changes": ["the run began"], **entry})
    last = revisions[-1]
    sentences = changes(last["manifest"], manifest)
    if last["asked"] != request_digest and (of_items := new_items()):
        sentences.append(of_items)
    if sentences:
        revisions.append({"number": len(revisions) + 1, "changes": sentences, **entry})
    providers = {
        name: sorted({*map(str, document_before.get(name, ())), *more})  # type: ignore[call-overload]
        for name, more in (("on_this_machine", local), ("made_up", played))
    }
    document = {**frozen, "run_id": run_id, **providers, "revisions": revisions}
    return json.dumps(document, indent=2, ensure_ascii=False)


def item_changes(old: Sequence[Item], new: Sequence[Item]) -> str | None:
    """Describe the changes between two lists of items in a sentence; None: at most their order changed."""
    before, after = ({item.id: digest([item]) for item in items} for items in (old, new))
    both = before.keys() & after.keys()
    counts = {
        "added": len(after.keys() - before.keys()),
        "taken out": len(before.keys() - after.keys()),
        "changed": sum(before[item_id] != after[item_id] for item_id in both),
    }
    counted = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"items: {counted}" if counted else None


def changes(before: Mapping[str, JsonValue], after: Manifest) -> list[str]:
    """Describe the changes of an edit, a sentence each."""
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
    first, second = (manifest.model_dump(mode="json", exclude=_QUIET, exclude_none=True) for manifest in (old, new))
    for table in sorted(first.keys() | second.keys()):
        if first.get(table) != second.get(table):
            yield f"{table} changed"


def _tables(manifest: Manifest, part: str) -> dict[str, object]:
    """Return the models, or the judges, by name and in order."""
    frozen = manifest.frozen()
    held = frozen["panel"] if part == "panel" else frozen["manifest"]["models"]  # type: ignore[index,call-overload]
    return {str(table["name"]): table for table in held}  # type: ignore[union-attr,index,call-overload]


def _named(kind: str, old: Mapping[str, object], new: Mapping[str, object]) -> Iterator[str]:
    yield from (f"{kind} {name} added" for name in new if name not in old)
    yield from (f"{kind} {name} removed" for name in old if name not in new)
    yield from (f"{kind} {name} changed" for name in new if name in old and old[name] != new[name])
    if list(old) != list(new) and old.keys() == new.keys():
        yield f"{kind}s in another order"


def _read_document(folder: RunFolder) -> dict[str, object]:
    try:
        document = orjson.loads(folder.manifest.read_bytes())
    except (OSError, ValueError):
        return {}
    return document if isinstance(document, dict) else {}
