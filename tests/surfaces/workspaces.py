"""A dozen small workspaces, built by the commands of the package from frozen replies.

Each builder writes manifests, calls commands, and notes facts: exit codes on the way, then the facts of its runs.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Any
from unittest import mock

from layton_batch.cli import main
from tests.surfaces.frozen_replies import Incident, Ledger, read_replies
from tests.surfaces.replay_server import ReplayServer

HERE = Path(__file__).parent
FAMILIES = {"kestrel-1": "aldine", "plover-2": "bembo", "siskin-3": "caslon"}
JUDGES = {"assay-a": "didot", "assay-b": "bembo", "assay-c": "fournier", "assay-d": "garamond"}
PROVIDERS = {"plover-2": "anthropic", "assay-c": "anthropic"}
"""Those that OpenAI does not serve."""
PRICES = {"kestrel-1": ("4", "16"), "plover-2": ("2.5", "10"), "siskin-3": ("0.3", "1.1"), "assay-a": ("1", "5")}
"""US dollars for a million tokens of prompts and of replies; a model that is not here costs what plover-2 costs."""

Facts = dict[str, Any]


@dataclass(slots=True)
class Workspace:
    """A folder in which commands are called, the server that they ask, the facts noted so far, and what was printed.

    ``metrics``: further metrics by which its runs are ranked.
    """

    folder: Path
    server: ReplayServer
    metrics: Sequence[str] = ()
    facts: Facts = field(default_factory=dict)
    printed: str = ""

    @property
    def ledger(self) -> Ledger:
        """Who asked the server, and was billed."""
        return self.server.ledger

    def write(self, name: str, text: str) -> str:
        """Write a file into the folder. Return its name."""
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def call(self, *arguments: str) -> tuple[int, str]:
        """Call a command in this process and folder. Return its exit code and what it printed on stdout."""
        output, errors = io.StringIO(), io.StringIO()
        environment = {
            "OPENAI_API_KEY": "sk-frozen",
            "OPENAI_BASE_URL": f"{self.server.url}/v1",
            "ANTHROPIC_API_KEY": "sk-frozen",
            "ANTHROPIC_BASE_URL": self.server.url,
            "LAYTON_BATCH_PACING": "0.001",
            "HOME": str(self.folder),
            "PATH": os.environ.get("PATH", ""),
        }
        with (
            mock.patch.dict(os.environ, environment, clear=True),
            contextlib.chdir(self.folder),
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(errors),
        ):
            try:
                main(arguments)
            except SystemExit as end:
                code = int(end.code or 0)
        self.printed += output.getvalue() + errors.getvalue()
        return code, output.getvalue()

    def document(self, *arguments: str) -> Any:
        """Call a command that prints one JSON document, and read that."""
        code, output = self.call(*arguments)
        assert code == 0, (arguments, code, self.printed[-2000:])
        return json.loads(output)

    def step(self, name: str, *arguments: str) -> None:
        """Call a command, and note its exit code as a fact."""
        self.facts[f"exit/{name}"] = self.call(*arguments)[0]

    def run(self, manifest: str, step: str = "run") -> None:
        """Run a manifest to its end, and note its exit code."""
        self.step(step, "run", manifest, "--yes", "--offline", "--poll-seconds", "0.05")


def plain_amount(money: str) -> str:
    """Write an amount with the digits that it needs: 0.50 is 0.5. What is no number stays as it is."""
    try:
        return format(Decimal(money).normalize(), "f")
    except InvalidOperation:
        return money


Build = Callable[[Workspace], Sequence[str]]
"""Calls commands, and returns the names of the runs whose facts are read."""


def manifest(
    name: str,
    models: Sequence[str],
    *,
    task: str = "qa",
    items: str = "quiz.jsonl",
    top: str = "",
    model_keys: str = "",
    judges: Sequence[str] = tuple(JUDGES),
    judge_tokens: int = 400,
    justification: bool = True,
) -> str:
    """Write a manifest of these models and judges; ``top``: further tables, ``model_keys``: keys of each model."""
    text = f'name = "{name}"\ntask = "{task}"\n'
    if task == "qa":
        text += f"task_options = {{ justification = {str(justification).lower()} }}\n"
    if "[items]" not in top:
        text += f'[items]\nsource = "{items}"\n'
    text += top
    for model in models:
        text += _model("models", model, FAMILIES[model], 400) + model_keys
    if judges:
        text += "[jury]\nseats = 3\n"
        for judge in judges:
            text += _model("jury.judges", judge, JUDGES[judge], judge_tokens)
            text += "substitute = true\n" * (judge == "assay-d")
    for model in (*ALL, *judges):
        ask, answer = PRICES.get(model, PRICES["plover-2"])
        provider = PROVIDERS.get(model, "openai")
        text += f'[[prices]]\nprovider = "{provider}"\nmodel = "{model}"\ninput = {ask}\noutput = {answer}\n'
        text += f"cached_input = {float(ask) / 10}\n"
    return text


def _model(table: str, name: str, family: str, tokens: int) -> str:
    provider = PROVIDERS.get(name, "openai")
    text = f'[[{table}]]\nname = "{name}"\nprovider = "{provider}"\nmodel = "{name}"\nfamily = "{family}"\n'
    return text + f"max_output_tokens = {tokens}\n"


ALL = tuple(FAMILIES)
GOLD = '[gold]\nsource = "gold.jsonl"\n'


def _one_run(text: str) -> Build:
    def build(place: Workspace) -> Sequence[str]:
        place.write("frozen.toml", text)
        place.run("frozen.toml")
        return ["frozen"]

    return build


def _lost(place: Workspace) -> Sequence[str]:
    """Nobody can tell which of two batches is ours, and a person says it; a later batch shows late in the list."""
    place.write("frozen.toml", manifest("frozen", ["kestrel-1"]))
    place.run("frozen.toml")
    status = place.document("status", "frozen", "--json")
    place.facts["state after the lost reply"] = status["state"]
    lost = [batch["id"] for batch in status["batches"] if batch["state"] == "lost"]
    place.facts["lost batches"] = len(lost)
    place.facts["creates after the lost reply"] = place.ledger.creates
    place.run("frozen.toml", "run again")
    place.facts["creates after another run"] = place.ledger.creates
    for batch in lost:
        place.step("resolve", "resolve", "frozen", batch, "--adopt", "batch_2")
    place.run("frozen.toml", "run to the end")
    return ["frozen"]


def _with_faults(place: Workspace) -> Sequence[str]:
    """A create that is not made leaves the bill: by a later list, or before it by a person's word."""
    place.write("frozen.toml", manifest("frozen", ["kestrel-1", "plover-2"], top=GOLD + "[policy]\nattempts = 2\n"))
    place.run("frozen.toml")
    batches = place.document("status", "frozen", "--json")["batches"]
    unmade = next(batch["id"] for batch in batches if batch["job"] == "predict-kestrel-1")
    place.call("resolve", "frozen", unmade, "--not-made")  # refused where the list came first
    place.run("frozen.toml", "run again")
    return ["frozen"]


