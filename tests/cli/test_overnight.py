"""A night of refreshes: side by side, at the same address, with what changed and what it cost; and who is told."""

from __future__ import annotations

import errno
import json
import os
import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import cast

import polars as pl
import pytest

import layton_batch as lb
from layton_batch.clock import iso
from layton_batch.errors import ManifestError
from layton_batch.providers.openai import Together
from layton_batch.sandbox import Fault
from layton_batch.text import money
from tests.support.cli_harness import NOBODY, Desk, call, desk
from tests.support.lab import MODELS, manifest_text, quiz_text


class Listener:
    """A server of ours that is told something: the documents, in order; ``codes``: what it answers first."""

    def __init__(self, *codes: int) -> None:
        self.codes, self.told = list(codes), list[dict[str, object]]()

    @contextmanager
    def at(self) -> Iterator[str]:
        listener = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                code = listener.codes.pop(0) if listener.codes else 204
                if not code:
                    self.wfile.write(b"no HTTP")
                    return
                if code < 300:
                    listener.told.append(json.loads(body))
                self.send_response(code)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_arguments: object) -> None:
                pass

        with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            try:
                yield f"http://127.0.0.1:{server.server_address[1]}/hook?token=x"
            finally:
                server.shutdown()
                thread.join()


def night(
    bench: Desk, *manifests: Path, webhook: str | None = None
) -> tuple[int, dict[str, list[dict[str, object]]], str]:
    """The exit code, the summary as JSON, and as Markdown; our clock passes by itself."""
    document = lb.overnight(manifests, site="public", webhook=webhook, runs="runs", clock=bench.lab.clock)
    summary = json.loads(Path("public/summary.json").read_bytes())
    assert summary == json.loads(json.dumps(document.as_json()))
    return document.end(), summary, Path("public/summary.md").read_text(encoding="utf-8")


SECOND = quiz_text(("mistral",), limit=2).replace('name = "lab"', 'name = "two"')


def test_a_night_publishes_each_run_at_its_address_and_the_board_of_a_refused_manifest_stays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        manifests = bench.write(quiz_text(limit=3)), bench.write(SECOND, "two.toml")
        code, summary, text = night(bench, *manifests)
        assert (code, [run["state"] for run in summary["runs"]]) == (0, ["done", "done"])
        assert sum(Decimal(str(run["spent_usd"])) for run in summary["runs"]) == bench.server_total()
        pages = [Path(str(run["page"])) for run in summary["runs"]]
        assert "# Refreshed" in text
        before, total = [page.stat().st_mtime_ns for page in pages], summary["runs"][0]["total_usd"]
        code, summary, _ = night(bench, *manifests)  # nothing new: nothing is sent, and nothing is published
        assert (code, [float(str(run["spent_usd"])) for run in summary["runs"]]) == (0, [0, 0])
        assert [page.stat().st_mtime_ns for page in pages] == before
        assert [run["changes"] for run in summary["runs"]] == [[], []]
        bench.write("oops = 1\n" + quiz_text(limit=3))
        for path, name, usd in (manifests[0], "lab", total), (tmp_path / "tpyo.toml", None, None):
            code, summary, text = night(bench, path, manifests[1], webhook=f"{NOBODY}/hook?token=x")
            refused, done = summary["runs"]
            assert (code, refused["run"], refused["state"], done["state"]) == (2, name, "refused", "done")
            assert (refused["total_usd"], refused["waiting"]) == (usd, None if name is None else 0)
            assert ("oops" if name else "tpyo") in str(refused["reason"])
            assert str(refused["reason"])[-20:] in text.replace("\\", "")
            front = Path("public/index.html").read_text(encoding="utf-8")
            assert all(f'href="{page.parent.name}/index.html"' in front for page in pages)
        assert ("127.0.0.1" in caplog.text, "token" in caplog.text) == (True, False)


def test_a_night_says_how_much_budget_is_missing_and_leaves_a_page_of_others_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        Path("public").mkdir()
        Path("public/index.html").write_text("mine", encoding="utf-8")
        path = bench.write(quiz_text(limit=2, top="[budget]\nmax_usd = 0.0001\n"))
        code, summary, text = night(bench, path)
        missing = Decimal(str(summary["runs"][0]["missing_usd"]))
        assert (code, summary["runs"][0]["state"]) == (3, "stopped by its budget")
        assert f"The budget lacks {money(missing)} for all planned batches" in text.replace("\\", "")
        assert Path("public/index.html").read_text(encoding="utf-8") == "mine"
        bench.write(quiz_text(limit=2, top=f'[budget]\nmax_usd = "{missing + Decimal("0.0001")}"\n'))
        assert night(bench, path)[0] == 0  # what was missing is enough for what was planned


