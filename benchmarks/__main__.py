"""``scripts/bench [NAME...]``: run the named measurements, or all of them; ``help`` lists them.

One NAME may have options: ``scripts/bench prepare --help`` shows them. ``planted`` takes names of faults.
A measurement is imported when it runs: a child's peak memory counts what its parent had at the moment of forking.
"""

from __future__ import annotations

import importlib
import os
import sys
from types import ModuleType

BENCHES = {
    "prepare": "prepare",
    "collect": "collect",
    "site": "site",
    "board": "board",
    "coverage": "coverage",
    "refresh": "refresh",
    "faults": "faults",
    "torture": "torture",
    "start": "start_up",
    "planted": "planted_faults",
}
"""Modules of the measurements, by name."""
SIZED = ("prepare", "collect", "site", "board", "coverage")
CHECKING = ("faults", "torture", "planted")
"""Measurements that end with 1 if a claim does not hold."""
SINGLE = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def bench(name: str) -> ModuleType:
    """Return the module of a measurement."""
    return importlib.import_module(f"benchmarks.{BENCHES[name]}")


def main(arguments: list[str]) -> int:
    """Run the measurements that the arguments name, and return the exit code."""
    if arguments[:1] and arguments[0] in CHECKING:
        return int(bench(arguments[0]).main(arguments[1:]))
    if arguments[:1] and arguments[0] in SIZED:
        if arguments[0] == "coverage":
            # matrices of a made-up board are small: threads take longer to start than to be done
            os.environ.update(dict.fromkeys(SINGLE, "1"))
        bench(arguments[0]).main(arguments[1:])
        return 0
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
