"""`kill -9` at random moments of a loop of commits and checkpoints: each commit is there whole or not at all."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.paths import ROOT
from tests.support.tiers import tiered

LOOP = """
import json, os, random, signal, sys, time
from decimal import Decimal
from pathlib import Path
from sqlalchemy import event
from sqlalchemy.engine import Engine
from layton_batch.states import Lifecycle
from layton_batch.store.engine import open_engine, sqlite_url
from layton_batch.store.run_store import RunStore
from tests.support.store_rows import NOW, RUN, batch, moved, opened, store_on

# a checkpoint, which copies the log into the file, at every second commit or so, instead of at every thousandth page
event.listen(Engine, "connect", lambda connection, _: connection.execute("PRAGMA wal_autocheckpoint=6"))
path, draw, found = Path(sys.argv[1]), random.Random(0), []
with opened(sqlite_url(path), 1):
    pass

def commit_for_ever(told):
    store = store_on(open_engine(sqlite_url(path)))
    while True:
        now = store.batch(batch(0).id)
        sent = now.state is Lifecycle.PLANNED
        state = Lifecycle.SUBMITTING if sent else Lifecycle.PLANNED
        move = moved(now, state, detail="x" * 3000, failures=now.failures + 1)
        store.apply(now, move, NOW)
        os.write(told, b".")

for kill in range(int(sys.argv[2])):
    here, told = os.pipe()
    child = os.fork()
    if not child:
        try:
            commit_for_ever(told)
        finally:
            os._exit(1)
    os.close(told)
    os.read(here, 1)  # it is at it
    time.sleep(draw.random() * 0.01)
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    acknowledged = 1
    while part := os.read(here, 65536):
        acknowledged += len(part)
    os.close(here)
    engine = open_engine(sqlite_url(path))
    store = RunStore(engine, RUN)
    moves = sum(one.kind == "moved" for one in store.events())
    now = store.batch(batch(0).id)
    is_reserved = store.money().reserved == Decimal("0.50")
    found.append([acknowledged, moves, now.failures, now.state == "submitting", is_reserved])
    engine.dispose()
print(json.dumps(found))
"""


@pytest.mark.parametrize("kills", tiered((8, 25), ci=(8,)))
def test_a_store_killed_while_it_commits_or_checkpoints_has_every_commit_whole_or_not_at_all(
    tmp_path: Path, kills: int
) -> None:
    command = [sys.executable, "-c", LOOP, str(tmp_path / "state.sqlite3"), str(kills)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    before = 0
    for acknowledged, moves, counted, submitting, reserved in json.loads(done.stdout):
        assert moves == counted  # the event and the row of a commit: both or none
        assert submitting == reserved == bool(moves % 2)  # and the money
        assert moves - before in (acknowledged, acknowledged + 1)  # what was told is kept; one more was under way
        before = moves
