"""The page of the method: what each number means, and what a reader needs to check or repeat the run."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson

from layton_batch import __version__
from layton_batch.columns import text_table
from layton_batch.files.atomic import file_digest
from layton_batch.files.run_folder import RunFolder
from layton_batch.scoring.leaderboard import CONDITION, HIERARCHICAL, PAPER, UNCALIBRATED
from layton_batch.site.board import Board, RunSite
from layton_batch.site.pages import HtmlTable, passage, plain_table, short_line
from layton_batch.site.run_tables import frozen_manifest
from layton_batch.site.sent import MOST_SYSTEMS


def write_method_page(site: RunSite, systems: Sequence[str]) -> None:
    """Describe the method from the frozen manifest; only the terms if the manifest cannot be read.

    ``systems``: system texts by number. Raises FileError for a file that cannot be read.
    """
    frozen = frozen_manifest(site.folder)
    manifest, prompts = _table(frozen.get("manifest")), _table(frozen.get("prompts"))
    site.write(
        "method.html",
        terms=_terms(site.board, site.here, has_hints=site.manifest.items is not None),
        models=_shown("Models, as they were asked", _MODEL, map(_model, _tables(manifest.get("models")))),
        judges=_shown("Judges, as they were asked", _MODEL, map(_model, _tables(frozen.get("panel")))),
        revisions=_shown("Revisions of the manifest", _REVISION, map(_revision, _tables(frozen.get("revisions")))),
        prompts=[(short_line(name), shown) for name, text in prompts.items() if (shown := passage(str(text)))],
        hashes=_shown("Files and their SHA-256", ("file", "SHA-256"), _hashes(site.folder)),
        identity=short_line(frozen.get("identity")),
        version=__version__,
        manifest=passage(orjson.dumps(manifest, option=orjson.OPT_INDENT_2).decode()) if manifest else None,
        systems=[passage(text) for text in systems[:MOST_SYSTEMS]],
    )  # fmt: skip


# ---- what the numbers mean -----------------------------------------------------------------------------------------

_METHODS = {
    HIERARCHICAL: "The jury’s votes are corrected by people’s labels in one calculation over all models, which "
    "learns how much a vote means for a better or a weaker model.",
    PAPER: "The published method: the jury’s mean vote, corrected by the mean error on labelled answers.",
    UNCALIBRATED: CONDITION,
}
_OF_RULES = {
    "Right, partly right, wrong": "What the rule says of one answer; its word for a failure stands beside it.",
}
_OF_JURIES = {
    "Right, wrong, split jury": "One answer is right where every judge said yes, wrong where every judge said no, and "
    "split in between.",
    "Disputed by people": "A person says the opposite of the whole jury. The person counts.",
    "Human labels": "People’s verdicts. Own: on the model’s answers in this run. Borrowed: on other answers with the "
    "same votes, which say what a vote is worth.",
    "Family": "Who made a model. A judge never sits on the jury of its own family’s answers.",
}
_OF_ALL = {
    "Abstained, unparsed, missing": "Three things that are never mixed: the model said that it does not know; its "
    "reply could not be read; there is no reply.",
    "Cost": "Tokens that the provider counted, times the price of the day for batches. Unbatched: the same tokens at "
    "the price of single calls. What has no known price is unknown, never 0.",
    "Cost an answer": "What the model’s own answers cost, divided by their number; the jury is not in it.",
}
_BETTER = "The probability that one model’s true score is above another’s, from the same draws as the intervals."
_THIS_SET = (
    "Score, interval, rank range, comparison and charts are for new items of this kind or, with “this set” chosen, for "
    "exactly these items; never one of one and one of the other."
)
_HINTS = "How many of an item’s hints stand in the question that the models were asked."


def _terms(board: Board, here: Board | None, *, has_hints: bool) -> tuple[tuple[str, str], ...]:
    """Return each term of the board with its meaning."""
    how = "A rule grades every answer." if board.by_rule else _METHODS.get(board.method, "")
    boards, with_this_set = [board, here] if here else [board], " With this set chosen: "
    score = f"{board.score_help} {how}".strip()
    meanings = {
        "Score": score,
        **({"This set": _THIS_SET} if here else {}),
        "Intervals": with_this_set.join(shown.meanings[0] for shown in boards),
        "Rank range": with_this_set.join(shown.meanings[1] for shown in boards),
        "Better than": _BETTER,
        **(_OF_RULES if board.by_rule else _OF_JURIES),
        **_OF_ALL,
        "Hints": _HINTS if has_hints and not board.by_rule else "",
    }
    return tuple((term, words) for term, words in meanings.items() if words)


# ---- the frozen manifest -------------------------------------------------------------------------------------------


def _table(value: object) -> Mapping[str, object]:
    return value if isinstance(value, dict) else {}


def _tables(value: object) -> list[Mapping[str, object]]:
    return [part for part in value if isinstance(part, dict)] if isinstance(value, list) else []


def _value(value: object) -> str:
    return short_line(value if isinstance(value, str) else orjson.dumps(value).decode(), 300)


_MODEL = ("name", "provider", "model id", "most output tokens", "settings")
_REVISION = ("no.", "at", "changes", "SHA-256")


def _shown(caption: str, names: Sequence[str], rows: Iterable[Sequence[str]]) -> HtmlTable | None:
    return plain_table(text_table("", names, map(tuple, rows), text=names), caption)


def _model(spec: Mapping[str, object]) -> tuple[str, ...]:
    own = ("name", "provider", "model", "max_output_tokens", "substitute")
    rest = {key: value for key, value in spec.items() if key not in own and value not in ({}, [], None)}
    tokens = spec.get("max_output_tokens")
    return (
        *(short_line(spec.get(name)) for name in own[:3]),
        f"{tokens:,}" if isinstance(tokens, int) else "",
        ", ".join(f"{short_line(key)} {_value(value)}" for key, value in rest.items()) or "as the provider has them",
    )


def _revision(revision: Mapping[str, object]) -> tuple[str, ...]:
    changes = revision.get("changes")
    at = short_line(revision.get("at")).replace("T", " ").replace("Z", " UTC")
    listed = "; ".join(short_line(change, 300) for change in changes) if isinstance(changes, list) else ""
    return short_line(revision.get("number")), at, listed, short_line(revision.get("asked"))


def _hashes(folder: RunFolder) -> Iterator[tuple[str, str]]:
    """Yield path and SHA-256 of the files that the board depends on, in the order of their paths."""
    names = ("items", "scores", "labels", "leaderboard")
    paths = [*folder.root.glob("gold-*"), *folder.root.glob("annotations-*")]
    paths += [path for name in names for path in (folder.tables / name).glob("*.parquet")]
    for path in sorted(path for path in paths if path.is_file()):
        yield short_line(path.relative_to(folder.root)), file_digest(path, str(path)).sha256
