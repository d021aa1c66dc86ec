"""What the environment says: keys, addresses, where state lives. The only place that reads it.

Names are the providers' SDKs' own. A ``.env`` in the working folder fills what the real environment does not set; it
never overrides it.
"""

from __future__ import annotations

import ipaddress
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from layton_batch.clock import Pacing
from layton_batch.errors import DataError, ManifestError, MissingKeyError

HUB = "https://huggingface.co"
_API_VERSION = re.compile(r"v\d{1,3}((alpha|beta)\d{0,3})?")
_SECRET = re.compile(r"(KEY|TOKEN|SECRET|PASSWORD|PASSWD|CREDENTIALS)$", re.IGNORECASE)


class Credentials(NamedTuple):
    """A provider's key and, where the environment sets one, its address. The key is not in the repr."""

    api_key: str
    base_url: str | None

    def __repr__(self) -> str:
        return f"Credentials(api_key='***', base_url={self.base_url!r})"


@dataclass(frozen=True, slots=True)
class _Names:
    """Environment variables of one provider; the first one set wins."""

    keys: tuple[str, ...]
    urls: tuple[str, ...]
    versions: tuple[str, ...] = ()
    """Of the API: for providers whose address does not say it."""


_EXCEPTIONS: Mapping[str, _Names] = {
    "gemini": _Names(("GEMINI_API_KEY", "GOOGLE_API_KEY"), ("GOOGLE_GEMINI_BASE_URL",), ("GOOGLE_GENAI_API_VERSION",)),
    "vertex": _Names(("GOOGLE_VERTEX_ACCESS_TOKEN",), ("GOOGLE_VERTEX_BASE_URL",)),
}
"""Providers whose variables are not simply ``<NAME>_API_KEY`` and ``<NAME>_BASE_URL``."""


