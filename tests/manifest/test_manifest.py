"""Manifests: the form of the file, and every mistake in one named at once."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from layton_batch.errors import ManifestError
from layton_batch.manifest.checks import load_manifest
from layton_batch.records import Reasoning
from tests.support.manifest_texts import FULL, HEAD, ITEMS, JUDGE, MINIMAL, MODEL, load, write


def complaints(tmp_path: Path, text: str) -> list[str]:
    """The lines of the error, without the file's name, which each must begin with."""
    path = write(tmp_path, text)
    with pytest.raises(ManifestError) as caught:
        load_manifest(path)
    lines = str(caught.value).split("\n")
    assert all(line.startswith(f"{path}: ") for line in lines)
    return [line.removeprefix(f"{path}: ") for line in lines]


# ---- what a manifest says ------------------------------------------------------------------------------------------


def test_every_key_of_the_form_is_read(tmp_path: Path) -> None:
    found = load(tmp_path, FULL)
    assert (found.items.hints, found.items.limit, found.items.split) == (4, 20, "llm")
    assert found.gold is not None
    assert found.gold.source.endswith("ppi_llm.jsonl")
    assert (found.scoring.method, found.scoring.metric, found.scoring.level, found.scoring.seed) == (
        "paper", "answer_correct", 0.95, 7,
    )  # fmt: skip
    assert found.budget.max_usd == Decimal("200.1")
    assert (found.policy.attempts, found.policy.reask_unparsed, found.policy.reask_truncated) == (2, 1, 1)
    assert found.policy.deadline_hours == 48
    claude, kimi = found.model_specs()
    assert (claude.family, claude.max_output_tokens, claude.reasoning) == ("Anthropic", 40000, Reasoning(None, 32000))
    assert claude.params == {"temperature": 0, "stop": ["x"], "deep": {"on": True}}
    assert (kimi.model, kimi.family, kimi.reasoning) == ("moonshotai/Kimi-K2.5", "moonshotai", Reasoning("high"))
    assert [(judge.model.name, judge.substitute) for judge in found.panel()] == [("one", False), ("two", True)]
    assert found.seats == 2
    (price,) = found.prices
    assert (price.input, price.output, price.cached_input, price.batch_input, price.batch_output) == (
        Decimal("0.5"), Decimal("2.8"), Decimal(0), Decimal(1), None,
    )  # fmt: skip
    assert (price.source, price.date) == ("the provider's page", "2026-11-01")


# ---- what is wrong with one ----------------------------------------------------------------------------------------


PRICE = '[[prices]]\nprovider = "{}"\nmodel = "x"\ninput = {}\noutput = 1\n'
MISTAKES: list[tuple[str, str]] = [
    (MINIMAL.replace("task =", "taks ="), "taks: unknown key; did you mean 'task'?"),
    (MINIMAL + "reasoning = {budget = 1}", "models[0].reasoning.budget: unknown key; did you mean 'budget_tokens'?"),
    (HEAD + ITEMS + "zzz = 1", "items.zzz: unknown key (known: source, split, hints, limit)"),
    (HEAD + ITEMS + MODEL.replace("[[models]]", "[models]"), "models:"),
    (MINIMAL + 'api_key = "sk-1"', "models[0].api_key:"),
    (MINIMAL.replace(HEAD, 'task = "layton"\n'), "name:"),
    (MINIMAL.replace('"run-1"', '"a/b"'), "name: must be 1 to 64 letters"),
    (MINIMAL.replace('"layton"', '"laytn"'), "task: unknown task 'laytn'; did you mean 'layton'?"),
    (MINIMAL.replace("openai", "opnai"), "models[0].provider: unknown provider 'opnai'; did you mean 'openai'?"),
    (MINIMAL + MODEL, "models: 'm' is there twice"),
    (MINIMAL + JUDGE + JUDGE, "jury.judges: 'j' is there twice"),
    (MINIMAL.replace('"m"', '"a\\u0007b"'), "models[0].name: must not contain control or invisible characters"),
    (MINIMAL.replace('"m"', '"a\\u202eb"'), "models[0].name: must not contain control or invisible characters"),
    (MINIMAL.replace('"m"', '"' + "a" * 201 + '"'), "models[0].name: must be at most 200 characters"),
    (MINIMAL + "max_output_tokens = 0", "models[0].max_output_tokens:"),
    (MINIMAL + 'window = "a day"', "models[0].window:"),
    (MINIMAL + 'reasoning = "hihg"', "models[0].reasoning.effort:"),
    (MINIMAL + 'reasoning = { effort = "low", budget_tokens = 5 }', "models[0].reasoning: needs either"),
    (
        MINIMAL + "max_output_tokens = 5\nreasoning = { budget_tokens = 5 }",
        "models[0]: max_output_tokens (5) must leave",
    ),
    (MINIMAL + "params = { temperature = nan }", "models[0].params: must not contain NaN"),
    (MINIMAL + 'params = { api_key = "s" }', "models[0].params: must not hold 'api_key'"),
    (MINIMAL.replace(ITEMS, ITEMS + "hints = 5\n"), "items.hints: must be a whole number from 0 to 4"),
    (MINIMAL.replace(ITEMS, ITEMS + "limit = 0\n"), "items.limit:"),
    (MINIMAL.replace(ITEMS, ITEMS + 'split = "xlm"\n'), "split 'xlm': the layton task has llm, vlm"),
    (MINIMAL.replace("items.jsonl", "https://me:pw@host/x"), "items.source: must not hold a user or password"),
    (MINIMAL + "[gold]\n", "gold: has neither source nor annotations"),
    (MINIMAL + '[scoring]\nmetric = "both"', "scoring.metric: 'both' is not one of both_correct, answer_correct,"),
    (MINIMAL + '[scoring]\nmethod = "paper"\nlevel = 0.9', "scoring.level: the paper's method has its own"),
    (MINIMAL + "[budget]\nmax_usd = -0.01", "budget.max_usd:"),
    (MINIMAL + "[budget]\nmax_usd = nan", "budget.max_usd:"),
    (MINIMAL + "[policy]\nattempts = 0", "policy.attempts:"),
    (MINIMAL + '[jury]\npanel = "p.toml"', "jury.panel: no panel file"),
    (MINIMAL + '[jury]\npanel = "p.toml"\n' + JUDGE, "jury: has both a panel file and judges of its own"),
    (MINIMAL + JUDGE.replace("gemini", "openai"), "models[0]: no judge may sit for 'm'"),
    (MINIMAL + '[prompts]\njudge_system = "gone.txt"', "prompts.judge_system: cannot read gone.txt"),
    (MINIMAL + PRICE.format("openai", -1), "prices[0].input:"),
    (MINIMAL + 2 * PRICE.format("groq", 1), "prices: 'groq x' is there twice"),
    ('source = "C:\\Users"', "not TOML:"),
    (MINIMAL + "x = " + "[" * 100_000, "not TOML"),
]


