"""``scripts/bench [NAME...]``: run the named measurements, or all of them; ``help`` lists them."""

from __future__ import annotations

import sys

from tests.bench import paper_table, replay, start_up

BENCHES = {"start": start_up, "paper": paper_table, "replay": replay}


def main(names: list[str]) -> int:
    if names == ["help"]:
        for name, module in BENCHES.items():
            print(f"{name:8} {(module.__doc__ or '').splitlines()[0]}")
        return 0
    unknown = [name for name in names if name not in BENCHES]
    if unknown:
        print(f"no measurement {unknown[0]!r}; there are: {', '.join(BENCHES)}", file=sys.stderr)
        return 2
    for name in names or BENCHES:
        BENCHES[name].main()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