def _over_budget(place: Workspace) -> Sequence[str]:
    """The answers fit the budget, their judges do not. Then there is more money, and fewer items."""
    place.write("frozen.toml", manifest("frozen", ALL, top="[budget]\nmax_usd = 0.2\n", judge_tokens=8000))
    place.run("frozen.toml")
    status = place.document("status", "frozen", "--json")
    place.facts["state of the small budget"] = status["state"]
    place.facts["spent of the small budget"] = plain_amount(status["spent_usd"])
    place.facts["billed rows of the small budget"] = place.ledger.billed.total()
    more = '[items]\nsource = "quiz.jsonl"\nlimit = 8\n[budget]\nmax_usd = 9\n'
    place.write("frozen.toml", manifest("frozen", ALL, top=more, judge_tokens=8000))
    place.run("frozen.toml", "run with more money")
    return ["frozen"]


def _imported(place: Workspace) -> Sequence[str]:
    """Answers made elsewhere, judged by this jury."""
    panel = manifest("panel", [], judges=tuple(JUDGES)).partition("[jury]\nseats = 3\n")[2].partition("[[prices]]")[0]
    place.write("panel.toml", panel.replace("[[jury.judges]]", "[[judges]]"))
    arguments = ("--items", "quiz.jsonl", "--panel", "panel.toml", "--yes")
    place.step("judge", "judge", "answers.jsonl", *arguments)
    return ["answers-judged"]


