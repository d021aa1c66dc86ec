"""Small runs that are done, played by a sandbox, to be written down."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from layton_batch.commands.known_items import bundled_answerer
from layton_batch.files.run_folder import RunFolder
from layton_batch.sandbox import Sandbox, SandboxConfig
from tests.support.lab import MODELS, START, Lab, demo_prices, lab, manifest_text
from tests.support.manual_clock import ManualClock

RULES = {"rome": "llm", "mcq_idk": "demo", "zebralogic": "all"}


def jury_run(folder: Path) -> RunFolder:
    """Two models on four riddles, a jury of one."""
    text = manifest_text(("openai", "anthropic"))
    with lab(folder) as there:
        there.finish(text)
        return there.run_folder(text)


def rule_text(task: str, providers: Sequence[str] = ("openai", "gemini", "groq")) -> str:
    """The manifest of such a run on twelve items."""
    text = f'name = "lab"\ntask = "{task}"\n[items]\nsource = "bundled"\nsplit = "{RULES[task]}"\nlimit = 12\n'
    for provider in providers:
        text += f'[[models]]\nname = "{MODELS[provider]}"\nprovider = "{provider}"\nmodel = "{MODELS[provider]}"\n'
        text += "max_output_tokens = 4000\n"
    return text + demo_prices()


def rule_run(folder: Path, task: str, providers: Sequence[str] = ("openai", "gemini", "groq")) -> RunFolder:
    """Models on twelve items that a rule grades."""
    folder.mkdir(exist_ok=True)
    text = rule_text(task, providers)
    with rule_lab(folder) as there:
        there.finish(text)
        return there.run_folder(text)


@contextmanager
def rule_lab(folder: Path) -> Iterator[Lab]:
    """A lab whose sandbox knows the bundled items of every task."""
    clock = ManualClock(START)
    known = bundled_answerer()
    with Sandbox(SandboxConfig(batch_seconds=60.0, answerer=known, clock=clock.now)) as server:
        yield Lab(folder, server, clock)  # type: ignore[arg-type]  # moved by nobody here
