"""A gold set for the simulated models: their answers, the simulated judges' verdicts, and people's labels.

The rows have the form of layton-eval-ppi. Answers and verdicts are those the simulation gives in a run with the same
seed, so the labels belong to exactly those answers. People are simulated too: they know the truth and err rarely; they
label every answer the jury disagrees on and a seeded share of the rest. Replies that no reader can make an answer of
have no row.

    python -m tools.simulated_gold --items riddles_llm.jsonl --out gold_llm.jsonl [--manifest demo.toml]

Without a manifest the models and judges are those of `profiles.toml`, each under its model id; with one they are the
manifest's, under its names and with its reasoning settings.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from layton_batch.sandbox.answerers.profiles import Profiles, bundled_profiles
from layton_batch.sandbox.answerers.reply_forms import ReplyForm
from layton_batch.sandbox.answerers.riddle_lookup import Riddle, UnreadableRows, is_riddle, read_rows, riddle_from
from layton_batch.sandbox.answerers.seeded_draws import draw
from layton_batch.sandbox.answerers.simulate import SimulateAnswerer

GoldRow = dict[str, object]
_Verdicts = Mapping[str, tuple[bool, bool]]

READABLE = frozenset({ReplyForm.PLAIN, ReplyForm.FENCED, ReplyForm.PROSE, ReplyForm.SLIP})
"""The forms of a reply of which a tolerant reader gets the whole content."""

LABELLED_SHARE = 0.35
"""Of the answers the jury agrees on; of the others all are labelled."""
LABEL_ERROR = 0.01
"""How often a person's decision on an answer, or on a justification, is not the truth."""
SEATS = 3


class BadLineup(ValueError):
    """A manifest whose models or judges cannot be read; the message names the file and the reason."""


@dataclass(frozen=True, slots=True)
class Contender:
    """A model as it is run: `name` is what rows call it, `family` what recusal goes by."""

    name: str
    provider: str
    model: str
    family: str
    reasoning: str | int | None = None
    substitute: bool = False


@dataclass(frozen=True, slots=True)
class Lineup:
    """Who plays and who judges; `judges` in the panel's order."""

    models: Sequence[Contender]
    judges: Sequence[Contender]
    seats: int = SEATS


def lineup_from_profiles(profiles: Profiles) -> Lineup:
    """Everyone in the profiles, each named by its model id, in the profiles' order."""
    models, judges = profiles.participants.values(), profiles.judges.values()
    return Lineup(
        [Contender(p.model, p.provider, p.model, p.family or p.provider, p.reasoning) for p in models],
        [Contender(p.model, p.provider, p.model, p.family or p.provider, None, p.substitute) for p in judges],
    )


def simulate_gold(
    items: Sequence[Riddle],
    answerer: SimulateAnswerer,
    lineup: Lineup,
    *,
    n_hints: int = 0,
    seed: int = 0,
    labelled_share: float = LABELLED_SHARE,
    label_error: float = LABEL_ERROR,
) -> list[GoldRow]:
    """One row for each model and item with a readable answer. `seed` is the labels', the answers' is the answerer's.

    A judge that was recused, or had no seat, is null in the row; so are the labels of an answer nobody labelled.
    """
    rows = []
    for model in lineup.models:
        jury = seated(lineup.judges, model.family, lineup.seats)
        for riddle in items:
            said = answerer.participate(model.model, riddle, min(n_hints, len(riddle.hints)), model.reasoning)
            if said.form not in READABLE:
                continue
            verdicts = {judge.name: answerer.verdict(judge.model, riddle.id, said.span) for judge in jury}
            key = (seed, model.name, riddle.id)
            chosen = _contested(verdicts) or draw("labelled", *key) < labelled_share
            label = _label(said.span.truth.value, label_error, key) if chosen else None
            row: GoldRow = {"riddle_id": riddle.id, "provider": model.provider, "model": model.name, "n_hints": n_hints}
            row |= {"answer": said.answer, "justification": said.justification}
            rows.append(row | _decisions([judge.name for judge in lineup.judges], verdicts, label))
    return rows


def seated(judges: Sequence[Contender], family: str, seats: int = SEATS) -> list[Contender]:
    """The panel in order without the family's own judges; substitutes only in seats that would stay empty."""
    free = [judge for judge in judges if judge.family != family]
    regular = [judge for judge in free if not judge.substitute]
    return (regular + [judge for judge in free if judge.substitute])[:seats]


def _contested(verdicts: _Verdicts) -> bool:
    """Whether the jury disagrees on the answer or on the justification."""
    return len(set(verdicts.values())) > 1


def _label(truth: tuple[bool, bool], error: float, key: tuple[object, ...]) -> tuple[bool, bool]:
    on_answer, on_justification = (
        part is not (draw("label", name, *key) < error)
        for name, part in zip(("answer", "justification"), truth, strict=True)
    )
    return on_answer, on_justification


