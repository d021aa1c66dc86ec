"""What labels say by themselves that were picked with known chances: no jury, no model, no assumption about either."""

from __future__ import annotations

from layton_batch.stats.strata import FloatArray, Ints


def share_by_propensity(label: Ints, chance: FloatArray, group: Ints) -> tuple[float, float]:
    """Hajek's estimate of the share of right answers and its standard error, from [n] labels of 0 and 1, the chance
    with which each was picked, and the group (a vote, say) within which it was picked at random.

    A label stands for 1 / chance answers. The variance is that of a stratified sample; the spread within a group is
    Jeffreys', so that a group whose labels all agree does not pass for certain.
    """
    weight = 1 / chance
    share = float((weight * label).sum() / weight.sum())
    variance = 0.0
    for key in set(zip(group.tolist(), chance.tolist(), strict=True)):
        rows = (group == key[0]) & (chance == key[1])
        count = int(rows.sum())
        rate = (float(label[rows].sum()) + 0.5) / (count + 1)
        variance += (count / key[1]) ** 2 * (1 - key[1]) * rate * (1 - rate) / max(count - 1, 1)
    return share, float(variance**0.5 / weight.sum())