@pytest.mark.parametrize(("text", "complaint"), MISTAKES, ids=range(len(MISTAKES)))
def test_a_mistake_is_named_with_its_key_and_reason(tmp_path: Path, text: str, complaint: str) -> None:
    assert any(line.startswith(complaint) for line in complaints(tmp_path, text)), complaints(tmp_path, text)


def test_no_value_that_may_be_a_secret_is_repeated(tmp_path: Path) -> None:
    text = MINIMAL + 'api_key = "sk-secret"\ntoken = "sk-secret"\nparams = { Authorization = "sk-secret" }\n'
    assert "sk-secret" not in "\n".join(complaints(tmp_path, text))


@pytest.mark.parametrize(
    ("params", "place"),
    [
        ('{ extra_headers = { Authorization = "x" } }', "extra_headers.Authorization"),
        ('{ extra_headers = { "X-Goog-Api-Key" = "x" } }', "extra_headers.X-Goog-Api-Key"),
        ('{ metadata = { apiKey = "x" } }', "metadata.apiKey"),
        ('{ a = [{ b = [{ "openai-API-key" = 5 }] }] }', "a.0.b.0.openai-API-key"),
        ('{ password = "x" }', "password"),
        ('{ clientSecret = "x" }', "clientSecret"),
        ('{ access-token = "x" }', "access-token"),
        ('{ headers = [["h", "Bearer abcdef123"]] }', "headers.0.1"),
        ('{ properties = { password = "x" } }', "properties.password"),
    ],
)
def test_secrets_at_any_depth_of_params_are_refused(tmp_path: Path, params: str, place: str) -> None:
    for text in (MINIMAL + f"params = {params}", MINIMAL + f"[task_options]\nx = {params}"):
        told = place if "task_options" not in text else f"x.{place}"
        assert any(f"must not hold '{told}'" in line for line in complaints(tmp_path, text)), text


def test_what_only_sounds_like_a_secret_is_none(tmp_path: Path) -> None:
    form = '{ type = "object", properties = { password = { type = "string" }, api_key = { type = "string" } } }'
    params = (
        "max_tokens = 5, max_completion_tokens = 5, logit_bias = { 50256 = -100 }, stop_token = 'x', eos_token_id = 5, "
        "prompt_cache_key = 'x', top_logprobs = 1, safety_identifier = 'x', key = 'x', keys = ['a'], "
        "secretary = 'x', authorizations = 1, metadata = { key = 'a', tokens = 5, note = 'the bearer of news' }, "
        "user = 'Basic arithmetic', "
        f"response_format = {{ schema = {form} }}, parts = {{ '$defs' = {{ Credentials = {form} }} }}"
    )
    assert load(tmp_path, MINIMAL + f"params = {{ {params} }}").models[0].params["max_tokens"] == 5


def test_mistakes_in_a_panel_file_name_that_file(tmp_path: Path) -> None:
    text = MINIMAL + '[jury]\npanel = "p.toml"\n'
    judge = '[[judges]]\nname = "j"\nprovider = "groq"\nmodel = "x"\n'
    for panel, complaint in (
        ("judge = 1", "p.toml: judge: unknown key"),
        ("judges = []", "p.toml: judges: "),
        (judge + "sustitute = true", "p.toml: judges[0].sustitute: unknown key; did you mean 'substitute'?"),
        (judge.replace("groq", "grok"), "p.toml: judges[0].provider: unknown provider 'grok'; did you mean 'groq'?"),
        (judge + judge, "p.toml: judges: 'j' is there twice"),
        ("[[", "p.toml: not TOML"),
    ):
        write(tmp_path, panel, "p.toml")
        with pytest.raises(ManifestError) as caught:
            load(tmp_path, text)
        assert complaint in str(caught.value)


def test_a_file_that_cannot_be_read_is_an_error_that_names_it(tmp_path: Path) -> None:
    with pytest.raises(ManifestError, match=r"gone\.toml: cannot be read \(No such file"):
        load_manifest(tmp_path / "gone.toml")
    with pytest.raises(ManifestError, match=r"cannot be read \(Is a directory"):
        load_manifest(tmp_path)
    path = tmp_path / "latin.toml"
    path.write_bytes(b'name = "caf\xe9"')
    with pytest.raises(ManifestError, match=r"latin\.toml: not UTF-8 \(byte 12\)"):
        load_manifest(path)
