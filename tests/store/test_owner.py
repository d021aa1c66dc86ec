"""Dead holders are told from living ones, and only where that can be known."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from layton_batch.processes import machine, started
from layton_batch.store import RunStore, sqlite_url
from layton_batch.store.owner import is_dead, new_owner, retire
from tests.store.rows import NOW, batch, opened

ROOT = Path(__file__).resolve().parents[2]
HOLD = """
import os, sys
from layton_batch.store import RunStore, open_engine
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
