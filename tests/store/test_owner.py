"""Dead holders are told from living ones, and only where that can be known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from layton_batch.processes import machine, started
from layton_batch.store.engine import sqlite_url
from layton_batch.store.leases import Holder, is_dead, new_owner, retire, shares_our_clock
from layton_batch.store.run_store import RunStore
from tests.store.rows import NOW, batch, opened

ROOT = Path(__file__).resolve().parents[2]
HOLD = """
import os, sys
from layton_batch.store.engine import open_engine
from layton_batch.store.run_store import RunStore
store = RunStore(open_engine(sys.argv[1]), sys.argv[2])
assert len(store.claim(float(sys.argv[3]))) == 1
print(store.holder.owner, flush=True)
sys.stdin.read()
os._exit(9)
"""


def test_a_holder_of_this_process_is_alive_until_it_retires() -> None:
    owner = new_owner()
    assert new_owner() != owner
    assert not is_dead(owner)
    retire(owner)
    assert is_dead(owner)


def test_what_cannot_be_known_is_not_called_dead() -> None:
    pid, begun = 2**22 + 1, "1"
    assert is_dead(f"{machine()}/{pid}/{begun}/1")
    for owner in (f"elsewhere.boot.1/{pid}/{begun}/1", f"-/{pid}/{begun}/1", "odd", "", "a/b/c/d"):
        assert not is_dead(owner)


def test_a_process_id_used_again_by_another_process_is_not_the_holder() -> None:
    assert started(1) is not None
    assert is_dead(f"{machine()}/1/0/1")


def test_a_lease_of_a_killed_process_is_free_at_once_and_of_a_living_one_is_not(tmp_path: Path) -> None:
    url = sqlite_url(tmp_path / "state.sqlite3")
    with opened(url) as store:
        store.close()
        other = RunStore(store.engine, store.run_id)
        command = [sys.executable, "-c", HOLD, url, store.run_id, str(NOW)]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT) as child:
            assert child.stdout is not None
            owner = child.stdout.readline().strip()
            assert owner
            assert not is_dead(owner)
            assert other.claim(NOW + 1) == []
            child.kill()
        assert is_dead(owner)
        assert [one.id for one in other.claim(NOW + 1)] == [batch(0).id]


ELSEWHERE = "elsewhere.boot.1/7/1/1"


def test_a_lease_of_this_machine_is_over_when_its_time_is_and_of_another_when_nobody_renewed_it_meanwhile() -> None:
    holder, mine = Holder(), new_owner()
    assert shares_our_clock(mine)
    assert not shares_our_clock(ELSEWHERE)
    assert (holder.sees_over(mine, NOW, NOW - 1), holder.sees_over(mine, NOW, NOW)) == (False, True)
    for ahead in (-200.0, 0.0, 200.0):  # of the other host's clock; its lease is renewed every forty seconds
        watching = Holder()
        for passed in range(0, 1000, 10):
            until = NOW + passed // 40 * 40 + ahead + watching.seconds
            assert not watching.sees_over(ELSEWHERE, until, NOW + passed)
        last = NOW + 960 + ahead + watching.seconds
        assert not watching.sees_over(ELSEWHERE, last, NOW + 960 + 119)
        assert watching.sees_over(ELSEWHERE, last, NOW + 960 + 120)


def test_a_lease_that_no_difference_of_clocks_explains_is_over_at_once() -> None:
    assert Holder().sees_over(ELSEWHERE, NOW - 600, NOW)
    assert not Holder().sees_over(ELSEWHERE, NOW - 599, NOW)


def test_a_clock_that_is_put_back_makes_no_lease_of_another_host_last_for_longer_than_its_length() -> None:
    holder = Holder()
    assert not holder.sees_over(ELSEWHERE, NOW + 100, NOW)
    assert not holder.sees_over(ELSEWHERE, NOW + 100, NOW - 86_400)
    assert holder.sees_over(ELSEWHERE, NOW + 100, NOW - 86_400 + 120)
