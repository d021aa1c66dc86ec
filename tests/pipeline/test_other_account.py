"""A create whose reply was lost is not sent again with the key of another account, or to another gateway: there nobody
knows of it. A person decides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import orjson
import pytest

from layton_batch.batches.resolve import adopt_batch, send_again
from layton_batch.errors import ManifestError
from layton_batch.loop import drive
from layton_batch.records import Batch
from layton_batch.runs.open import open_run
from layton_batch.runs.status import RunState, Status
from layton_batch.runs.stores import open_store
from layton_batch.sandbox import Fault, Sandbox, SandboxConfig
from layton_batch.settings import Settings
from layton_batch.states import Lifecycle
from tests.support.accounts import switchboard
from tests.support.lab import PACING, Lab, answerer, lab, quiz_text
from tests.support.tiers import tiered

OLD, NEW = "key-of-the-old-project", "key-of-the-new-project"


class Accounts:
    """A lab whose sandbox has the old account, another sandbox with the new one, and one address for both."""

    def __init__(self, bench: Lab, other: Sandbox, address: str, homes: dict[str, str], provider: str) -> None:
        self.bench, self.other, self.homes, self.provider = bench, other, homes, provider
        self.text = quiz_text((provider,), limit=2)
        self._address = address

    def settings(self, key: str, *, gateway: str | None = None) -> Settings:
        """The environment with this key, at the common address or at another ``gateway``."""
        environment = dict(self.bench.server.environment())
        name = f"{self.provider.upper()}_BASE_URL"
        path = environment[name].removeprefix(self.bench.server.url)
        environment[name] = (gateway or self._address) + path
        environment[f"{self.provider.upper()}_API_KEY"] = key
        return Settings.from_environment(environment, self.bench.folder)

    def drive(self, settings: Settings, *, once: bool = False, hours: float = 400.0) -> Status:
        manifest, clock = self.bench.manifest(self.text), self.bench.clock
        with open_run(manifest, self.bench.runs, settings, clock=clock, pacing=PACING) as run:
            return drive(run, once=once, stop_at=clock.now() + hours * 3600)

    def adopt(self, settings: Settings, batch: Batch) -> None:
        """A person finds the batch in the console of the old account."""
        (there,) = (row["id"] for row in self._batches_at(self.bench.server) if row["provider"] == self.provider)
        manifest, clock = self.bench.manifest(self.text), self.bench.clock
        with open_run(manifest, self.bench.runs, settings, clock=clock, pacing=PACING) as run:
            adopt_batch(run, batch.id, there)

    def resend(self, settings: Settings, batch: Batch) -> None:
        """A person says that the batch was never made."""
        manifest, clock = self.bench.manifest(self.text), self.bench.clock
        with open_run(manifest, self.bench.runs, settings, clock=clock, pacing=PACING) as run:
            send_again(run, batch.id)

    def batches(self) -> list[Batch]:
        with open_store(self.bench.run_folder(self.text), self.bench.settings) as store:
            return list(store.batches())

    def events(self, kind: str) -> list[str]:
        with open_store(self.bench.run_folder(self.text), self.bench.settings) as store:
            return [event.detail for event in store.events() if event.kind == kind]

    def billed(self, server: Sandbox) -> list[str]:
        """Names of the requests that the sandbox billed; a look at its batches has all of them carried out."""
        self._batches_at(server)
        return [row.custom_id for row in server.ledger().rows]

    def _batches_at(self, server: Sandbox) -> list[dict[str, str]]:
        with urlopen(f"{server.url}/sandbox/batches") as reply:
            return list(orjson.loads(reply.read()))


@contextmanager
def accounts(folder: Path, provider: str, *faults: Fault) -> Iterator[Accounts]:
    with lab(folder, *faults) as bench:
        config = SandboxConfig(batch_seconds=60.0, answerer=answerer(), clock=bench.clock.true)
        with Sandbox(config) as other:
            homes = {OLD: bench.server.url, NEW: other.url}
            with switchboard(homes) as address:
                yield Accounts(bench, other, address, homes, provider)


LOST_REPLY = Fault(on="create", action="drop_after", times=1)


@pytest.mark.parametrize(
    ("provider", "change"),
    tiered(
        ("openai", "anthropic"),
        ("a rotated key", "another gateway"),
        ci=[("openai", "another gateway"), ("anthropic", "a rotated key")],
    ),
)
def test_an_unconfirmed_create_is_not_bought_again_under_another_account(
    tmp_path: Path, provider: str, change: str
) -> None:
    with accounts(tmp_path, provider, LOST_REPLY) as both:
        before = both.settings(OLD)
        after = both.settings(NEW) if change == "a rotated key" else both.settings(OLD, gateway=both.other.url)
        both.drive(before, once=True)
        (batch,) = both.batches()
        assert batch.state is Lifecycle.SUBMITTING
        status = both.drive(after)
        (batch,) = both.batches()
        assert (status.state, batch.state) == (RunState.NEEDS_PERSON, Lifecycle.LOST)
        assert both.billed(both.other) == []
        assert "created with another key, at another address or for another organisation" in (batch.reason or "")
        assert "resolve" in (batch.reason or "")
        # with the account that it was paid with, a person finds it, and nothing is lost
        both.adopt(before, batch)
        assert both.drive(before).state is RunState.DONE
        bought = both.billed(both.bench.server)
        assert len(bought) == len(set(bought)) == 2
        assert both.billed(both.other) == []


@pytest.mark.parametrize("provider", tiered(("openai", "anthropic"), ci=("openai",)))
def test_an_organisation_that_replies_name_is_an_account(tmp_path: Path, provider: str) -> None:
    with accounts(tmp_path, provider, LOST_REPLY) as both:
        both.drive(both.settings(OLD), once=True)
        both.homes[OLD] = both.other.url  # the same key at the same gateway, which pays with another organisation now
        both.drive(both.settings(OLD))
        (batch,) = both.batches()
        assert batch.state is Lifecycle.LOST
        assert both.billed(both.other) == []


def test_a_file_that_another_account_has_is_uploaded_again(tmp_path: Path) -> None:
    busy = Fault(on="create", action="status", status=429, times=1)
    with accounts(tmp_path, "openai", busy) as both:
        both.drive(both.settings(OLD), once=True)
        assert [batch.state for batch in both.batches()] == [Lifecycle.PLANNED]
        assert both.drive(both.settings(NEW)).state is RunState.DONE
        assert len(both.billed(both.other)) == 2


def test_a_second_create_waits_until_the_first_can_no_more_arrive(tmp_path: Path) -> None:
    with accounts(tmp_path, "openai", LOST_REPLY) as both:
        both.drive(both.settings(OLD), once=True)
        assert both.drive(both.settings(NEW)).state is RunState.NEEDS_PERSON
        (batch,) = both.batches()
        with pytest.raises(ManifestError, match=r"is not sent again yet: its create may still reach openai until "):
            both.resend(both.settings(NEW), batch)
        assert both.billed(both.other) == []
        both.bench.clock.sleep(660.0)
        both.resend(both.settings(NEW), batch)
        assert [batch.state for batch in both.batches()] == [Lifecycle.PLANNED]


def test_results_that_another_account_refuses_wait_for_a_person_and_are_not_lost(tmp_path: Path) -> None:
    with accounts(tmp_path, "openai", Fault(on="results", action="status", status=500, times=1)) as both:
        for _ in range(2):
            both.drive(both.settings(OLD), once=True)
            both.bench.clock.sleep(3600.0)
        status = both.drive(both.settings(NEW))
        assert status.state is RunState.NEEDS_PERSON
        (batch,) = both.batches()
        assert batch.state is Lifecycle.ENDED
        assert "set the earlier key, address and organisation again" in str(batch.reason)
        assert both.drive(both.settings(OLD)).state is RunState.DONE
        assert both.billed(both.other) == []


def test_no_key_stands_in_the_store(tmp_path: Path) -> None:
    with accounts(tmp_path, "openai") as both:
        both.drive(both.settings(OLD), once=True)
        (batch,) = both.batches()
        assert batch.account is not None
        assert OLD not in batch.account
        for path in both.bench.runs.rglob("*"):
            assert not path.is_file() or OLD.encode() not in path.read_bytes(), path
