"""A small compressed reply that stands for 1.8 GiB costs one call, not the memory."""

from __future__ import annotations

import tracemalloc
import zlib
from socket import socket
from threading import Event

import pytest

from layton_batch.errors import ProviderReplyError
from layton_batch.providers import closing, connect
from layton_batch.providers.protocol import Access, CallLimits, Provider
from layton_batch.records import Snapshot, Submission
from layton_batch.states import BatchOutcome, Lifecycle
from tests.hostile.conftest import calls
from tests.support.lab import MODELS
from tests.support.raw_server import Play, raw_server
from tests.support.tiers import tiered

MOST_MEMORY = 4 * CallLimits().reply_bytes
"""The limit of a reply, and what an HTTP library takes to inflate one piece from the network, 64 KiB, at once."""
ENDED = Snapshot("batches/b", "ended", Lifecycle.ENDED, BatchOutcome.COMPLETED, results_ref="files/out")


def bomb(mebibytes: int = 1843) -> bytes:
    """Gzipped spaces, a thousandth of their size; one block again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, -zlib.MAX_WBITS)
    block = packer.compress(b" " * 2**20) + packer.flush(zlib.Z_FULL_FLUSH)
    return b"\x1f\x8b\x08\0\0\0\0\0\0\xff" + block * mebibytes + packer.flush() + bytes(8)


BOMB = bomb()


def _sending(body: bytes, encoding: str) -> Play:
    head = (
        f"HTTP/1.1 200 OK\r\ncontent-encoding: {encoding}\r\ncontent-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )

    def play(connection: socket, _over: Event) -> None:
        connection.sendall(head.encode() + body)

    return play


def _downloaded(provider: Provider) -> int:
    return sum(len(chunk) for part in provider.results(ENDED) for chunk in part.chunks)


@pytest.mark.parametrize("name", tiered((*MODELS, "xai"), ci=("openai", "anthropic")))
def test_a_reply_that_inflates_to_gibibytes_is_given_up_within_little_memory(name: str, submission: Submission) -> None:
    assert len(BOMB) < 2_500_000
    with raw_server(_sending(BOMB, "gzip")) as url, closing(connect(name, Access("key", url))) as provider:
        for call, expected in calls(provider, submission, ProviderReplyError):
            tracemalloc.start()
            try:
                with pytest.raises(expected, match="MiB"):
                    call()
                assert tracemalloc.get_traced_memory()[1] < MOST_MEMORY
            finally:
                tracemalloc.stop()


# The file of Anthropic is named by another reply.
@pytest.mark.parametrize(
    "name", tiered((name for name in MODELS if name != "anthropic"), ci=("groq", "gemini", "mistral"))
)
def test_a_result_file_has_an_end(name: str) -> None:
    with raw_server(_sending(b"x" * 3 * 2**20, "identity")) as url:
        access = Access("key", url, CallLimits(file_bytes=2 * 2**20))
        with closing(connect(name, access)) as provider, pytest.raises(ProviderReplyError, match="more than 2 MiB"):
            _downloaded(provider)
