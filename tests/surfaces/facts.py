"""Facts of a workspace, by name: what commands, documents and tables say, without any sentence or layout.

Only what the contract of commands and files names is read, and by lists of names: a further column changes no fact.
Names and ids of batches, moments, versions, paths and digests of files are no facts.
"""

from __future__ import annotations

import csv
import hashlib
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import polars as pl

from tests.surfaces.workspaces import Facts, Workspace, plain_amount

STATUS_MONEY = ("spent_usd", "reserved_usd", "unknown_cost_usd")
COUNTS = ("requests", "succeeded", "errored", "expired", "cancelled", "missing", "waiting")
RANKED = ("rank", "rank_best", "rank_worst", "score", "lower", "upper", "half_width")
ROW = ("method", "metric", "n_items", "n_unparsed", "n_missing", "n_unjudged", "n_abstained")
LABELS = ("own_labels", "borrowed_labels", "labels_needed", "rounds", "round_sd")
DIFFERENCE = ("difference", "lower", "upper", "better")
TOKENS = ("requests", "input_tokens", "cached_input_tokens", "output_tokens", "reasoning_tokens")
UNKNOWN = ("unpriced_requests", "unknown_cost_requests", "complete")
MONEY = ("cost_usd", "unbatched_usd", "saved_usd", "unknown_cost_usd")
JUDGE = ("labels", "accuracy", "lower", "upper", "kappa", "leniency")
JURY = ("labels", "majority_accuracy", "bias")
MARKUP = "<script src=frozen"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f]")


def read_facts(place: Workspace, runs: Sequence[str]) -> Facts:
    """Return the facts that were noted while the workspace was built, those of the server, and those of each run."""
    facts = dict(place.facts)
    facts["control characters printed"] = len(CONTROL.findall(place.printed))
    for name, tally in (("asked", place.ledger.asked), ("billed", place.ledger.billed)):
        facts |= {f"server/{name}/{model}": rows for model, rows in tally.items()}
    facts |= {f"server/billed tokens/{kind}": tokens for kind, tokens in place.ledger.tokens.items()}
    for run in runs:
        facts |= {f"{run}/{name}": value for name, value in _facts_of(place, run).items()}
    return {name: facts[name] for name in sorted(facts)}


def _facts_of(place: Workspace, run: str) -> Facts:
    facts = _status(place.document("status", run, "--json"))
    rows = place.document("leaderboard", run, "--format", "json")
    facts |= _board("new items", rows, (*RANKED, *ROW, *LABELS))
    for metric in place.metrics:
        others = place.document("leaderboard", run, "--metric", metric, "--format", "json")
        facts |= _board(f"new items by {metric}", others, RANKED)
    facts |= _board("this set", place.document("leaderboard", run, "--this-set", "--format", "json"), RANKED)
    # which of several rounds is the first one depends on the order of batches
    facts |= _comparison(place, run, [row for row in rows if row["rounds"] is None])
    bill = place.document("cost", run, "--format", "json")
    facts |= {f"cost/{name}": bill["total"][name] for name in (*TOKENS, *UNKNOWN)}
    facts |= {f"cost/{name}": plain_amount(bill["total"][name]) for name in MONEY}
    for row in bill["rows"]:
        name = f"cost/{row['stage']}/{row['model']}"
        facts |= {f"{name}/{column}": row[column] for column in TOKENS}
        facts[f"{name}/cost_usd"] = plain_amount(row["cost_usd"])
    tables = place.folder / "runs" / run / "tables"
    facts |= _predictions(tables)
    if (tables / "verdicts").is_dir():
        facts |= _verdicts(tables) | _judges(place.document("judges", run, "--json")) | _exported(place, run)
    facts |= _hostile(place, run)
    facts["exit/verify"] = place.call("verify", run)[0]
    return facts


def _status(status: Mapping[str, Any]) -> Facts:
    facts: Facts = {"status/state": status["state"]}
    facts |= {f"status/{name}": plain_amount(status[name]) for name in STATUS_MONEY}
    counts: Counter[str] = Counter()
    for job in status["jobs"]:
        counts.update({f"requests/{job['role']}/{job['model']}/{name}": job[name] for name in COUNTS})
    ends = Counter(f"batches/{batch['state']}/{batch['outcome']}" for batch in status["batches"])
    return facts | dict(counts) | dict(ends)


