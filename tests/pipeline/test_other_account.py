"""A create whose reply was lost is not sent again with the key of another account, or to another gateway: there nobody
knows of it. A person decides."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import orjson
import pytest

from layton_batch.errors import ManifestError
from layton_batch.records import Batch
from layton_batch.sandbox import Fault, Sandbox, SandboxConfig
from layton_batch.settings import Settings
from layton_batch.states import Lifecycle
from tests.support.accounts import switchboard
from tests.support.lab import Lab, RunState, Status, answerer, lab, quiz_text
from tests.support.tiers import tiered

OLD, NEW = "key-of-the-old-project", "key-of-the-new-project"
LOST_REPLY = Fault(on="create", action="drop_after", times=1)
ROTATED, GATEWAY = "a rotated key", "another gateway"


class Accounts:
    """A lab whose sandbox has the old account, another sandbox with the new one, and one address for both."""

    def __init__(self, bench: Lab, other: Sandbox, address: str, homes: dict[str, str], provider: str) -> None:
        self.bench, self.other, self.homes, self.provider = bench, other, homes, provider
        self.text = quiz_text((provider,), limit=2)
        self._address = address

    def log_in(self, key: str, gateway: str = "") -> None:
        """Set the environment to this key, at the common address or at another ``gateway``."""
        environment = dict(self.bench.server.environment())
        name = f"{self.provider.upper()}_BASE_URL"
        environment[name] = (gateway or self._address) + environment[name].removeprefix(self.bench.server.url)
        environment[f"{self.provider.upper()}_API_KEY"] = key
        self.bench.settings = Settings.from_environment(environment, self.bench.folder)

    def once(self) -> Batch:
        """Do what can be done without waiting; return the batch."""
        (batch,) = self.bench.once(self.text).batches
        return batch

    def finish(self) -> Status:
        return self.bench.finish(self.text)

    def batches_at(self, server: Sandbox) -> list[str]:
        """Ids of the sandbox's batches, which carries them out when it is looked at."""
        with urlopen(f"{server.url}/sandbox/batches") as reply:
            return [row["id"] for row in orjson.loads(reply.read())]

    def billed(self, server: Sandbox) -> list[str]:
        self.batches_at(server)
        return [row.custom_id for row in server.ledger().rows]


@contextmanager
def accounts(folder: Path, provider: str, *faults: Fault) -> Iterator[Accounts]:
    with lab(folder, *faults) as bench:
        config = SandboxConfig(batch_seconds=60.0, answerer=answerer(), clock=bench.clock.true)
        with Sandbox(config) as other:
            homes = {OLD: bench.server.url, NEW: other.url}
            with switchboard(homes) as address:
                both = Accounts(bench, other, address, homes, provider)
                both.log_in(OLD)
                yield both


@pytest.mark.parametrize(
    ("provider", "change"),
    tiered(("openai", "anthropic"), (ROTATED, GATEWAY), ci=[("openai", GATEWAY)]),
)
def test_an_unconfirmed_create_is_not_bought_again_under_another_account(
    tmp_path: Path, provider: str, change: str
) -> None:
    with accounts(tmp_path, provider, LOST_REPLY) as both:
        assert both.once().state is Lifecycle.SUBMITTING
        both.log_in(OLD, both.other.url) if change == GATEWAY else both.log_in(NEW)
        status = both.finish()
        (batch,) = status.batches
        assert (status.state, batch.state) == (RunState.NEEDS_PERSON, Lifecycle.LOST)
        with pytest.raises(ManifestError, match="may still reach"):  # a second create waits until it no more can
            both.bench.resolve(both.text, batch.id, "resubmit")
        assert both.billed(both.other) == []
        # with the account that it was paid with, a person finds it, and nothing is lost
        both.log_in(OLD)
        both.bench.resolve(both.text, batch.id, "adopt", both.batches_at(both.bench.server)[0])
        assert both.finish().state is RunState.DONE
        bought = both.billed(both.bench.server)
        assert len(bought) == len(set(bought)) == 2
        assert both.billed(both.other) == []


def test_a_file_that_another_account_has_is_uploaded_again(tmp_path: Path) -> None:
    with accounts(tmp_path, "openai", Fault(on="create", action="status", status=429, times=1)) as both:
        assert both.once().state is Lifecycle.PLANNED
        both.log_in(NEW)
        assert both.finish().state is RunState.DONE
        assert len(both.billed(both.other)) == 2


def test_results_that_another_account_refuses_wait_for_a_person_and_are_not_lost_and_no_key_is_kept(
    tmp_path: Path,
) -> None:
    with accounts(tmp_path, "openai", Fault(on="results", action="status", status=500, times=1)) as both:
        for _ in range(2):
            both.once()
            both.bench.clock.sleep(3600.0)
        both.log_in(NEW)
        status = both.finish()
        assert (status.state, status.batches[0].state) == (RunState.NEEDS_PERSON, Lifecycle.ENDED)
        both.log_in(OLD)
        assert both.finish().state is RunState.DONE
        assert both.billed(both.other) == []
        for path in both.bench.runs.rglob("*"):
            assert not path.is_file() or OLD.encode() not in path.read_bytes(), path
