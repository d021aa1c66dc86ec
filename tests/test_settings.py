"""Settings: what the environment says, and that secrets stay out of sight."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.clock import Pacing
from layton_batch.errors import LaytonBatchError, ManifestError, MissingKeyError
from layton_batch.settings import HUB, Settings


def settings(tmp_path: Path, **environ: str) -> Settings:
    return Settings.from_environment(environ, tmp_path)


@pytest.mark.parametrize(("provider", "key", "url"), [
    *((name, f"{name.upper()}_API_KEY", f"{name.upper()}_BASE_URL")
      for name in ("openai", "anthropic", "mistral", "together", "groq", "doubleword", "xai")),
    ("gemini", "GEMINI_API_KEY", "GOOGLE_GEMINI_BASE_URL"), ("gemini", "GOOGLE_API_KEY", "GOOGLE_GEMINI_BASE_URL"),
    ("vertex", "GOOGLE_VERTEX_ACCESS_TOKEN", "GOOGLE_VERTEX_BASE_URL"),
    ("some-other", "SOME_OTHER_API_KEY", "SOME_OTHER_BASE_URL"),
])  # fmt: skip
def test_each_provider_has_its_own_variables(tmp_path: Path, provider: str, key: str, url: str) -> None:
    found = settings(tmp_path, **{key: " secret ", url: "http://127.0.0.1:1/v1"})
    assert found.has_key(provider)
    assert found.access(provider) == ("secret", "http://127.0.0.1:1/v1")
    assert "secret" not in f"{found!r} {found.access(provider)!r}"
    assert settings(tmp_path, **{key: "k"}).access(provider).base_url is None  # its SDK knows the address


ADDRESSES = (
    "api.openai.com/v1", "localhost:8080/v1", "htps://api.openai.com/v1", "http:/127.0.0.1:1/v1", "https://",
    "https://:443/v1", "https://api.openai.com:99999/v1", "http://127.0.0.1:abc/v1", "http://127.0.0.1:0/v1",
    "http://[sk-secret", "https://api.openai.com/v1 # mine", "sk-secret",
)  # fmt: skip
VERSIONS = ("latest", "1", "v1/../v2", "https://127.0.0.1", "v1 beta")


@pytest.mark.parametrize(("provider", "variable", "value", "error", "words"), [
    *(("openai", "OPENAI_BASE_URL", address, ManifestError, "openai: OPENAI_BASE_URL is not") for address in ADDRESSES),
    *(("gemini", "GOOGLE_GENAI_API_VERSION", version, ManifestError,
       "gemini: GOOGLE_GENAI_API_VERSION is no version of an API") for version in VERSIONS),
    *(("gemini", "GEMINI_API_KEY", blank, MissingKeyError, "gemini .*GEMINI_API_KEY or GOOGLE_API_KEY")
      for blank in ("", "   ")),
    ("openai", "OPENAI_API_KEY", "sk-1\nX-Other: 2", MissingKeyError, "OPENAI_API_KEY"),  # cannot be a header
])  # fmt: skip
def test_what_cannot_be_called_or_sent_is_an_error_that_names_its_variable_only(
    tmp_path: Path, provider: str, variable: str, value: str, error: type[LaytonBatchError], words: str
) -> None:
    found = settings(tmp_path, **{variable: value})
    with pytest.raises(error, match=words) as caught:
        (found.check_address(provider), found.access(provider))
    assert "sk-" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [" ", "https://api.openai.com/v1", "HTTP://user:pw@127.0.0.1:9/v1?x=1", "http://[::1]:8000", "http://é.org"],
)
def test_an_address_that_can_be_called_or_none_is_no_error(tmp_path: Path, address: str) -> None:
    settings(tmp_path, OPENAI_BASE_URL=address).check_address("openai")


def test_the_version_of_an_api_is_read_as_its_sdk_reads_it(tmp_path: Path) -> None:
    for said, version in (("v1", "v1"), ("v1beta", "v1beta"), ("beta", "v1beta"), (" ", None)):
        found = settings(tmp_path, GOOGLE_GENAI_API_VERSION=said)
        assert (found.api_version("gemini"), found.api_version("openai")) == (version, None)


def test_dotenv_fills_gaps_and_never_overrides(tmp_path: Path) -> None:
    (tmp_path / ".env").write_text(
        "OPENAI_API_KEY=file\nGROQ_API_KEY='fi$le${HOME}'\nMISTRAL_API_KEY=\n# GEMINI_API_KEY=x\n"
    )
    found = settings(tmp_path, OPENAI_API_KEY="real", GROQ_API_KEY=" ")
    assert found.access("openai").api_key == "real"
    assert found.access("groq").api_key == "fi$le${HOME}"
    assert not found.has_key("mistral")
    assert not found.has_key("gemini")


@pytest.mark.parametrize(
    "line",
    [
        "OPENAI_BASE_URL=http://127.0.0.1:9",
        "GOOGLE_GENAI_API_VERSION=v1",
        "HF_ENDPOINT=http://127.0.0.1:9",
        "LAYTON_BATCH_ENGINE=dask://127.0.0.1:9",
        "LAYTON_BATCH_WEBHOOK=http://127.0.0.1:9",
        "LAYTON_BATCH_PACING=0.5",
        "XDG_STATE_HOME=/elsewhere",
        "HOME=/elsewhere",
    ],
)
def test_dotenv_gives_keys_and_nothing_else(tmp_path: Path, line: str) -> None:
    (tmp_path / ".env").write_text(f"{line}\n", encoding="utf-8")
    found = settings(tmp_path, OPENAI_API_KEY="k", GEMINI_API_KEY="k")
    assert found.get(line.partition("=")[0]) is None
    assert found.access("openai").base_url is None
    assert found.api_version("gemini") is None
    assert (found.hf_endpoint, found.engine, found.user_state, found.pacing) == (HUB, "threads", None, Pacing())


def test_dotenv_gives_an_address_with_the_key_of_the_same_provider_only(tmp_path: Path) -> None:
    here = "http://127.0.0.1:9"
    (tmp_path / ".env").write_text(
        f"OPENAI_BASE_URL={here}\nOPENAI_API_KEY=file\nGOOGLE_GEMINI_BASE_URL={here}\nGOOGLE_GEMINI_API_KEY=x\n"
        f"GEMINI_API_KEY=file\nMISTRAL_BASE_URL={here}\nGROQ_BASE_URL={here}\nGROQ_API_KEY=file\n",
        encoding="utf-8",
    )
    assert settings(tmp_path).access("openai") == ("file", here)
    assert settings(tmp_path).access("gemini") == ("file", here)
    assert settings(tmp_path).is_on_this_machine("openai")
    assert settings(tmp_path, OPENAI_API_KEY="own").access("openai") == ("own", None)
    assert not settings(tmp_path, OPENAI_API_KEY="own").is_elsewhere("openai")
    assert settings(tmp_path, GOOGLE_API_KEY="own").access("gemini") == ("own", None)
    assert settings(tmp_path, MISTRAL_API_KEY="own").access("mistral") == ("own", None)
    assert settings(tmp_path, GROQ_BASE_URL="http://[::1]:8").access("groq") == ("file", "http://[::1]:8")


def test_what_dotenv_says_in_vain_is_told_where_it_would_mean_something(tmp_path: Path) -> None:
    names = ("OPENAI_BASE_URL", "GROQ_BASE_URL", "APP_BASE_URL", "HF_ENDPOINT", "LAYTON_BATCH_ENGINE", "COLOUR")
    (tmp_path / ".env").write_text("".join(f"{name}=http://h\n" for name in names), encoding="utf-8")
    found = settings(tmp_path, OPENAI_API_KEY="k", HF_ENDPOINT="http://own")
    assert found.left_in_file == ("OPENAI_BASE_URL", "LAYTON_BATCH_ENGINE")
    assert found.read_from_file == ()


def test_what_the_user_keeps_is_in_the_state_home_of_the_standard(tmp_path: Path) -> None:
    assert settings(tmp_path, XDG_STATE_HOME="/state", HOME="/home/u").user_state == Path("/state")
    assert settings(tmp_path, XDG_STATE_HOME="state", HOME="/home/u").user_state == Path("/home/u/.local/state")
    assert settings(tmp_path, HOME="u").user_state is None


def test_pauses_are_shortened_by_a_factor_and_only_against_this_machine(tmp_path: Path) -> None:
    def found(**values: str) -> Settings:
        return Settings.from_environment(values, tmp_path)

    assert found().pacing == Pacing()
    quick = found(
        LAYTON_BATCH_PACING="0.5", OPENAI_BASE_URL="http://127.0.0.1:9/v1", GROQ_BASE_URL="http://localhost:9"
    )
    assert (quick.pacing.first_pause, quick.pacing.looks[0], quick.pacing.advised) == (2.5, 10.0, 0.5)
    assert quick.pacing.poll is None
    quick.check_pacing("openai")
    quick.check_pacing("groq")
    with pytest.raises(ManifestError, match="anthropic is not there"):
        quick.check_pacing("anthropic")
    with pytest.raises(ManifestError, match="is not there"):
        found(LAYTON_BATCH_PACING="0.5", OPENAI_BASE_URL="https://api.example.com/v1").check_pacing("openai")
    found().check_pacing("anthropic")
    for wrong in ("0", "-1", "2", "nan", "inf", "fast"):
        with pytest.raises(ManifestError, match="is no factor"):
            _ = found(LAYTON_BATCH_PACING=wrong).pacing
