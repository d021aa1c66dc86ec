"""Calls that cannot be served are refused in the provider's own form, whatever bytes they consist of."""

from __future__ import annotations

from tests.support.sandbox_clients import bench

MISSING_KEY = {
    "openai": ("/openai/v1/batches", lambda body: body["error"]["code"] == "invalid_api_key"),
    "groq": ("/groq/openai/v1/batches", lambda body: body["error"]["code"] == "invalid_api_key"),
    "doubleword": ("/doubleword/v1/batches", lambda body: body["error"]["code"] == "invalid_api_key"),
    "anthropic": ("/anthropic/v1/messages/batches", lambda body: body["error"]["type"] == "authentication_error"),
    "gemini": ("/gemini/v1/batches", lambda body: body["error"]["status"] == "UNAUTHENTICATED"),
    "mistral": ("/mistral/v1/batch/jobs", lambda body: body["detail"] == "Unauthorized"),
    "together": ("/together/v1/batches", lambda body: body["error"]["code"] == "invalid_api_key"),
}


def test_without_a_key_every_provider_says_401_and_unknown_paths_are_404_in_its_shape():
    import httpx

    with bench() as b, httpx.Client(base_url=b.sandbox.url) as client:
        for provider, (path, shaped) in MISSING_KEY.items():
            reply = client.get(path)
            assert reply.status_code == 401, provider
            assert shaped(reply.json()), provider
            lost = client.get(path + "/x/y/z", headers={"Authorization": "Bearer k"})
            assert lost.status_code == 404
            assert lost.json()


def test_broken_bodies_are_refused_not_crashed_on():
    import httpx

    head = {"Authorization": "Bearer k", "x-goog-api-key": "k", "anthropic-version": "2023-06-01"}
    paths = {
        "/openai/v1/batches": 400,
        "/anthropic/v1/messages/batches": 400,
        "/gemini/v1/models/m:batchGenerateContent": 400,
        "/mistral/v1/batch/jobs": 400,
        "/together/v1/batches": 400,
    }
    bodies = [b"", b"{", b"[]", b"null", b"\xff", b'{"requests": [', b'{"requests": [{},]}', b'{"requests": {}}']
    with bench() as b, httpx.Client(base_url=b.sandbox.url) as client:
        for path, status in paths.items():
            for body in bodies:
                reply = client.post(path, content=body, headers=head)
                assert 400 <= reply.status_code < 500, (path, body, reply.text)
            assert client.post(path, content=b"{", headers=head).status_code == status
        multipart = {**head, "Content-Type": "multipart/form-data; boundary=x"}
        for path in ("/openai/v1/files", "/mistral/v1/files", "/together/v1/files/upload", "/together/v1/files"):
            reply = client.post(path, content=b"garbage", headers=multipart)
            assert 400 <= reply.status_code < 500, (path, reply.text)