def _decisions(judges: Sequence[str], verdicts: _Verdicts, label: tuple[bool, bool] | None) -> GoldRow:
    row: GoldRow = {}
    row |= {f"is_answer_correct_{judge}": verdicts[judge][0] if judge in verdicts else None for judge in judges}
    row |= {f"is_justification_correct_{judge}": verdicts[judge][1] if judge in verdicts else None for judge in judges}
    row |= {f"both_correct_{judge}": all(verdicts[judge]) if judge in verdicts else None for judge in judges}
    return row | {
        "human_answer_correct": label and label[0],
        "human_justification_correct": label and label[1],
        "human_both_correct": label and all(label),
    }


def lineup_from_manifest(manifest: Path) -> Lineup:
    """Who plays and judges by a run's manifest; its panel may be in a file beside it. Raises BadLineup."""
    tables = _toml(manifest)
    jury = tables.get("jury")
    jury = jury if isinstance(jury, dict) else {}
    panel, seats = jury.get("panel"), jury.get("seats", SEATS)
    if not isinstance(seats, int) or seats < 1:
        raise BadLineup(f"{manifest}: jury.seats is {seats!r}, not a number of seats")
    judges = _toml(manifest.parent / panel) if isinstance(panel, str) else jury
    return Lineup(_contenders(tables, "models", manifest), _contenders(judges, "judges", manifest), seats)


def _toml(path: Path) -> Mapping[str, object]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BadLineup(f"{path}: cannot be read ({error})") from error


def _contenders(holder: Mapping[str, object], name: str, manifest: Path) -> list[Contender]:
    found = holder.get(name)
    if not isinstance(found, list) or not found or not all(isinstance(entry, dict) for entry in found):
        raise BadLineup(f"{manifest}: no [[{name}]] found")
    return [_contender(entry, manifest) for entry in found]


def _contender(entry: Mapping[str, object], manifest: Path) -> Contender:
    provider, model = entry.get("provider"), entry.get("model")
    if not isinstance(provider, str) or not isinstance(model, str):
        raise BadLineup(f"{manifest}: {dict(entry)} needs a provider and a model")
    reasoning = entry.get("reasoning")
    if isinstance(reasoning, dict):
        reasoning = reasoning.get("budget_tokens")
    return Contender(
        name=str(entry.get("name", model)),
        provider=provider,
        model=model,
        family=str(entry.get("family", provider)),
        reasoning=reasoning if isinstance(reasoning, str | int) else None,
        substitute=entry.get("substitute") is True,
    )


def write_rows(rows: Iterable[GoldRow], out: Path) -> None:
    """As JSONL, whole or not at all."""
    out.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=out.parent, prefix=f".{out.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8", newline="\n") as file:
            file.writelines(_lines(rows))
            file.flush()
            os.fsync(file.fileno())
        Path(name).chmod(0o644)
        Path(name).replace(out)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _lines(rows: Iterable[GoldRow]) -> Iterator[str]:
    return (json.dumps(row, ensure_ascii=False) + "\n" for row in rows)


def load_riddles(paths: Iterable[Path]) -> list[Riddle]:
    """Every riddle of the JSONL files. Raises UnreadableRows at the first line that is not one."""
    found = []
    for path in paths:
        for number, row in read_rows(path):
            if not is_riddle(row):
                raise UnreadableRows(f"{path}, line {number}: not a riddle, columns id and description are needed")
            found.append(riddle_from(row))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.simulated_gold", description="write a simulated gold set")
    parser.add_argument("--items", type=Path, nargs="+", required=True, help="riddles, JSONL in the published columns")
    parser.add_argument("--out", type=Path, required=True, help="the file to write, JSONL in layton-eval-ppi's form")
    parser.add_argument("--manifest", type=Path, help="take models and judges from this manifest")
    parser.add_argument("--hints", type=int, default=0, help="hints shown to the models (default: 0)")
    parser.add_argument("--seed", type=int, default=0, help="the sandbox's seed (default: 0)")
    options = parser.parse_args(arguments)
    try:
        items = load_riddles(options.items)
        lineup = (
            lineup_from_manifest(options.manifest) if options.manifest else lineup_from_profiles(bundled_profiles())
        )
    except (UnreadableRows, BadLineup) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    answerer = SimulateAnswerer(items, options.seed)
    rows = simulate_gold(items, answerer, lineup, n_hints=options.hints, seed=options.seed)
    write_rows(rows, options.out)
    labelled = sum(row["human_both_correct"] is not None for row in rows)
    sys.stderr.write(f"{options.out}: {len(rows)} rows, {labelled} labelled\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
