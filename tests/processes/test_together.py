"""Two real commands on one run, and a command killed while SQLite commits."""

from __future__ import annotations

import random
import signal
from collections import Counter

from tests.support.commands import ITEMS, Bench, broken_claims

COMMITS = (1, 5, 9)


def test_of_two_commands_started_at_once_one_drives_the_run_and_pays_each_row_once(place: Bench) -> None:
    manifest = place.write("both", ["openai", "anthropic", "openai", "anthropic"])
    commands = [place.start(manifest), place.start(manifest)]
    assert sorted(command.wait() for command in commands) == [0, 75]
    (driver,) = [command for command in commands if command.wait() == 0]
    (refused,) = [command for command in commands if command.wait() == 75]
    assert f"is driven by process {driver.process.pid} on " in refused.said
    assert not broken_claims(place, driver.status())


def test_two_runs_started_at_once_make_the_database_of_their_workspace_once(place: Bench) -> None:
    manifests = [place.write("first", ["openai"]), place.write("second", ["anthropic"])]
    commands = [place.start(manifest) for manifest in manifests]
    ends = [command.status() for command in commands]
    assert [(end["run"], end["state"]) for end in ends] == [("first", "done"), ("second", "done")]
    times = Counter(row["custom_id"] for row in place.billed())
    assert (set(times.values()), len(times)) == ({1}, 2 * ITEMS)
    assert [path.parent for path in place.folder.rglob("state.sqlite3")] == [place.folder / "runs"]


def test_a_command_killed_while_sqlite_commits_goes_on_from_one_side_of_the_commit_or_the_other(place: Bench) -> None:
    draw = random.Random(0)
    manifest = place.write("torn", ["groq", "doubleword"])
    ends = []
    for commit in COMMITS:
        command = place.start(manifest, KILL_IN_COMMIT=f"{commit}:{draw.random() * 0.002:.6f}")
        ends.append(command.wait())
    assert set(ends) <= {-signal.SIGKILL, 0}  # 0: it was done before it came to that commit
    assert ends.count(-signal.SIGKILL) >= len(COMMITS) / 2
    status, _ = place.until_done(manifest)
    assert not broken_claims(place, status)
