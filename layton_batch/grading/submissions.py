"""What ``--predictions`` may name: a file, ``NAME=FILE``, a folder of files, evaluate-idk's results, or a run."""

from __future__ import annotations

import glob
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

from layton_batch.errors import DataError, ManifestError
from layton_batch.grading.one_file import Row, first_of, prediction_rows
from layton_batch.records import Item, JsonValue
from layton_batch.settings import Settings
from layton_batch.tasks.mcq_idk_rules import result_files
from layton_batch.tasks.mcq_idk_rules.table import RunResult, latest

SUFFIXES = (".json", ".jsonl", ".parquet")
"""The files of a folder that are taken for predictions."""
DEFAULT_SPLIT = "llm"  # what a manifest says that says nothing


@dataclass(frozen=True, slots=True)
class Submission:
    """One model's predictions (or one round of them), read when they are graded.

    ``items``: its own, where it brings them (a run does); ``made``: the same as the task made them, with the run's
    ``split`` and ``settings`` of the task. ``totals``: published ones of a file without replies. ``is_file``: given as
    one file. ``is_named``: the name was asked for.
    """

    name: str
    where: str
    rows: Callable[[], Iterable[Row]]
    items: Callable[[], Sequence[Row]] | None = None
    totals: RunResult | None = None
    provider: str = ""
    is_file: bool = False
    is_named: bool = False
    made: Callable[[], Sequence[Item]] | None = None
    split: str = DEFAULT_SPLIT
    settings: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Desk:
    """Where predictions are looked for, and which benchmark's of several that a folder of results holds."""

    task: str
    runs: Path
    settings: Settings
    benchmark: str | None = None
    rounds: bool = False


def submissions(asked: Sequence[str], desk: Desk) -> list[Submission]:
    """Everything asked for, in order, each under a name of its own; rounds of one model share theirs.

    Raises ManifestError for two models of one name, DataError for what is not there or holds no predictions.
    """
    found = [one for text in asked for one in _submissions(text, desk)]
    if desk.rounds:
        return [one if one.is_named or one.items else replace(one, name="model") for one in found]
    named = Counter(one.name for one in found if one.is_named)
    twice = next((name for name, count in named.items() if count > 1), None)
    if twice is not None:
        several = "; several rounds of one model: --rounds" if desk.task == "rome" else ""
        raise ManifestError(f"grade: two of --predictions are called {twice!r}; give each a name of its own{several}")
    return _apart(found)


def _submissions(text: str, desk: Desk) -> Iterator[Submission]:
    name, source = _split(text, desk)
    found = list(_of_source(source, desk))
    if not name:
        yield from found
    elif len(found) == 1 or (desk.rounds and not found[0].items):
        yield from (replace(one, name=name, is_named=True) for one in found)
    else:
        yield from (replace(one, name=f"{name}/{one.name}", is_named=True) for one in found)


def _split(text: str, desk: Desk) -> tuple[str, str]:
    """Name and source; a path that exists is a path, whatever is in its name."""
    name, sign, source = text.partition("=")
    if not sign or _kind(text, desk) != "nothing":
        return "", text
    if not name.strip() or not source:
        raise ManifestError(f"grade: --predictions {text!r}: NAME=FILE needs a name and a file")
    return _clean(name.strip()), source


def _path(text: str, desk: Desk) -> Path:
    return desk.settings.cwd / Path(text).expanduser()


def _kind(text: str, desk: Desk) -> Literal["file", "folder", "run", "nothing"]:
    """What is there; nothing where the text cannot even be a path."""
    try:
        path = _path(text, desk)
        if path.is_dir():
            return "run" if (path / "run.json").exists() else "folder"
        return "file" if path.exists() else "nothing"
    except (OSError, ValueError, RuntimeError):  # too long, a null character, the home of nobody
        return "nothing"


def _of_source(source: str, desk: Desk) -> Iterator[Submission]:
    kind = _kind(source, desk)
    if kind == "file":
        yield replace(_of_file(Path(source).expanduser(), desk), is_file=True)
    elif kind == "folder":
        yield from _of_folder(_path(source, desk), desk)
    elif kind == "nothing" and any(sign in source for sign in "*?[") and (found := _matching(source, desk)):
        yield from (replace(_of_file(path, desk), is_file=True) for path in found)
    else:
        yield from _of_run(str(_path(source, desk)) if kind == "run" else source, desk)


def _matching(pattern: str, desk: Desk) -> list[Path]:
    """The files of a pattern, a model each."""
    found = sorted(glob.glob(pattern, root_dir=desk.settings.cwd, recursive=True))
    return [path for name in found if (path := desk.settings.cwd / name).is_file()]