def test_a_night_that_is_over_too_early_says_so_and_the_next_one_continues(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        path = bench.write(quiz_text(limit=2))
        with monkeypatch.context() as patch:
            patch.setattr("layton_batch.commands.overnight.deadline", lambda _until, clock: clock.now() + 1)
            code, summary, _ = night(bench, path)
        run = summary["runs"][0]
        assert (code, run["state"], run["page"]) == (75, "goes on the next night", None)
        code, summary, _ = night(bench, path)
        assert (code, Decimal(str(summary["runs"][0]["spent_usd"]))) == (0, bench.server_total())


def test_a_lost_batch_is_told_at_once_and_the_other_runs_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # a provider without a list of batches
    monkeypatch.setattr(Together, "find", lambda _self, _submission: ())
    monkeypatch.setattr(Together, "capabilities", replace(Together.capabilities, certain_find=False))
    lost_call, listener = Fault("create", "drop", "together", times=1), Listener()
    with desk(tmp_path, monkeypatch, lost_call) as bench, listener.at() as address:
        manifests = bench.write(quiz_text(("together",), limit=2)), bench.write(SECOND, "two.toml")
        code, summary, text = night(bench, *manifests, webhook=address)
        assert (code, [run["state"] for run in summary["runs"]]) == (4, ["waits for a person", "done"])
        assert [one["event"] for one in listener.told] == ["lost", "end"]
        [lost] = cast("list[str]", summary["runs"][0]["lost"])
        assert f"layton-batch resolve lab {lost}" in text.replace("\\", "")
        assert not any(secret in json.dumps(listener.told) for secret in bench.lab.settings.secrets())


def test_a_night_in_which_a_provider_takes_nothing_says_who_why_and_since_when_and_needs_a_person(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusals = Fault(on="create", action="status", provider="mistral", status=429, times=999)
    listener = Listener()
    with desk(tmp_path, monkeypatch, refusals) as bench, listener.at() as address:
        begun = bench.lab.clock.now()
        monkeypatch.setattr("layton_batch.commands.overnight.deadline", lambda _until, clock: clock.now() + 600)
        path = bench.write(quiz_text(("openai", "mistral"), limit=2))
        code, summary, text = night(bench, path, webhook=address)
        [run] = summary["runs"]
        [trouble] = cast("list[dict[str, object]]", run["troubles"])
        assert (code, run["state"], run["waiting"], run["unanswered"]) == (4, "waits for a person", 2, 0)
        assert (trouble["provider"], trouble["requests"], "429" in str(trouble["message"])) == ("mistral", 2, True)
        assert str(trouble["since"])[:16] == iso(begun)[:16]
        [end] = listener.told
        assert end["event"] == "end"
        assert all(str(trouble["message"]) in told for told in (str(end["text"]), text.replace("\\", "")))
        # the other model's board is published
        assert "larch-2-mini" in Path(str(run["page"])).read_text(encoding="utf-8")
        assert ("partial" in text, run["changes"]) == (True, [])
        shown = call("status", "lab", "--json").table()
        assert (shown["troubles"], shown["next_steps"]) == (run["troubles"], run["next_steps"])
        soon = datetime.fromtimestamp(bench.lab.clock.now() + 120)  # noqa: DTZ006  the clock on the wall is meant
        assert call("run", path, "--until", f"{soon:%H:%M}").code == 4
        assert call("run", path, "--once").code == 75
        assert "mistral: 2 requests wait since" in call("status", "lab").out


def test_a_webhook_is_tried_again_and_its_address_is_never_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        path = bench.write(quiz_text(limit=1))
        night(bench, path)
        for codes, events, reason in (
            ((503, 429), ["end"], None), ((0, 0), ["end"], None), ((410,), [], "HTTP 410"), ((503,) * 9, [], "HTTP 503")
        ):  # fmt: skip
            caplog.clear()
            listener = Listener(*codes)
            with listener.at() as address:
                assert night(bench, path, webhook=address)[0] == 0
            assert [told["event"] for told in listener.told] == events
            assert (reason or "") in caplog.text
            assert ("was not told" in caplog.text, "token" in caplog.text) == (reason is not None, False)
        assert len(listener.codes) == 9 - 3
        caplog.clear()
        night(bench, path, webhook=address)  # nobody listens there any more
        assert os.strerror(errno.ECONNREFUSED) in caplog.text
        with pytest.raises(ManifestError, match="webhook"):
            night(bench, path, webhook="file:///etc/passwd")


def test_changes_between_two_boards_say_why_and_what_moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with desk(tmp_path, monkeypatch) as bench:
        path = bench.write(manifest_text(("openai", "anthropic"), limit=4))
        night(bench, path)
        labels = lb.label_plan("lab", labels=4).frame.with_columns(
            answer_correct=False, justification_correct=False, annotator=pl.lit("ada")
        )
        lb.label_import("lab", labels)
        bench.write(manifest_text(("anthropic", "mistral"), limit=4))
        changes = cast("list[str]", night(bench, path)[1]["runs"][0]["changes"])
    forms = (
        f"Added: {MODELS['mistral']}", f"No longer .*: {MODELS['openai']}", "Method: .*", ".* 0 before, 2 now",
        rf"{MODELS['anthropic']}: [\d.]+ → [\d.]+, rank 1 → 2",
    )  # fmt: skip
    assert [re.fullmatch(rf"{form}\.", line) for form, line in zip(forms, changes, strict=True)].count(None) == 0
