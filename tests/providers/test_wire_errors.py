"""What SDKs and HTTP libraries raise becomes what the pipeline can act on."""

from __future__ import annotations

from types import SimpleNamespace

import httpx
import httpx2
import pytest

from layton_batch.errors import (
    AmbiguousCallError,
    NotFoundError,
    ProviderError,
    ProviderReplyError,
    RequestRefusedError,
    TransientProviderError,
)
from layton_batch.providers.wire_errors import concerns_account, errored, retry_after, translate
from layton_batch.providers.wire_json import clean
from layton_batch.states import ErrorClass

from .documents import Json, read_cases

SECRET = "sk-a-secret"


class APIError(Exception):
    """Of the shape that SDKs raise: ``status_code``, ``response`` and ``body``, ``raw_response`` at Mistral."""

    def __init__(self, message: str, **shape: object) -> None:
        super().__init__(message)
        self.__dict__ |= shape


class APIConnectionError(APIError):
    """Raised by the SDKs of OpenAI's shape when no reply came."""


def status(code: int, body: object = None, **headers: str) -> APIError:
    response = SimpleNamespace(status_code=code, headers=headers, text="")
    return APIError(f"Error code: {code}", status_code=code, response=response, body=body)


def of(error: BaseException, *, paid: bool = False) -> ProviderError:
    return translate(error, "openai", "poll batch b-1", secret=SECRET, paid=paid)


@pytest.mark.parametrize(("codes", "read", "paid"), [
    ((400, 401, 403, 413, 422), RequestRefusedError, RequestRefusedError),
    ((404,), NotFoundError, NotFoundError),
    ((407, 429), TransientProviderError, TransientProviderError),
    ((408, 409, 418, 423, 425, 460, 499, 500, 502, 529, 600, 999), TransientProviderError, AmbiguousCallError),
    ((200,), ProviderReplyError, AmbiguousCallError),
])  # fmt: skip
def test_a_status_means_one_thing_to_a_read_and_another_to_a_create(
    codes: tuple[int, ...], read: type[ProviderError], paid: type[ProviderError]
) -> None:
    for code in codes:
        for error, expected in ((of(status(code)), read), (of(status(code), paid=True), paid)):
            assert (type(error), error.status) == (expected, code)


@pytest.mark.parametrize("case", read_cases("errors.jsonl"), ids=lambda case: str(case["error"])[:60])
def test_the_trouble_of_an_account_is_told_from_a_wrong_request_in_whichever_way_it_is_said(case: Json) -> None:
    code, body = case["status"], case["error"]
    error = of(status(code, {"error": body}), paid=True)
    assert error.status == code
    assert concerns_account(error.status, error.code, str(error)) is case["of_account"]
    assert (errored("c", code, body).error_class is ErrorClass.ACCOUNT) is case["of_account"]


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_only_a_connection_that_was_never_made_did_nothing(library: type[httpx]) -> None:  # type: ignore[valid-type]
    for raw in (library.ConnectError("refused"), library.ConnectTimeout("slow"), library.PoolTimeout("full")):
        wrapped = APIConnectionError("Connection error.")
        wrapped.__cause__ = raw
        for error in (of(raw, paid=True), of(wrapped, paid=True)):
            assert (type(error), error.is_sent) == (TransientProviderError, False)
    later = library.ReadTimeout("slow")
    later.__context__ = library.ConnectError("an earlier call's")  # which does not make this one look unsent
    lost = (later, library.RemoteProtocolError("closed"), library.WriteError("reset"))
    for raw in (*lost, library.UnsupportedProtocol("no scheme")):  # which may be where a redirect led
        assert (type(of(raw, paid=True)), type(of(raw))) == (AmbiguousCallError, TransientProviderError)


def test_each_shape_of_error_is_read() -> None:
    told = {"error": {"message": "RESOURCE_EXHAUSTED: wait", "status": "RESOURCE_EXHAUSTED"}}
    google = of(APIError("429", code=429, details=told, response=None))
    answered = SimpleNamespace(status_code=503, headers={"Retry-After": "3"}, text="")
    mistral = of(APIError("", status_code=503, body='{"detail": [{"msg": "busy"}]}', raw_response=answered))
    assert type(google) is type(mistral) is TransientProviderError
    assert (google.code, mistral.retry_after) == ("RESOURCE_EXHAUSTED", 3.0)
    assert ("wait" in str(google), "busy" in str(mistral)) == (True, True)
    response = httpx.Response(404, json={"message": "no such batch"}, request=httpx.Request("GET", "http://x/"))
    raw = of(httpx.HTTPStatusError("404", request=response.request, response=response))
    assert (type(raw), "no such batch" in str(raw)) == (NotFoundError, True)


def test_a_message_is_one_short_printable_line_without_the_key() -> None:
    error = of(status(400, {"error": {"message": "bad\x1b[31m field\u202e\n\nhere", "code": "invalid_request"}}))
    assert (str(error), error.code) == ("openai: poll batch b-1: HTTP 400: bad [31m field here", "invalid_request")
    assert len(str(of(status(400, {"message": "x" * 100_000})))) < 400
    assert clean("a\x00b\x1b]0;t\x07\u2028c\ud800 d\u200fe") == "a b ]0;t c d e"
    assert clean("x" * 500, 10) == "x" * 9 + "…"
    for told in (status(401, {"error": {"message": f"Incorrect API key {SECRET}"}}), httpx.ReadError(SECRET)):
        assert SECRET not in str(of(told)) + str(of(told, paid=True))


@pytest.mark.parametrize(("headers", "seconds"), [
    ({"Retry-After": "7"}, 7.0),
    ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
    ({"retry-after": "Sat, 21 Nov 2026 10:00:30 GMT"}, None),
    ({"retry-after": "86400"}, 3600.0),
    ({"retry-after": "-5"}, 0.0),
    ({"retry-after": "inf"}, None),
    ({"retry-after": "soon", "date": "never"}, None),
    ({}, None),
])  # fmt: skip
def test_retry_after_is_read_in_each_form_and_bounded(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds
