"""A headless Chromium driven over its DevTools pipe: no port, no network, no further dependency."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson

_PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "chrome", "headless_shell")
_PATIENCE = 60.0  # seconds for one answer on a machine that is busy with other things
_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync",
    "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage",
    "--remote-debugging-pipe",
)  # fmt: skip
# Chromium reads commands on descriptor 3 and writes on 4; ours may be any two, these included.
_LAUNCH = (
    "import fcntl, os, sys; high = [fcntl.fcntl(int(fd), fcntl.F_DUPFD, 10) for fd in sys.argv[1:3]]; "
    "os.dup2(high[0], 3); os.dup2(high[1], 4); os.execv(sys.argv[3], sys.argv[3:])"
)
_TROUBLE = {"Runtime.exceptionThrown", "Log.entryAdded", "Runtime.consoleAPICalled"}


class Browser:
    """One process; close it to end it."""

    def __init__(self, program: str, profile: Path) -> None:
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()
        launch = [sys.executable, "-c", _LAUNCH, str(theirs_in), str(theirs_out), program]
        self._process = subprocess.Popen(
            [*launch, *_FLAGS, f"--user-data-dir={profile}", "about:blank"],
            pass_fds=(theirs_in, theirs_out),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._buffer = bytearray()
        self._number = 0
        self.events: list[dict[str, Any]] = []
        self._targets: list[str] = []

    def close(self) -> None:
        try:
            self.call("Browser.close")
            self._process.wait(10)
        except (AssertionError, OSError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)

    def call(self, method: str, params: Mapping[str, object] | None = None, session: str | None = None) -> Any:
        """The result of one command; events that come meanwhile are kept."""
        self._number += 1
        command = {"id": self._number, "method": method, "params": dict(params or {})}
        os.write(self._out, orjson.dumps(command | ({"sessionId": session} if session else {})) + b"\0")
        while True:
            message = self._message()
            if message.get("id") == self._number:
                assert "error" not in message, message
                return message["result"]
            self.events.append(message)

    def wait_for(self, method: str, session: str) -> None:
        """Return when the event has come, now or before."""
        while not any(one["method"] == method and one.get("sessionId") == session for one in self.events):
            self.events.append(self._message())

    def _message(self) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE
        while (end := self._buffer.find(b"\0")) < 0:
            ready, _, _ = select.select([self._in], [], [], max(deadline - time.monotonic(), 0))
            assert ready, "the browser did not answer"
            chunk = os.read(self._in, 1 << 16)
            assert chunk, "the browser ended"
            self._buffer += chunk
        message: dict[str, Any] = orjson.loads(self._buffer[:end])
        del self._buffer[: end + 1]
        return message

    def open(self, page: Path, *, width: int = 1280, dark: bool = False) -> Tab:
        """A new tab with the page loaded; of earlier ones the last three stay open."""
        target = self.call("Target.createTarget", {"url": "about:blank"})["targetId"]
        self._targets.append(target)
        for old in self._targets[:-4]:
            self.call("Target.closeTarget", {"targetId": old})
        del self._targets[:-4]
        session = self.call("Target.attachToTarget", {"targetId": target, "flatten": True})["sessionId"]
        tab = Tab(self, session)
        for domain in ("Page", "Runtime", "Log", "Network"):
            tab.call(f"{domain}.enable")
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        tab.call("Emulation.setDeviceMetricsOverride", size)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        tab.call("Emulation.setEmulatedMedia", {"features": [scheme]})
        tab.call("Page.navigate", {"url": page.as_uri()})
        self.wait_for("Page.loadEventFired", session)
        return tab


def chromium() -> str | None:
    """The path of a Chromium on this machine; None where there is none."""
    return next((path for name in _PROGRAMS if (path := shutil.which(name))), None)


@dataclass(slots=True)
class Tab:
    """One page in the browser."""

    browser: Browser
    session: str
    _seen: int = field(default=0)

    def call(self, method: str, params: Mapping[str, object] | None = None) -> Any:
        return self.browser.call(method, params, self.session)

    def run(self, expression: str, *, awaits: bool = False) -> Any:
        """The value of a JavaScript expression, evaluated in the page's world."""
        asked = {"expression": expression, "returnByValue": True, "awaitPromise": awaits}
        result = self.call("Runtime.evaluate", asked)
        assert "exceptionDetails" not in result, result
        return result["result"].get("value")

    def wait(self, promise: str) -> Any:
        """What a JavaScript promise comes to, when it is kept."""
        return self.run(promise, awaits=True)

    def press(self, key: str) -> None:
        """A key pressed and let go, where the focus is."""
        code = {"windowsVirtualKeyCode": code, "code": key} if (code := {"Tab": 9, "Enter": 13}.get(key)) else {}
        text = {"text": "\r" if key == "Enter" else key} if key == "Enter" or len(key) == 1 else {}
        self.call("Input.dispatchKeyEvent", {"type": "keyDown", "key": key, **code, **text})
        self.call("Input.dispatchKeyEvent", {"type": "keyUp", "key": key, **code})

    def trouble(self) -> list[str]:
        """What the browser complained of: errors, warnings, violations of the policy, console output."""
        self.run("0")  # whatever was on its way has come before this answer
        return [str(one["params"]) for one in self._mine() if one["method"] in _TROUBLE]

    def requests(self) -> list[str]:
        """Addresses the page asked for."""
        return [one["params"]["request"]["url"] for one in self._mine() if one["method"] == "Network.requestWillBeSent"]

    def _mine(self) -> list[dict[str, Any]]:
        return [one for one in self.browser.events if one.get("sessionId") == self.session]