def _entrant(row: Mapping[str, Any]) -> str:
    return f"{row['model']}@{row['n_hints']}" if row["n_hints"] else str(row["model"])


def _board(target: str, rows: Iterable[Mapping[str, Any]], columns: Sequence[str]) -> Facts:
    return {f"board of {target}/{_entrant(row)}/{name}": row[name] for row in rows for name in columns}


def _comparison(place: Workspace, run: str, rows: Iterable[Mapping[str, Any]]) -> Facts:
    facts: Facts = {}
    names = {_entrant(row): f"{row['provider']}/{row['model']}@{row['n_hints']}" for row in rows}
    entrants = sorted(names)
    for first, second in itertools.pairwise(entrants):
        one, other = names[first], names[second]
        for row in place.document("compare", run, one, other, "--format", "json")["standings"]:
            name = f"comparison of {row['target']}/{first} and {second}"
            facts |= {f"{name}/{column}": row[column] for column in DIFFERENCE}
    return facts


def _table(tables: Path, name: str) -> pl.DataFrame:
    return pl.concat([pl.read_parquet(path) for path in sorted((tables / name).glob("*.parquet"))])


def _tally(name: str, table: pl.DataFrame, columns: Sequence[str]) -> Facts:
    rows = Counter("/".join(map(str, row)) for row in table.select(columns).iter_rows())
    return {f"{name}/{row}": count for row, count in rows.items()}


def _predictions(tables: Path) -> Facts:
    table = _table(tables, "predictions")
    table = table.with_columns(hints=pl.format("{} hints", "n_hints"))
    return _tally("predictions", table, ("model", "hints", "kind")) | _tally("ends", table, ("model", "finish_reason"))


def _verdicts(tables: Path) -> Facts:
    """Count verdicts by judge and model; a verdict that could not be read is neither true nor false."""
    table = _table(tables, "verdicts")
    return {
        name: count
        for metric in ("is_answer_correct", "is_justification_correct", "both_correct")
        for name, count in _tally(f"verdicts/{metric}", table, ("judge", "model", metric)).items()
    }


def _judges(document: Mapping[str, Any]) -> Facts:
    facts: Facts = {}
    for judge in document["judges"]:
        facts |= {f"judges/{judge['judge']}/{name}": judge["report"][name] for name in JUDGE}
    if document["jury"] is not None:
        facts |= {f"jury/{name}": document["jury"][name] for name in JURY}
    facts |= {f"jury/answers with {b['yes']} of {b['total']}/labels": b["labels"] for b in document["bins"]}
    facts |= {f"jury/answers with {b['yes']} of {b['total']}/right": b["positives"] for b in document["bins"]}
    return facts


def _exported(place: Workspace, run: str) -> Facts:
    """Write every answer in layton-eval's form: rows, and a digest of what was answered, judged and labelled."""
    code, _ = place.call("export", run, "--to", "ppi", "--out", f"{run}.jsonl")
    lines = (place.folder / f"{run}.jsonl").read_text(encoding="utf-8").splitlines() if code == 0 else []
    rows = [json.loads(line) for line in lines]
    judged = ("is_answer_correct_", "is_justification_correct_", "human_")
    texts = sorted(
        json.dumps({name: row.get(name) for name in sorted(row) if name in EXPORTED or name.startswith(judged)})
        for row in rows
    )
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
    return {"exit/export": code, "export/rows": len(rows), "export/digest of texts": digest}


EXPORTED = ("riddle_id", "model", "n_hints", "answer", "justification")


def _hostile(place: Workspace, run: str) -> Facts:
    """Count the places in which a model's text would be run by a browser or a spreadsheet."""
    folder = place.folder / "runs" / run / "site"
    pages = [path for path in folder.rglob("*") if path.suffix in (".html", ".svg")]
    code, _ = place.call("export", run, "--to", "csv", "--out", f"{run}-csv")
    cells = [
        cell
        for path in (place.folder / f"{run}-csv").glob("*.csv")
        for row in csv.reader(path.read_text(encoding="utf-8").splitlines())
        for cell in row
    ]
    return {
        "pages with markup of a model": sum(MARKUP in path.read_text(encoding="utf-8") for path in pages),
        "cells that are formulas": sum(cell.startswith("=") for cell in cells),
        "cells with text of a model": sum(MARKUP in cell for cell in cells),
        "cells with control characters": sum(CONTROL.search(cell) is not None for cell in cells),
        "exit/export csv": code,
    }
