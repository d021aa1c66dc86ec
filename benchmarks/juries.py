"""How often 95 % intervals hold the truth with labels of another jury: trusted as they are, and rejudged."""

from __future__ import annotations

from tests.stats.other_jury import ITEMS, JURIES, LABELLED_MODELS, LABELS, MODELS, measure

BOARDS, SEED = 100, 20_261_122


def main() -> None:
    print(f"{BOARDS} boards of {MODELS} models on {ITEMS} items; {LABELLED_MODELS} x {LABELS} labels; seed {SEED}\n")
    print("| the other jury | trusted: coverage | half width | rejudged: coverage | half width |")
    print("|---|---|---|---|---|")
    for jury in JURIES:
        found = measure(jury, BOARDS, seed=SEED)
        cells = [f"{one.covered:.3f} | ± {100 * one.half_width:.1f}" for one in found.values()]
        print(f"| {jury} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
