"""``scripts/bench [NAME...]``: run the named measurements, or all of them; ``help`` lists them.

``scripts/bench faults --help`` lists what faults takes besides, ``coverage --help`` which worlds and boards there are;
``planted`` takes names of faults;
``prepare``, ``revisions``, ``collect``, ``tick``, ``site`` and ``board`` have sizes.
``scripts/bench --check`` compares ratios with ``ratios.json`` and fails where one is a fifth worse; ``--keep`` writes
it. A measurement is imported when it runs: a child's peak memory counts what its parent had at the moment of forking.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

BENCHES = {
    "start": "start_up",
    "paper": "paper_table",
    "replay": "replay",
    "refresh": "refresh",
    "stats": "stats",
    "coverage": "coverage",
    "juries": "juries",
    "labels": "labels",
    "grade": "grade",
    "batch": "large_batch",
    "prepare": "prepare",
    "revisions": "revisions",
    "collect": "collect",
    "tick": "tick",
    "site": "site",
    "board": "board",
    "faults": "faults",
    "planted": "planted_faults",
}
SIZED = ("coverage", "prepare", "revisions", "collect", "tick", "site", "board")
CHECKING = ("faults", "planted")
"""They end with 1 where a claim does not hold."""
SINGLE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def bench(name: str) -> ModuleType:
    """The module of a measurement."""
    return importlib.import_module(f"benchmarks.{BENCHES[name]}")


def main(arguments: list[str]) -> int:
    if arguments[:1] and arguments[0] in CHECKING:
        return int(bench(arguments[0]).main(arguments[1:]))
    if arguments[:1] and arguments[0] in SIZED:
        if arguments[0] == "coverage":
            # matrices of a made-up board are small: threads take longer to start than to be done
            os.environ.update(dict.fromkeys(SINGLE, "1"))
        bench(arguments[0]).main(arguments[1:])
        return 0
    if arguments in (["--check"], ["--keep"]):
        kept = importlib.import_module("benchmarks.kept")
        return int(kept.check() if arguments == ["--check"] else kept.keep() or 0)
    names = list(arguments)
    if names == ["help"]:
        for name in BENCHES:
            print(f"{name:9} {(bench(name).__doc__ or '').splitlines()[0]}")
        return 0
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        print(f"no measurement {unknown[0]!r}; there are: {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    for name in names or BENCHES:
        bench(name).main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
