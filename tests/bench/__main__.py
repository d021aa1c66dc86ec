"""``scripts/bench [NAME...] [--full]``: run the named measurements, or all of them; ``help`` lists them.

``scripts/bench faults --help`` lists what faults takes besides.
"""

from __future__ import annotations

import sys

from tests.bench import coverage, faults, grade, paper_table, replay, start_up, stats

BENCHES = {
    "start": start_up,
    "paper": paper_table,
    "stats": stats,
    "coverage": coverage,
    "replay": replay,
    "grade": grade,
    "faults": faults,
}
WITH_FLAGS = {"coverage": coverage}


def main(arguments: list[str]) -> int:
    if arguments[:1] == ["faults"]:
        return faults.main(arguments[1:])
    names = [one for one in arguments if not one.startswith("-")]
    flags = [one for one in arguments if one.startswith("-")]
    if names == ["help"]:
        for name, module in BENCHES.items():
            print(f"{name:8} {(module.__doc__ or '').splitlines()[0]}")
        return 0
    unknown = [name for name in names if name not in BENCHES] + [flag for flag in flags if flag not in coverage.FLAGS]
    if unknown:
        print(f"no measurement {unknown[0]!r}; there are: {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    for name in names or BENCHES:
        if name in WITH_FLAGS:
            WITH_FLAGS[name].main(flags)
        else:
            BENCHES[name].main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