def _shared(place: Workspace) -> Sequence[str]:
    """The second run has a model and items of the first one, and one model more."""
    place.write("first.toml", manifest("first", ["kestrel-1", "siskin-3"]))
    place.run("first.toml", "run first")
    place.facts["billed rows of the first run"] = place.ledger.billed.total()
    place.write("second.toml", manifest("second", ["kestrel-1", "plover-2"]))
    place.run("second.toml", "run second")
    place.facts["billed rows of both runs"] = place.ledger.billed.total()
    place.run("first.toml", "run first again")
    place.facts["billed rows after a third call"] = place.ledger.billed.total()
    return ["first", "second"]


@dataclass(frozen=True, slots=True)
class Surface:
    """How a workspace is built, and from which replies; ``incidents`` are the server's, ``metrics`` the workspace's."""

    build: Build
    replies: Sequence[str] = ("quiz",)
    incidents: Mapping[str, Incident] = field(default_factory=dict)
    metrics: Sequence[str] = ()


SURFACES: Mapping[str, Surface] = {
    "plain": Surface(_one_run(manifest("frozen", ALL, top=GOLD)), metrics=("answer_correct", "justification_correct")),
    "rule_graded": Surface(
        _one_run(manifest("frozen", ALL, task="mcq_idk", items="choices.jsonl", judges=())),
        ("choices",),
        metrics=("idk_score", "idk_freq", "extract_fail"),
    ),
    "rejudged": Surface(_one_run(manifest("frozen", ["kestrel-1"], top='[gold]\nsource = "elder_gold.jsonl"\n'))),
    "hints": Surface(
        _one_run(
            manifest(
                "frozen",
                ["kestrel-1", "siskin-3"],
                task="layton",
                top='[items]\nsource = "riddles.jsonl"\nhints = [0, 2]\n',
            )
        ),
        ("hints", "quiz"),
    ),
    "samples": Surface(
        _one_run(
            manifest(
                "frozen",
                ["kestrel-1", "plover-2"],
                justification=False,
                # the replies of a question differ from sample to sample, in the order in which they are asked
                top="[limits.openai]\nmax_concurrent_batches = 1\n[limits.anthropic]\nmax_concurrent_batches = 1\n",
                model_keys="samples = 3\n",
                judges=("assay-a", "assay-c"),
            )
        ),
        ("samples",),
    ),
    "uncalibrated": Surface(_one_run(manifest("frozen", ALL))),
    "labelled": Surface(_one_run(manifest("frozen", ALL, top='[gold]\nannotations = "labels.jsonl"\n'))),
    "lost_batch": Surface(_lost, incidents={"kestrel-1": Incident.MADE_TWICE, "assay-a": Incident.LISTED_LATE}),
    "over_budget": Surface(_over_budget),
    "imported": Surface(_imported),
    "with_faults": Surface(
        _with_faults,
        ("faults", "quiz"),
        {"kestrel-1": Incident.NOT_MADE, "assay-b": Incident.REFUSED},
    ),
    "shared_answers": Surface(_shared),
}


def build(name: str, folder: Path) -> tuple[Workspace, Sequence[str]]:
    """Build a workspace in an empty folder. Return it and the names of its runs; the server has stopped."""
    surface = SURFACES[name]
    for path in sorted((HERE / "inputs").iterdir()):
        shutil.copy(path, folder)
    replies = read_replies(*(HERE / "replies" / f"{reply}.jsonl" for reply in surface.replies))
    server = ReplayServer(Ledger(replies, surface.incidents))
    with server:
        workspace = Workspace(folder, server, surface.metrics)
        runs = surface.build(workspace)
    unknown = workspace.ledger.unknown
    assert not unknown, f"no frozen reply for {unknown[0]}"
    return workspace, runs