def _of_run(name: str, desk: Desk) -> Iterator[Submission]:
    from layton_batch.errors import StoreError
    from layton_batch.grading.run_rows import run_submissions
    from layton_batch.run.open import find_run

    try:
        folder = find_run(name, desk.runs)
    except (StoreError, OSError, ValueError) as error:
        told = error.strerror if isinstance(error, OSError) else error
        raise DataError(f"{name[:200]}: no such file or folder, and {told}") from error
    yield from run_submissions(folder, desk.task)


def _of_file(path: Path, desk: Desk) -> Submission:
    where = str(path)
    if desk.task == "mcq_idk" and (totals := _totals(path)):
        one = _of_benchmark(totals, where, desk)
        return Submission(one.model.rpartition("/")[2], where, tuple, totals=one)
    is_detail = desk.task == "mcq_idk" and path.match(result_files.DETAILS)
    name = result_files.detail_of(path.absolute())[0] if is_detail else path.stem
    return Submission(_clean(name), where, lambda: first_of(prediction_rows(desk.task, path, desk.settings), where))


def _clean(name: str) -> str:
    """A name as text that every output can hold."""
    return name.encode("utf-8", "replace").decode().replace("\0", " ") or "model"


# ---- folders -------------------------------------------------------------------------------------------------------


def _of_folder(folder: Path, desk: Desk) -> Iterator[Submission]:
    if desk.task == "mcq_idk" and (found := _results_tree(folder, desk)):
        yield from found
        return
    try:
        files = sorted(path for path in folder.iterdir() if path.suffix in SUFFIXES and path.is_file())
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror or error})") from error
    if not files:
        raise DataError(f"{folder}: is a folder without predictions (*{', *'.join(SUFFIXES)}), and not a run's")
    yield from (_of_file(path, desk) for path in files)


def _results_tree(folder: Path, desk: Desk) -> list[Submission]:
    """evaluate-idk's results: of several runs of a model the one with the largest path counts.

    Replies are graded; of a model that only has totals, these stand as they were published.
    """
    details = [path for path in sorted(folder.rglob(result_files.DETAILS)) if path.is_file()]
    replies = [(*result_files.detail_of(path.absolute()), path) for path in details]
    totals = [
        (benchmark, result)
        for path in sorted(folder.rglob(result_files.TOTALS))
        for benchmark, result in (_totals(path) or {}).items()
    ]
    benchmark = _benchmark({name for _, name, _ in replies} | {name for name, _ in totals}, str(folder), desk)
    graded = {_clean(model): path for model, name, path in replies if name == benchmark}
    published = latest(result for name, result in totals if name == benchmark)
    alone = {name: result for name, result in published.items() if name not in graded}
    return [
        *(replace(_of_file(path, desk), name=model) for model, path in graded.items()),
        *(Submission(name, result.path, tuple, totals=result) for name, result in alone.items()),
    ]


def _totals(path: Path) -> dict[str, RunResult] | None:
    """A file of totals; None for any other."""
    if path.suffix != ".json":
        return None
    try:
        with path.open("rb") as handle:
            if not handle.read(64).lstrip().startswith(b"{"):
                return None
        return result_files.read_totals(path)
    except (OSError, DataError):
        return None


def _of_benchmark(totals: dict[str, RunResult], where: str, desk: Desk) -> RunResult:
    return totals[_benchmark(set(totals), where, desk)]


def _benchmark(names: set[str], where: str, desk: Desk) -> str:
    """The one that is there, or asked for. Raises ManifestError where there are several to choose from."""
    if desk.benchmark in names or len(names) <= 1:
        return desk.benchmark if desk.benchmark in names else next(iter(names), "")
    listed = ", ".join(sorted(names))
    if desk.benchmark is None:
        raise ManifestError(f"{where}: holds results of {listed}; --benchmark says which")
    raise ManifestError(f"{where}: holds no results of --benchmark {desk.benchmark!r}, but of {listed}")


# ---- names ---------------------------------------------------------------------------------------------------------


def _apart(found: Sequence[Submission]) -> list[Submission]:
    """Names that meet get as much of their folders as tells them apart, and a number where nothing does."""
    names = [one.name for one in found]
    for depth in range(1, 6):
        meeting = {name for name, count in Counter(names).items() if count > 1}
        if not meeting:
            break
        names = [_longer(one, depth) if name in meeting else name for one, name in zip(found, names, strict=True)]
    seen: Counter[str] = Counter()
    numbered = []
    for one, name in zip(found, names, strict=True):
        seen[name] += 1
        numbered.append(replace(one, name=name if seen[name] == 1 else f"{name} ({seen[name]})"))
    return numbered


def _longer(one: Submission, depth: int) -> str:
    """The name behind the last ``depth`` folders of where it is from."""
    if one.is_named:
        return one.name
    folders = Path(one.where).parent.parts if one.is_file else (one.where,)
    return _clean("/".join([*folders[-depth:], one.name]))
