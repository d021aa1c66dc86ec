"""What the table of models makes of a manifest: refused where it is sure to fail, told where it may."""

from __future__ import annotations

from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from layton_batch import model_table
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.form import ModelTable
from layton_batch.manifest.model_checks import ModelFindings, check_models
from layton_batch.settings import Settings
from tests.support.manifest_texts import HEAD, ITEMS, load
from tests.support.manual_clock import ManualClock
from tests.support.paths import ROOT

SHIPPED = ROOT / "manifests"
TODAY = date(2026, 11, 22)
JURY = '[jury]\nseats = 1\n[[jury.judges]]\nname = "j"\nprovider = "{}"\nmodel = "{}"\n'
JUDGE_ON_SALE = JURY.format("mistral", "mistral-large-2512")
OTHER = '[[jury.judges]]\nname = "k"\nprovider = "gemini"\nmodel = "gemini-3.1-pro-preview"\nsubstitute = true\n'


def clock(day: date) -> ManualClock:
    return ManualClock(datetime(day.year, day.month, day.day, 12, tzinfo=UTC).timestamp())


def model(provider: str, name: str, settings: str = "", shown: str = "m") -> str:
    return f'[[models]]\nname = "{shown}"\nprovider = "{provider}"\nmodel = "{name}"\n{settings}\n'


def found(
    folder: Path, models: str, *, day: date = TODAY, jury: str = JUDGE_ON_SALE + OTHER, **environment: str
) -> ModelFindings:
    manifest = load(folder, HEAD + ITEMS + models + jury)
    return check_models(manifest, Settings.from_environment(environment, folder), clock(day))


# ---- every fact ----------------------------------------------------------------------------------------------------

REFUSED: list[tuple[str, str, str, tuple[str, ...]]] = [
    ("gemini", "gemini-3-pro-preview", "", ("2026-03-09", "gemini-3.1-pro-preview")),
    ("openai", "gpt-4-turbo", "", ("2026-10-23", "gpt-5.6-sol")),
    ("xai", "grok-3", "", ("2026-05-15", "grok-4.3")),
    ("together", "zai-org/GLM-5", "", ("not run as a batch", "Together's documentation")),
    ("openrouter", "openai/gpt-4o-mini:batch", "", ("not run as a batch", "third party: ")),
    ("openai", "gpt-6.1-sol", 'reasoning = "none"', ("low, medium, high, xhigh, max",)),
    ("gemini", "gemini-3.1-pro-preview", 'reasoning = "minimal"', ("low, medium, high",)),
    ("anthropic", "claude-opus-4-7", "reasoning = { budget_tokens = 4000 }", ("budget_tokens", "set it to one of")),
    ("anthropic", "claude-opus-4-8", "params = { temperature = 1 }", ("params.temperature", "2026-10-21")),
    ("anthropic", "claude-opus-4-8", "params = { top_k = 1 }", ("params.top_k", "2026-10-21")),
    ("gemini", "gemini-3.1-pro-preview", "max_output_tokens = 70000", ("65,536", "70,000")),
]
"""Models and settings that are sure to fail, and the facts that a refusal gives."""


@pytest.mark.parametrize(("provider", "name", "settings", "facts"), REFUSED)
def test_what_is_sure_to_fail_is_refused_with_the_reason(
    tmp_path: Path, provider: str, name: str, settings: str, facts: tuple[str, ...]
) -> None:
    (refused,) = found(tmp_path, model(provider, name, settings)).refused
    assert refused.startswith(f"model 'm' ({provider}): ")
    assert [fact for fact in (name, *facts) if fact not in refused] == []


# ---- dates ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("day", "refused", "told"),
    [
        (date(2027, 1, 30), False, False),
        (date(2027, 1, 31), False, True),
        (date(2027, 3, 31), False, True),
        (date(2027, 4, 1), True, False),
    ],
)
def test_an_end_is_told_60_days_before_and_refused_from_its_day_on(
    tmp_path: Path, day: date, refused: bool, told: bool
) -> None:
    findings = found(tmp_path, model("openai", "gpt-5.1"), day=day)
    assert any("was shut down on 2027-04-01" in line for line in findings.refused) is refused
    assert any("will be shut down on 2027-04-01" in line for line in findings.warnings) is told


