"""Mistakes on the command line and in manifests: each message says what to write instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from layton_batch import model_table
from layton_batch.clock import SystemClock
from tests.cli.conftest import NOBODY
from tests.support.cli_harness import call, desk, write
from tests.support.lab import quiz_text

TOP = 'name = "m"\ntask = "qa"\n'
ITEMS = '[items]\nsource = "quiz.csv"\n'
MODEL = '[[models]]\nname = "g"\nprovider = "openai"\nmodel = "gpt-6.1-sol"\n'
MANIFEST = TOP + ITEMS + MODEL
JUDGE = '[[jury.judges]]\nname = "{}"\nprovider = "anthropic"\nmodel = "claude-sonnet-5-5"\n'


@pytest.fixture
def quiz(folder: Path) -> Path:
    """The working folder, with a quiz and its manifest, and no key."""
    write(folder, MANIFEST, "quiz.toml")
    return folder


def refused(*arguments: str | Path) -> str:
    """Give a command that is refused; return its message."""
    ending = call(*arguments)
    assert (ending.code, "Traceback" in ending.err) == (2, False), ending.err
    return " ".join(ending.err.split())


# ---- options -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("run quiz.toml --verbose", "run has no --verbose; `layton-batch events RUN` shows every step"),
        ("run quiz.csv -m openai:x", "run has no -m; write --model"),
        ("run quiz.csv --models openai:x", "run has no --models; write --model"),
        ("run quiz.csv --n 5 --model openai:x", "run has no --n; write --limit"),
        ("run quiz.csv --temperature 0", "stand in the manifest, such as params = { temperature = … } under its"),
        ("run --config quiz.toml", "run has no --config; name the file without an option"),
        ("run quiz.toml --resume", "run has no --resume; `layton-batch run` continues a run by itself"),
        ("run quiz.toml --force", "run has no --force; its options are --model, --items, --limit, --runs, --once"),
        ("leaderboard m --output b.csv", "leaderboard has no --output; `layton-batch leaderboard … --format csv >"),
        ("site m -o public", "site has no -o; write --out"),
        ("cost m --csv", "cost has no --csv; write --format"),
        ("compare a b --margin 3", "compare has no --margin; it is an option of `gate`"),
        ("cost --since 2026-01-01", "its options are --format, --by, --chart, --json, --runs; see `layton-batch"),
        ("init --task qa", "init has no --task; write TASK without an option: `layton-batch init TASK`"),
        ("status --run m", "status has no --run; write RUN without an option: `layton-batch status RUN`"),
        ("schema --json", "schema has no --json; see `layton-batch schema -h`"),
        ("--runs elsewhere status", "name the command before its options: `layton-batch status … --runs`"),
        ("gate m --model a --baseline b --margin 5%", "--margin must be a number: Points of 100 by which NEW may be"),
        ("run quiz.csv openai:x --sandbox", "run: write --model before each model: --model openai:x"),
        ("run --items quiz.csv --model openai:x", "name the file without --items: `run quiz.csv --model …`"),
        ("run quiz.csv --limit 0", "--limit must be 1 or more"),
        ("run quiz.csv --model openai:x --max-usd", "run: --max-usd needs a value. Write dollars as a number"),
        ("run quiz.csv --model openai:x --max-usd --yes", "Write dollars as a number without $, such as 5.00"),
        ("run quiz.csv --limit", "run: --limit needs a value. `layton-batch run -h` describes the options"),
        ("label-plan m --labels ask.csv", "there is time for: a number (`import --labels FILE` reads labels)"),
        ("init qa extra", "init: extra: 1 argument too many; it takes TASK."),
        ("sandbox run quiz.toml", "2 arguments too many; it takes options alone; `layton-batch run … --sandbox` rehe"),
    ],
)  # fmt: skip
def test_an_option_of_another_program_is_answered_with_what_to_write(quiz: Path, command: str, words: str) -> None:
    assert words in refused(*command.split())


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("results m", "there is no command 'results'; `layton-batch leaderboard RUN` shows the results, `layton-batch"),
        ("list", "`layton-batch status` lists the runs"),
        ("stop m", "`layton-batch cancel RUN` stops a run's batches"),
        ("delete m", "no command deletes a run, because its answers would be paid for again"),
        ("help run", "`layton-batch COMMAND -h` explains one"),
        ("version", "`layton-batch --version` prints the version"),
        ("statsu", "did you mean 'status'?"),
    ],
)
def test_a_command_of_another_program_is_answered_with_the_one_that_does_the_same(command: str, words: str) -> None:
    message = refused(*command.split())
    assert words in message
    assert "resolve" not in message


# ---- manifests -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'[run]\n{TOP}{ITEMS}{MODEL}', "run: unknown table; name and task stand above the first [table]"),
        (MANIFEST.replace("[[models]]", "[model]"), "model: unknown key; did you mean [[models]]?"),
        (f"max_usd = 5\n{MANIFEST}", "max_usd: unknown key; max_usd stands under [budget]"),
        (f"{MANIFEST}max_usd = 5\n", "models[0].max_usd: unknown key; max_usd stands under [budget]"),
        (f"budget = 5\n{MANIFEST}", "budget: must be a table, not 5: write [budget] above its keys: max_usd, bound"),
        (f'items = "quiz.csv"\n{TOP}{MODEL}', "items: must be a table, not 'quiz.csv': write [items] above its keys"),
        (f'{MANIFEST}[site]\nlinks = "https://a.example"\n', "site.links: must be a table, not 'https://a.example': w"),
        (f"{MANIFEST}[scoring]\nlevel = 95\n", "not 95; 95 % is 0.95"),
        (f"{MANIFEST}[gold]\nlabel_error = 5\n", "not 5; 5 % is 0.05"),
        (f'{MANIFEST}[scoring]\nmethod = "ppi"\n', "'ppi' is not 'paper', the only value of this key: write that or"),
        (f"{MANIFEST}reasoning = 16000\n", "must be an effort such as 'high', or a table such as { budget_tokens = "),
        (f"{MANIFEST}[gold]\nrejudge = true\n", "gold.rejudge: must be 'all' or a whole number, 0 or more, not 'true'"),
        (f'{MANIFEST}base_url = "https://a.example"\n', "addresses are read from the environment, such as OPENAI_BASE"),
        (f'{MANIFEST}[[prices]]\nprovider = "openai"\nmodel = "x"\n', "prices[0].input: is missing: US dollars for a"),
        (MANIFEST.replace('"qa"', '"QA"'), "unknown task 'QA'; did you mean 'qa'?"),
        (MANIFEST.replace('"qa"', '"quiz"'), "qa is for questions of your own"),
        (MANIFEST.replace('"openai"', '"google"'), "unknown provider 'google' (known: openai"),
        (MANIFEST.replace('"openai"', '"google"'), "; for google write gemini or vertex"),
        (f'prompts = {{ judge = "Is it right?" }}\n{MANIFEST}', "name a text file, relative to the manifest's folder"),
        (MANIFEST.replace('"m"', "\u201cm\u201d"), 'the line has curly quotation marks: write straight ones, "'),
        (MANIFEST.replace('"m"', '"m",'), "leave out the ',' at the end of the line"),
        (MANIFEST.replace("name =", "name:"), "write name = …, with = and quotation marks around text"),
        (f"// mine\n{MANIFEST}", "a comment begins with #"),
        (f"```toml\n{MANIFEST}```\n", "leave out the lines with ```"),
        (MANIFEST.replace('"qa"', '"qa'), "a text ends on its line, with the quotation mark it begins with"),
        (MANIFEST.replace("quiz.csv", r"D:\new\table.csv"), "write the path with / or in single quotes"),
        (f"{MANIFEST}[jury]\nseats = 0\n", "not 0; tasks such as qa and layton need a judge, and multiple choice (mcq"),
        (f"{MANIFEST}[limits]\nmax_requests = 5\n", "limits stand in a table for each provider, such as [limits."),
    ],
)  # fmt: skip
def test_a_mistake_in_a_manifest_is_answered_with_what_to_write(quiz: Path, text: str, words: str) -> None:
    message = refused("plan", write(quiz, text), "--offline")
    assert "manifest.toml: " in message
    assert words in message


@pytest.mark.parametrize("place", [MANIFEST, f"{MANIFEST}{JUDGE.format('j')}", f"{MANIFEST}[scoring]\n"])
@pytest.mark.parametrize(
    ("text", "heading"),
    [
        ("task_options = { justification = true }", "[task_options]"),
        ('prompts = { judge = "judge.txt" }', "[prompts]"),
        ("limits = { openai = { max_requests = 5 } }", "[limits.PROVIDER]"),
        ("policy = { attempts = 1 }", "[policy]"),
        ('gold = { source = "gold.csv" }', "[gold]"),
        ("jury = { seats = 1 }", "[jury]"),
        ('site = { title = "Mine" }', "[site]"),
        ("models = []", "[[models]]"),
    ],
)
def test_a_key_of_the_manifest_in_another_table_is_told_where_it_stands(
    quiz: Path, place: str, text: str, heading: str
) -> None:
    message, key = refused("plan", write(quiz, f"{place}{text}\n"), "--offline"), text.partition(" ")[0]
    words = f"{key} of the manifest itself stands above the first [table]: move it there, or write {heading} above its"
    assert f".{key}: unknown key; {words} keys" in message


def test_a_slip_in_a_key_of_a_table_is_not_taken_for_a_key_of_the_manifest(quiz: Path) -> None:
    text = MANIFEST.replace(ITEMS, f"{ITEMS}limits = 5\n")
    assert "items.limits: unknown key; did you mean 'limit'?" in refused("plan", write(quiz, text), "--offline")


@pytest.mark.parametrize(
    ("provider", "variables"),
    [
        ("openai", "OPENAI_API_KEY"),
        ("gemini", "GEMINI_API_KEY or GOOGLE_API_KEY"),
        ("sk-one", "a variable such as OPENAI_API_KEY"),
    ],
)
def test_a_key_in_a_manifest_is_told_its_variable_and_not_shown(quiz: Path, provider: str, variables: str) -> None:
    text = MANIFEST.replace('"openai"', f'"{provider}"') + 'api_key = "sk-two-3"\n'
    message = refused("plan", write(quiz, text), "--offline")
    assert f"never from a manifest: set {variables} there or in .env, and delete this line" in message
    assert "sk-two-3" not in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'{MANIFEST}[gold]\nsource = "bundled"\n', "no bundled gold set: name a file, or leave it out"),
        (
            MANIFEST.replace('"quiz.csv"', '"www.example.org/q.csv"'),
            "an address begins with https:// or hf://datasets/",
        ),
        (MANIFEST.replace('"quiz.csv"', '"s3://bucket/q.csv"'), "an address begins with https:// or hf://datasets/"),
        (
            f'{MANIFEST}[[prices]]\nprovider = "openai"\nmodel = "x"\ninput = 1\noutput = 2\ndate = "yesterday"\n',
            "prices[0].date: must be a day such as '2026-11-01', not 'yesterday'",
        ),
        (
            MANIFEST.replace('"qa"', '"mcq_idk"') + "[jury]\nseats = 1\n",
            "task 'mcq_idk' is graded by a rule, no jury sits: leave [jury] out",
        ),
    ],
)
def test_a_source_or_value_that_is_none_is_answered_with_its_form(quiz: Path, text: str, words: str) -> None:
    assert words in refused("plan", write(quiz, text), "--offline")


def test_a_manifest_in_yaml_is_answered_with_what_writes_one(quiz: Path) -> None:
    message = refused("plan", write(quiz, "name: m\n", "m.yaml"))
    assert "a manifest is TOML; `layton-batch init` writes one" in message


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"{MANIFEST}[budget]\nsafety = 5\n", '[budget] safety changes nothing without bound = "expected"'),
        (f'{MANIFEST}max_output_tokens = 10\nreasoning = "high"\n', "takes about 4,350: most replies are cut, and"),
        (f"{MANIFEST}max_output_tokens = 9\nparams = {{ max_tokens = 5 }}\n", "params.max_tokens; params are sent as"),
        (f"{MANIFEST}{JUDGE.format('j')}{JUDGE.format('k')}", "judges 'j' and 'k' are the same model with the same s"),
        (f"{MANIFEST}params = {{ task_options = {{ a = 1 }} }}\n", "has params.task_options, which goes to the provid"),
        (f"{MANIFEST}params = {{ scoring = {{ level = 0.9 }} }}\n", "move it there, or write [scoring] above its keys"),
        (f'{MANIFEST}params = {{ task = "qa" }}\n', "task of the manifest itself stands above the first [table]: move"),
        (MANIFEST.replace('"gpt-6.1-sol"', '"GPT-5.2"'), "has capitals, and openai's ids have none: write 'gpt-5.2'"),
    ],
)  # fmt: skip
def test_a_setting_that_does_nothing_or_harm_is_noted_in_the_plan(quiz: Path, text: str, words: str) -> None:
    assert words in " ".join(call("plan", write(quiz, text), "--offline", "--json").out.replace('\\"', '"').split())


# ---- models of other providers -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("ollama:llama3", "answers of a model that has no batch API go in as a file: `layton-batch judge FILE`"),
        ("claude:claude-opus-4-8", "for claude write anthropic"),
        ("openai:claude-opus-4-8", 'a model of anthropic, not of openai: write provider = "anthropic" (--model ant'),
        ("anthropic:gpt-5.2", "--model openai:gpt-5.2)"),
        ("mistral:gemini-9-pro", 'write provider = "gemini"'),
        ("openai:anthropic/claude-opus-4-8", "--model anthropic:claude-opus-4-8)"),
        ("openai:openai/gpt-5.2", "is 'gpt-5.2' at openai itself: leave out 'openai/'"),
        ("openai:GPT-6.1 Sol", "did you mean 'gpt-6.1-sol'?"),
        ("openai:gpt-5.2 --model openai:gpt-5.2", "--model openai:gpt-5.2 is given 2 times; give it once"),
    ],
)  # fmt: skip
def test_an_id_of_another_provider_is_refused_before_a_manifest_is_written(
    folder: Path, model: str, words: str
) -> None:
    options = [word for part in model.split(" --model ") for word in ("--model", part)]
    assert words in refused("run", "quiz.csv", *options)
    assert not (folder / "quiz.toml").exists()


@pytest.mark.parametrize(
    "model",
    ["openrouter:anthropic/claude-opus-4-8", "together:openai/gpt-oss-120b", "groq:openai/gpt-oss-20b",
     "vertex:gemini-2.5-pro", "gemini:models/gemini-2.5-pro", "openai:ft:gpt-4o:Me::Abc", "mistral:voxtral-small"],
)  # fmt: skip
def test_an_id_that_a_provider_may_serve_is_not_refused(quiz: Path, model: str) -> None:
    provider, _, name = model.partition(":")
    text = MANIFEST.replace('"openai"', f'"{provider}"').replace("gpt-6.1-sol", name)
    plan = call("plan", write(quiz, text), "--offline", "--json").out
    assert "models.toml" not in plan
    assert json.loads(plan)["refused"] == []


def test_makers_are_known_by_the_first_word_of_an_id() -> None:
    table = model_table.load()
    assert [table.makers(name) for name in ("gpt-9", "claude-9", "gemini-9", "mistral-9", "grok-9", "qwen-9")] == [
        ["openai"], ["anthropic"], ["gemini"], ["mistral"], ["xai"], [],
    ]  # fmt: skip


# ---- addresses -----------------------------------------------------------------------------------------------------


def test_an_id_that_is_nearly_a_models_is_answered_with_the_models(quiz: Path) -> None:
    judge = JUDGE.format("j").replace("sonnet-5-5", "sonnet-5.5")
    manifest = write(quiz, MANIFEST + judge + "[budget]\nmax_usd = 5\n")
    ending = call("plan", manifest, "--offline")
    assert ending.code == 3
    words = " ".join(ending.err.split())
    assert "for anthropic claude-sonnet-5.5: nothing is sent to it; did you mean 'claude-sonnet-5-5'? Check" in words
    rehearsed = " ".join(call("run", write(quiz, MANIFEST + judge), "--sandbox").err.split())
    assert "no price list has anthropic claude-sonnet-5.5; did you mean 'claude-sonnet-5-5'?" in rehearsed


@pytest.mark.parametrize("address", [NOBODY, f"{NOBODY}/", "https://api.openai.com"])
def test_an_address_that_lacks_its_path_is_noted_before_the_first_call(
    quiz: Path, monkeypatch: pytest.MonkeyPatch, address: str
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "no-key")
    monkeypatch.setenv("OPENAI_BASE_URL", address)
    words = f"OPENAI_BASE_URL ends without a path, and openai's own address ends in /v1: write {address.rstrip('/')}/v1"
    assert words in call("doctor", "quiz.toml", "--offline", "--json").out
    assert words in call("run", "quiz.toml").err


@pytest.mark.parametrize("path", ["/v1", "/openai", "/gateway/v2/"])
def test_an_address_with_a_path_is_taken_as_it_is(quiz: Path, monkeypatch: pytest.MonkeyPatch, path: str) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "no-key")
    monkeypatch.setenv("OPENAI_BASE_URL", NOBODY + path)
    assert "ends without a path" not in call("doctor", "quiz.toml", "--offline", "--json").out


# ---- files and runs in wrong places --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "words"),
    [
        ("grade mine", "`layton-batch run` grades and judges a run itself, and `layton-batch leaderboard RUN` shows"),
        ("judge mine", "FILE has a row for each answer. A run's answers are judged by `layton-batch run mine`"),
        ("judge quiz.toml", "is TOML, not a file of rows; `layton-batch run` takes a manifest, whose `source` under"),
        ("leaderboard quiz.csv", "quiz.csv --model PROVIDER:ID` asks questions"),
    ],
)
def test_a_run_or_a_manifest_in_place_of_a_file_of_rows_is_answered_with_its_command(
    quiz: Path, command: str, words: str
) -> None:
    assert words in refused(*command.split())


def test_a_manifest_that_is_mistyped_is_answered_with_the_nearest_file(quiz: Path) -> None:
    for name in ("QUIZ.toml", "quiz", "./quizz.toml"):
        assert "did you mean 'quiz.toml'?" in refused("run", name)


def test_a_budget_of_nothing_is_told_how_a_shell_reads_dollars(quiz: Path) -> None:
    message = call("run", "quiz.toml", "--max-usd", "0", "--offline").err
    assert "--max-usd 0: nothing can be paid. Write dollars as a number without $" in message


def test_another_limit_than_the_manifests_is_told_what_to_edit(quiz: Path) -> None:
    command = ("run", "quiz.csv", "--model", "openai:larch-2-mini", "--offline")
    (quiz / "quiz.toml").unlink()
    call(*command, "--limit", "1")
    message = refused(*command)
    assert "for something else (items.limit, without which all items are asked): edit it, then `layton-batch" in message


def test_a_file_whose_rows_are_wrong_leaves_no_manifest(folder: Path) -> None:
    write(folder, "question,A,B,answer\na?,x,y,3\n", "wrong.csv")
    assert "digits in quotes or in CSV are text" in refused("run", "wrong.csv", "--model", "openai:larch-2-mini")
    assert not (folder / "wrong.toml").exists()


@pytest.mark.parametrize("command", ["export m --to csv --out", "cancel", "run quiz.csv --model openai:x --max-usd"])
def test_an_empty_argument_is_refused_by_its_place(quiz: Path, command: str) -> None:
    words = f"the argument after `layton-batch {command}` is empty; if it is a shell's variable, that is not set"
    assert words in refused(*command.split(), "")


# ---- margins -------------------------------------------------------------------------------------------------------

SCORES = "model,item_id,score\na,1,1\na,2,0\nb,1,0\nb,2,1\n"


@pytest.mark.parametrize(("margin", "is_told"), [("0.02", True), ("2", False), ("0", False)])
def test_a_margin_below_one_point_is_told_how_it_is_read(folder: Path, margin: str, *, is_told: bool) -> None:
    write(folder, SCORES, "s.csv")
    ending = call("gate", "s.csv", "--model", "a", "--baseline", "b", "--margin", margin)
    words = "--margin 0.02 is read as 0.02 of 100 points; for 2% write --margin 2\n"
    assert (words in ending.err) is is_told
    assert ending.code in (0, 6, 7)


# ---- runs that are done, not begun, or looked at -------------------------------------------------------------------


def test_a_done_run_says_how_an_answered_question_is_asked_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as there:
        text = quiz_text(("openai",))
        assert call("run", there.write(text), "--yes").code == 0
        billed = there.server_total()
        told = call("retry").err
        assert "an answer is never bought again. To ask once more, set `samples = 2` under [[models]], or run a" in told
        again = text.replace("name = ", 'name = "again" #', 1) + "\n[policy]\nreuse = false\n"
        assert call("run", there.write(again), "--yes").code == 0
        assert there.server_total() == 2 * billed


def test_a_run_that_is_named_twice_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        assert call("run", there.write(quiz_text(("openai",))), "--yes").code == 0
        name = there.run_root().name
        once = call("cost", name, "--json").out
        assert call("cost", name, "manifest.toml", there.run_root(), "--json").out == once


def test_looking_commands_end_with_130_at_ctrl_c(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        assert call("run", there.write(quiz_text(("openai",))), "--yes", "--once").code == 75

        def stop(_clock: SystemClock, _seconds: float) -> None:
            raise KeyboardInterrupt

        monkeypatch.setattr(SystemClock, "sleep", stop)
        assert call("events", "--follow").code == 130
        assert call("status", there.run_root().name, "--watch").code == 130
        assert call("run", "manifest.toml", "--yes").code == 75


def test_a_run_that_is_not_done_says_what_continues_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as there:
        assert call("run", there.write(quiz_text(("openai",))), "--yes", "--once").code == 75
        words = "`layton-batch run` continues"
        for command in ("leaderboard", "compare x y", "export --to csv --out out"):
            ending = call(*command.split())
            assert words in " ".join((ending.out + ending.err).split()), command