@dataclass(frozen=True, slots=True)
class Settings:
    """A snapshot of the environment. Values stay out of the repr because some of them are secrets."""

    cwd: Path
    _values: Mapping[str, str] = field(default_factory=dict, repr=False)

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], cwd: Path) -> Settings:
        """The given environment over ``cwd/.env``. Raises DataError for a ``.env`` that cannot be read."""
        return cls(cwd, {**_dotenv(cwd / ".env"), **{name: value for name, value in environ.items() if value.strip()}})

    @classmethod
    def from_process(cls) -> Settings:
        """This process's environment and working folder."""
        return cls.from_environment(os.environ, Path.cwd())

    def get(self, name: str) -> str | None:
        """A variable without surrounding blanks; None where it is unset or blank."""
        return self._values.get(name, "").strip() or None

    def has_key(self, provider: str) -> bool:
        """Whether a key for this provider is set."""
        return self._first(_names(provider).keys) is not None

    def access(self, provider: str) -> Credentials:
        """The provider's key and address. Raises MissingKeyError naming the variable to set."""
        names = _names(provider)
        key = self._first(names.keys)
        if key is None:
            variables = " or ".join(names.keys)
            raise MissingKeyError(
                f"{provider} needs an API key: set {variables} in the environment or in {self.cwd / '.env'}"
            )
        if not key.isascii() or not key.isprintable():
            raise MissingKeyError(f"{provider}: the value of {names.keys[0]} holds characters no API key has")
        return Credentials(key, self._first(names.urls))

    def api_version(self, provider: str) -> str | None:
        """The version of the provider's API that the environment asks for; None: the usual one. Raises ManifestError
        naming the variable for what is no version."""
        for name in _names(provider).versions:
            if (version := self.get(name)) is not None:
                version = "v1beta" if version == "beta" else version  # as Google's SDK reads it
                if _API_VERSION.fullmatch(version) is None:
                    raise ManifestError(
                        f"{provider}: {name} is no version of an API: write v1 or v1beta; nothing was sent"
                    )
                return version
        return None

    def check_address(self, provider: str) -> None:
        """Raises ManifestError naming the variable where the environment sets an address that cannot be called, or a
        version of the API that is none."""
        self.api_version(provider)
        for name in _names(provider).urls:
            url = self.get(name)
            if url is not None and (problem := address_problem(url)):
                raise ManifestError(f"{provider}: {name} {problem}; nothing was sent")

    def secrets(self) -> tuple[str, ...]:
        """Every value that must never be shown: of variables named like keys, and the database's password."""
        found = [value.strip() for name, value in self._values.items() if _SECRET.search(name)]
        try:
            password = urlsplit(self.state_url or "").password or ""
        except ValueError:
            password = ""
        return tuple(value for value in {*found, password, unquote(password)} if value)

    def key_names(self, provider: str) -> tuple[str, ...]:
        """The variables a key for this provider may be in."""
        return _names(provider).keys

    def address_names(self, provider: str) -> tuple[str, ...]:
        """The variables that may set another address for this provider."""
        return _names(provider).urls

    def is_elsewhere(self, provider: str) -> bool:
        """Whether the environment sets another address than the provider's own."""
        return self._first(_names(provider).urls) is not None

    @property
    def state_url(self) -> str | None:
        """Database URL of the state store; None = SQLite in the folder of runs."""
        return self.get("LAYTON_BATCH_STATE")

    @property
    def engine(self) -> str:
        """What makes the tables of jobs (``runs/engine.py``)."""
        return self.get("LAYTON_BATCH_ENGINE") or "threads"

    def with_engine(self, name: str | None) -> Settings:
        """The same with another engine; None: with its own."""
        return self if name is None else replace(self, _values={**self._values, "LAYTON_BATCH_ENGINE": name})

    @property
    def user_state(self) -> Path | None:
        """Where this user's programs keep what they must not forget; None where the environment names no such place."""
        for name, below in (("XDG_STATE_HOME", ""), ("HOME", ".local/state")):
            if (found := self.get(name) or "").startswith("/"):  # a relative one counts for nothing
                return Path(found) / below
        return None

    @property
    def environment(self) -> Mapping[str, str]:
        """All of it, for a library that reads its own names; some values are secrets."""
        return self._values

    @property
    def copies(self) -> Path:
        """Where this machine's copies of run folders in object storage are."""
        if (named := self.get("LAYTON_BATCH_COPIES")) is not None:
            return self.cwd / Path(named).expanduser()
        cache = self.get("XDG_CACHE_HOME") or ""
        return (Path(cache) if cache.startswith("/") else Path.home() / ".cache") / "layton-batch"

    @property
    def pacing(self) -> Pacing:
        """Every pause and patience, by the factor LAYTON_BATCH_PACING. Raises ManifestError for what is no factor."""
        text = self.get("LAYTON_BATCH_PACING")
        if text is None:
            return Pacing()
        try:
            factor = float(text)
        except ValueError:
            factor = math.nan
        if not 0 < factor <= 1:
            raise ManifestError(f"LAYTON_BATCH_PACING={text!r} is no factor: give a number above 0 and up to 1")
        return Pacing().scaled(factor)

    def is_on_this_machine(self, provider: str) -> bool:
        """Whether the provider's address leads to this machine: a sandbox, which costs nothing."""
        url = self._first(_names(provider).urls)
        return url is not None and _is_loopback(url)

    def check_pacing(self, provider: str) -> None:
        """Raises ManifestError where pauses are shortened and the provider is not on this machine."""
        if self.get("LAYTON_BATCH_PACING") is not None and not self.is_on_this_machine(provider):
            raise ManifestError(
                f"LAYTON_BATCH_PACING is for tests against a server on this machine, and {provider} is not there: "
                "unset it; nothing was sent"
            )

    @property
    def hf_token(self) -> str | None:
        return self.get("HF_TOKEN")

    @property
    def hf_endpoint(self) -> str:
        """Where ``hf://`` sources are fetched from, without a trailing slash."""
        return (self.get("HF_ENDPOINT") or HUB).rstrip("/")

    def _first(self, names: tuple[str, ...]) -> str | None:
        return next((value for name in names if (value := self.get(name)) is not None), None)


def address_problem(url: str) -> str | None:
    """Why no API can be at this address; None where one can. The address is not in the words: it may hold a key."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "is not a URL: its host or its port cannot be read"
    if parts.scheme not in ("http", "https"):
        return "is not the URL of an API: begin it with https://"
    if not host or port == 0 or any(char.isspace() or not char.isprintable() for char in url):
        return "is not the URL of an API: write it as https://HOST/PATH"
    return None


def _is_loopback(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _names(provider: str) -> _Names:
    prefix = provider.upper().replace("-", "_")
    return _EXCEPTIONS.get(provider) or _Names((f"{prefix}_API_KEY",), (f"{prefix}_BASE_URL",))


def _dotenv(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    from dotenv import dotenv_values

    try:
        # No interpolation: it would read the process's environment behind our back, and change keys that hold a dollar.
        found = dotenv_values(path, interpolate=False, encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise DataError(f"{path}: cannot be read ({error})") from error
    return {name: value for name, value in found.items() if value is not None}