# ---- what is not refused -------------------------------------------------------------------------------------------


def test_models_that_the_table_lacks_are_told_in_one_line(tmp_path: Path) -> None:
    models = model("openai", "gpt-9") + model("groq", "new", shown="n") + model("openai", "gpt-5.1", shown="o")
    findings = found(tmp_path, models)
    assert findings.refused == ()
    (said,) = findings.warnings
    assert said.endswith("(not in our table): openai gpt-9, groq new")
    elsewhere = found(tmp_path, models, GROQ_BASE_URL="http://127.0.0.1:1")  # any name may be right there
    assert elsewhere.warnings[0].endswith("(not in our table): openai gpt-9")


def test_at_another_address_each_refusal_is_a_warning(tmp_path: Path) -> None:
    models = model("gemini", "gemini-3-pro-preview", 'reasoning = "medium"')
    models += model("anthropic", "claude-fable-5", 'reasoning = "none"\nparams = { top_k = 5 }', shown="n")
    strict = found(tmp_path, models)
    assert len(strict.refused) == 4
    assert "set GOOGLE_GEMINI_BASE_URL, if only to its usual address, and this is a warning" in strict.refused[0]
    elsewhere = found(tmp_path, models, GOOGLE_GEMINI_BASE_URL="https://gate.example")
    assert (len(elsewhere.refused), len(elsewhere.warnings)) == (2, 2)
    assert all(
        line.endswith("; GOOGLE_GEMINI_BASE_URL is set, so it is sent all the same") for line in elsewhere.warnings
    )
    here = found(tmp_path, models, GOOGLE_GEMINI_BASE_URL="http://127.0.0.1:1")
    assert all("BASE_URL" not in line and "gemini is played on this machine" in line for line in here.warnings)


def test_a_judge_is_checked_where_it_sits_and_only_there(tmp_path: Path) -> None:
    gone = JURY.format("gemini", "gemini-3-pro-preview")
    (refused,) = found(tmp_path, model("openai", "gpt-5.1"), jury=gone).refused
    assert refused.startswith("model 'j' (gemini): gemini-3-pro-preview was shut down")
    seated = JUDGE_ON_SALE + OTHER.replace("gemini-3.1-pro-preview", "gemini-3-pro-preview")
    assert found(tmp_path, model("openai", "gpt-5.1"), jury=seated).refused == ()


# ---- the shipped manifests -----------------------------------------------------------------------------------------


def test_every_model_of_todays_manifest_is_known_on_sale_and_takes_its_settings() -> None:
    findings = check_models(load_manifest(SHIPPED / "layton-today.toml"), Settings(SHIPPED), clock(TODAY))
    assert findings.refused == ()
    assert [line for line in findings.warnings if "claude-opus-4-5-20251101 may be shut down" not in line] == []


@pytest.mark.parametrize(
    ("provider", "model", "family"),
    [
        ("openrouter", "google/gemini-3.8-flash", "gemini"),
        ("openrouter", "x-ai/grok-4.7", "xai"),
        ("openrouter", "z-ai/glm-5.3", "z-ai"),
        ("openrouter", "~anthropic/claude-sonnet-latest", "anthropic"),
        ("openrouter", "auto", "openrouter"),
        ("groq", "openai/gpt-oss-120b", "groq"),
    ],
)
def test_a_model_of_openrouter_is_of_the_family_of_its_maker(provider: str, model: str, family: str) -> None:
    table = ModelTable(name="m", provider=provider, model=model)
    assert table.spec().family == family
    assert ModelTable(name="m", provider=provider, model=model, family="own").spec().family == "own"


ENTRY = '[[openai]]\nmodels = ["{}"]\nsource = "{}"\nas_of = 2026-11-22\n'


@pytest.mark.parametrize("wrong", ['efforts = ["hihg"]\n', "shut_down = 2026-01-01\n", 'ends = "soon"\n'])
def test_an_entry_that_cannot_be_read_is_an_error(wrong: str) -> None:
    with pytest.raises(ValueError, match=r"Invalid|unknown|Expected"):
        model_table.parse(ENTRY.format("x", "y") + wrong)
