"""What makes two manifests one run, and how a manifest is frozen and comes back."""

from __future__ import annotations

from pathlib import Path

import pytest

from layton_batch.errors import ManifestError
from layton_batch.manifest.asked import manifest_task
from layton_batch.manifest.checks import load_manifest
from layton_batch.manifest.manifest import Manifest
from tests.support.manifest_texts import FULL, JUDGE, MINIMAL, load, write

# ---- identity ------------------------------------------------------------------------------------------------------


def test_a_run_has_the_name_of_its_manifest_and_the_identity_is_the_same_anywhere(tmp_path: Path) -> None:
    first = load(tmp_path, FULL)
    (tmp_path / "elsewhere").mkdir()
    second = load_manifest(write(tmp_path / "elsewhere", "# a remark\n" + FULL, "other.toml"))
    assert first.identity() == second.identity()
    assert first.name == "run-1"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('"run-1"', '"run-2"'),
        ("hints = 4", "hints = 3"),
        ("limit = 20", "limit = 21"),
        ("layton_eval_llm", "other"),
        ('"kimi"', '"kimi2"'),
        ("budget_tokens = 32000", "budget_tokens = 31000"),
        ("temperature = 0", "temperature = 1"),
        ("seats = 2", "seats = 1"),
        ('model = "mistral-large"', 'model = "other"'),
        ("substitute = true", ""),
        ('"moonshotai"', '"someone"'),
        ("max_output_tokens = 40000", "max_output_tokens = 40001"),
    ],
)
def test_what_determines_the_requests_changes_the_identity(tmp_path: Path, old: str, new: str) -> None:
    assert old in FULL
    assert load(tmp_path, FULL).identity() != load(tmp_path, FULL.replace(old, new)).identity()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("max_usd = 200.10", "max_usd = 300"), ('method = "paper"\n', ""), ("seed = 7", "seed = 8"),
        ('"answer_correct"', '"both_correct"'), ("ppi_llm", "ppi_other"), ("attempts = 2", "attempts = 5"),
        ("output = 2.8", "output = 9"), ("deadline_hours = 48", ""),
        ('family = "moonshotai"', 'family = "moonshotai"\nwindow = "24h"'),
        ("substitute = true", 'substitute = true\nwindow = "24h"'),
    ],
)  # fmt: skip
def test_budget_scoring_gold_policy_prices_and_windows_may_change_in_mid_run(
    tmp_path: Path, old: str, new: str
) -> None:
    assert old in FULL
    assert load(tmp_path, FULL).identity() == load(tmp_path, FULL.replace(old, new)).identity()


def test_a_panel_counts_by_its_content_not_by_where_it_stands(tmp_path: Path) -> None:
    write(tmp_path, JUDGE.replace("jury.judges", "judges"), "p.toml")
    write(tmp_path, JUDGE.replace("jury.judges", "judges").replace("gemini-x", "gemini-y"), "q.toml")
    inline = load(tmp_path, MINIMAL + JUDGE).identity()
    assert load(tmp_path, MINIMAL + '[jury]\npanel = "p.toml"').identity() == inline
    assert load(tmp_path, MINIMAL + '[jury]\npanel = "q.toml"').identity() != inline


def test_prompt_files_count_by_their_content(tmp_path: Path) -> None:
    text = MINIMAL + '[prompts]\njudge_system = "judge.txt"\n'
    write(tmp_path, "Be fair.", "judge.txt")
    first = load(tmp_path, text)
    write(tmp_path, "Be fair!", "judge.txt")
    second = load(tmp_path, text)
    assert len({first.identity(), second.identity(), load(tmp_path, MINIMAL).identity()}) == 3


# ---- frozen --------------------------------------------------------------------------------------------------------


def test_a_frozen_manifest_comes_back_whole_without_its_files(tmp_path: Path) -> None:
    write(tmp_path, JUDGE.replace("jury.judges", "judges"), "p.toml")
    write(tmp_path, "Be fair, {% if has_image %}look{% endif %}é", "judge.txt")
    text = FULL.partition("[jury]")[0] + '[jury]\npanel = "p.toml"\n[prompts]\njudge_system = "judge.txt"\n'
    first = load(tmp_path, text)
    frozen = first.frozen_json()
    for name in ("p.toml", "judge.txt", "m.toml"):
        (tmp_path / name).unlink()
    again = Manifest.from_frozen(frozen)
    assert again == first
    assert (again.identity(), again.folder, again.panel()) == (first.identity(), tmp_path.resolve(), first.panel())
    assert again.frozen_json() == frozen
    paths = again.prompt_paths(tmp_path / "run" / "prompts")
    assert paths["judge_system"].read_text(encoding="utf-8").startswith("Be fair")
    assert manifest_task(again, tmp_path / "run" / "prompts").name == "layton"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: "{}",
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"format": 1', '"format": 2'),
        lambda text: text.replace('"hints": 4', '"hints": 3'),
        lambda text: text.replace('"prompts": {', '"prompts": {"a":3'),
    ],
)
def test_a_spoilt_frozen_manifest_is_an_error_that_names_the_file(tmp_path: Path, spoil: object) -> None:
    assert callable(spoil)
    with pytest.raises(ManifestError, match=r"runs/x/run\.json"):
        Manifest.from_frozen(spoil(load(tmp_path, FULL).frozen_json()), "runs/x/run.json")
