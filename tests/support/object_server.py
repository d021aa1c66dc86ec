"""An S3 server on this machine, in memory, for one test session: ``python -m tests.support.object_server`` prints its
address and serves until its standard input ends."""

from __future__ import annotations

import itertools
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from urllib.request import Request, urlopen

_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class ObjectServer:
    """A running server."""

    url: str

    @property
    def environment(self) -> Mapping[str, str]:
        """What a program needs to reach it."""
        named = {"AWS_ACCESS_KEY_ID": "test-id", "AWS_SECRET_ACCESS_KEY": "test-secret", "AWS_REGION": "us-east-1"}
        return {**named, "AWS_ENDPOINT_URL": self.url}

    def new_bucket(self) -> str:
        """The name of a new, empty bucket."""
        name = f"bucket-{next(_numbers)}"
        with urlopen(Request(f"{self.url}/{name}", method="PUT")):
            return name


@contextmanager
def object_server() -> Iterator[ObjectServer]:
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.support.object_server"], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    with process:
        assert process.stdout is not None
        try:
            yield ObjectServer(process.stdout.readline().strip())
        finally:
            process.kill()


def _serve() -> None:
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    print(f"http://{host}:{port}", flush=True)  # noqa: T201
    sys.stdin.read()
    server.stop()


if __name__ == "__main__":
    _serve()
