"""The simulated gold set belongs to the answers a run gets, in layton-eval-ppi's form."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest

from layton_batch.sandbox.answerers.profiles import Profiles, bundled_profiles
from layton_batch.sandbox.answerers.questions import Question
from layton_batch.sandbox.answerers.reply_forms import ReplyForm
from layton_batch.sandbox.answerers.riddle_lookup import Riddle
from layton_batch.sandbox.answerers.simulate import SimulateAnswerer
from tools.simulated_gold import (
    BadLineup,
    Contender,
    Lineup,
    lineup_from_manifest,
    lineup_from_profiles,
    load_riddles,
    main,
    seated,
    simulate_gold,
)

SCHEMA: Mapping[str, object] = {"properties": {"justification": {"type": "string"}, "answer": {"type": "string"}}}
VERDICT_SCHEMA: Mapping[str, object] = {"properties": {"is_answer_correct": {}, "is_justification_correct": {}}}
PUBLISHED = ["riddle_id", "provider", "model", "n_hints", "answer", "justification"]
HUMAN = ["human_answer_correct", "human_justification_correct", "human_both_correct"]


def rows_of_riddles(count: int = 60) -> list[dict[str, object]]:
    return [
        {
            "id": f"g-{number}",
            "split": "llm",
            "category": "Logic",
            "picarats": 30,
            "description": f"Riddle {number:03d} asks how many doors there are.",
            "first_hint": f"Hint for {number:03d}.",
            "solution": f"There are {number} doors.",
            "answer": str(number),
            "justification": f"Riddle {number:03d} lists them. So there are {number}.",
        }
        for number in range(count)
    ]


@pytest.fixture
def items_file(tmp_path: Path) -> Path:
    path = tmp_path / "riddles_llm.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows_of_riddles()), encoding="utf-8")
    return path


@pytest.fixture
def items(items_file: Path) -> list[Riddle]:
    return load_riddles([items_file])


def tidy() -> Profiles:
    """The bundled profiles, saying everything in plain JSON: what a run reads back then needs no tolerant reader."""
    bundled = bundled_profiles()
    return Profiles(
        {name: replace(profile, forms={}) for name, profile in bundled.participants.items()},
        {name: replace(profile, forms={}) for name, profile in bundled.judges.items()},
    )


def test_every_row_is_the_answer_and_the_verdicts_of_a_run(items: list[Riddle]) -> None:
    answerer, lineup = SimulateAnswerer(items, 4, tidy()), lineup_from_profiles(tidy())
    rows = {(row["riddle_id"], row["model"]): row for row in simulate_gold(items, answerer, lineup)}
    assert len(rows) == len(items) * len(lineup.models)

    def reply(who: Contender, text: str, schema: Mapping[str, object]) -> dict[str, object]:
        question = Question(who.provider, who.model, "Be fair.", text, (), schema, who.reasoning, None, "c")
        value: dict[str, object] = json.loads(answerer.answer(question).text)
        return value

    for model, riddle in product(lineup.models, items[:15]):
        row = rows[riddle.id, model.name]
        said = reply(model, riddle.description, SCHEMA)
        assert said == {"justification": row["justification"], "answer": row["answer"]}
        shown = "\n".join((riddle.description, riddle.answer, riddle.solution, riddle.justification, json.dumps(said)))
        for judge in seated(lineup.judges, model.family):
            for part, value in reply(judge, shown, VERDICT_SCHEMA).items():
                assert row[f"{part}_{judge.name}"] is value


def test_what_no_reader_can_make_an_answer_of_has_no_row(items: list[Riddle]) -> None:
    mute = replace(tidy().participants["larch-2-large"], forms={ReplyForm.TRUNCATED: 0.5, ReplyForm.REFUSED: 0.5})
    answerer = SimulateAnswerer(items, 0, Profiles({mute.model: mute}, tidy().judges))
    lineup = Lineup([Contender(mute.model, "openai", mute.model, "openai")], lineup_from_profiles(tidy()).judges)
    assert simulate_gold(items, answerer, lineup) == []


def test_rows_have_the_published_columns_in_order(items: list[Riddle]) -> None:
    lineup = lineup_from_profiles(bundled_profiles())
    rows = simulate_gold(items, SimulateAnswerer(items), lineup)
    names = [judge.name for judge in lineup.judges]
    parts = [
        f"{part}_{name}" for part in ("is_answer_correct", "is_justification_correct", "both_correct") for name in names
    ]
    assert all(list(row) == [*PUBLISHED, *parts, *HUMAN] for row in rows)
    assert 0.9 * len(items) * len(lineup.models) < len(rows) <= len(items) * len(lineup.models)


def test_three_judges_sit_and_none_of_the_models_own_family(items: list[Riddle]) -> None:
    lineup = lineup_from_profiles(bundled_profiles())
    providers = {judge.name: judge.provider for judge in lineup.judges}
    for row in simulate_gold(items, SimulateAnswerer(items), lineup):
        sitting = [name for name in providers if row[f"both_correct_{name}"] is not None]
        assert len(sitting) == 3
        assert row["provider"] not in {providers[name] for name in sitting}
        for name in sitting:
            both = row[f"is_answer_correct_{name}"] and row[f"is_justification_correct_{name}"]
            assert row[f"both_correct_{name}"] is both


def test_substitutes_sit_only_where_a_seat_would_stay_empty() -> None:
    def panel(*families: str) -> list[Contender]:
        return [
            Contender(f"{family}{n}", family, "m", family, substitute=family == "s")
            for n, family in enumerate(families)
        ]

    assert [judge.name for judge in seated(panel("s", "a", "b", "c"), "x")] == ["a1", "b2", "c3"]
    assert [judge.name for judge in seated(panel("s", "a", "b", "c"), "a")] == ["b2", "c3", "s0"]
    assert [judge.name for judge in seated(panel("a", "b", "s"), "s")] == ["a0", "b1"]


def test_contested_answers_are_all_labelled_and_a_share_of_the_rest(items: list[Riddle]) -> None:
    rows = simulate_gold(items, SimulateAnswerer(items), lineup_from_profiles(bundled_profiles()), labelled_share=0.35)
    agreed = []
    for row in rows:
        verdicts = {
            (value, row[column.replace("is_answer", "is_justification")])
            for column, value in row.items()
            if column.startswith("is_answer_correct_") and value is not None
        }
        labelled = row["human_both_correct"] is not None
        assert {row[column] is None for column in HUMAN} == {not labelled}
        if len(verdicts) > 1:
            assert labelled
        else:
            agreed.append(labelled)
    assert len(agreed) < len(rows)
    assert 0.28 < sum(agreed) / len(agreed) < 0.42


def test_labels_are_the_truth_but_for_the_stated_noise(items: list[Riddle]) -> None:
    answerer, lineup = SimulateAnswerer(items), lineup_from_profiles(bundled_profiles())
    reasoning = {model.name: model.reasoning for model in lineup.models}
    known = {riddle.id: riddle for riddle in items}

    def errors(label_error: float) -> float:
        rows = simulate_gold(items, answerer, lineup, labelled_share=1, label_error=label_error)
        wrong = 0
        for row in rows:
            name = str(row["model"])
            truth = answerer.participate(name, known[str(row["riddle_id"])], 0, reasoning[name]).span.truth.value
            wrong += (row["human_answer_correct"], row["human_justification_correct"]) != truth
            assert row["human_both_correct"] is (row["human_answer_correct"] and row["human_justification_correct"])
        return wrong / len(rows)

    assert errors(0) == 0
    assert 0.1 < errors(0.1) < 0.3


def test_the_command_writes_the_same_file_every_time_and_leaves_nothing_beside_it(
    items_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new" / "gold.jsonl"
    assert main(["--items", str(items_file), "--out", str(out)]) == 0
    first = out.read_bytes()
    assert main(["--items", str(items_file), "--out", str(out)]) == 0
    assert out.read_bytes() == first
    assert [path.name for path in out.parent.iterdir()] == ["gold.jsonl"]
    assert "rows" in capsys.readouterr().err
    assert main(["--items", str(items_file), "--out", str(out), "--seed", "5", "--hints", "1"]) == 0
    assert out.read_bytes() != first


MANIFEST = """
name = "demo"
task = "layton"
[[models]]
name = "Larch (high)"
provider = "openai"
model = "larch-2-large"
reasoning = "high"
[[models]]
name = "Wagtail"
provider = "together"
model = "wagtail-5"
family = "anthropic"
reasoning = { budget_tokens = 16000 }
[jury]
seats = 2
"""
PANEL = """
[[judges]]
name = "A"
provider = "anthropic"
model = "wagtail-5-referee"
[[judges]]
provider = "gemini"
model = "tern-3-referee"
[[judges]]
provider = "mistral"
model = "sirocco-referee"
substitute = true
"""


@pytest.mark.parametrize("inline", [True, False])
def test_a_manifest_names_models_judges_and_seats(tmp_path: Path, inline: bool) -> None:
    manifest = tmp_path / "demo.toml"
    manifest.write_text(MANIFEST + (PANEL.replace("[[judges]]", "[[jury.judges]]") if inline else 'panel = "p.toml"'))
    (tmp_path / "p.toml").write_text(PANEL)
    assert lineup_from_manifest(manifest) == Lineup(
        [
            Contender("Larch (high)", "openai", "larch-2-large", "openai", "high"),
            Contender("Wagtail", "together", "wagtail-5", "anthropic", 16000),
        ],
        [
            Contender("A", "anthropic", "wagtail-5-referee", "anthropic"),
            Contender("tern-3-referee", "gemini", "tern-3-referee", "gemini"),
            Contender("sirocco-referee", "mistral", "sirocco-referee", "mistral", None, True),
        ],
        2,
    )


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("[[models", "cannot be read"),
        ("x = 1", "no [[models]] found"),
        ('[[models]]\nprovider = "openai"\n[jury]', "needs a provider and a model"),
        ('[[models]]\nprovider = "openai"\nmodel = "m"\n[jury]\nseats = 0', "jury.seats is 0"),
        ('[[models]]\nprovider = "openai"\nmodel = "m"\n[jury]\npanel = "gone.toml"', "gone.toml: cannot be read"),
    ],
)
def test_an_unusable_manifest_is_refused_by_name(tmp_path: Path, items_file: Path, content: str, reason: str) -> None:
    manifest = tmp_path / "demo.toml"
    manifest.write_text(content)
    with pytest.raises(BadLineup) as refusal:
        lineup_from_manifest(manifest)
    assert reason in str(refusal.value)
    out = tmp_path / "gold.jsonl"
    assert main(["--items", str(items_file), "--out", str(out), "--manifest", str(manifest)]) == 2
    assert not out.exists()
