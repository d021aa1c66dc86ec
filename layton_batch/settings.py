"""Settings from the environment: keys, addresses, where state lives. The only place that reads it.

Names are the providers' SDKs' own. A ``.env`` in the working folder comes with the folder, perhaps from a stranger. So
it gives keys that the environment does not set, and an address only for the key of the same provider beside it. No
other setting is read from it, and no key of the environment goes to an address from it.
"""

from __future__ import annotations

import functools
import ipaddress
import logging
import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from layton_batch.clock import Pacing
from layton_batch.errors import DataError, ManifestError, MissingKeyError

HUB = "https://huggingface.co"
STATE_FORM = "postgresql+psycopg://USER@HOST/DATABASE, with :PASSWORD after USER"
"""Form of LAYTON_BATCH_STATE in messages. Where a password could stand, messages hide the text."""
_API_VERSION = re.compile(r"v\d{1,3}((alpha|beta)\d{0,3})?")
_API_KEY = re.compile(r"[A-Z][A-Z0-9_]*_API_KEY")
_PLACES_OF_RUNS = ("LAYTON_BATCH_STATE", "LAYTON_BATCH_RUNS")
"""Settings by which answers are found that were paid for: ignored in a ``.env``, they would be bought again."""
_VERSION = "GOOGLE_GENAI_API_VERSION"
_NOT_IN_FILES = re.compile(rf"LAYTON_BATCH_\w+|HF_ENDPOINT|{_VERSION}")
"""Names that mean something in the environment, and nothing in a ``.env``. Addresses of providers are told apart."""


class Credentials(NamedTuple):
    """A provider's key and, where the environment sets one, its address. The key is not in the repr."""

    api_key: str
    base_url: str | None

    def __repr__(self) -> str:
        return f"Credentials(api_key='***', base_url={self.base_url!r})"


class Variable(NamedTuple):
    """A variable that is set, and where: in the environment, or in the ``.env``. The value is not in its text."""

    name: str
    value: str
    place: str

    def __repr__(self) -> str:
        return f"Variable({self.name!r}, '***', {self.place!r})"

    def __str__(self) -> str:
        return f"{self.name} in {self.place}"


_KEYS: Mapping[str, tuple[str, ...]] = {
    "gemini": ("GEMINI_API_KEY", "GOOGLE_API_KEY"),
    "vertex": ("GOOGLE_VERTEX_ACCESS_TOKEN",),
}
_ADDRESSES: Mapping[str, str] = {"gemini": "GOOGLE_GEMINI_BASE_URL", "vertex": "GOOGLE_VERTEX_BASE_URL"}
"""Variables of providers for which they are not simply ``<NAME>_API_KEY`` and ``<NAME>_BASE_URL``; the first key that
is set wins."""
_KEY_GROUPS = (*_KEYS.values(), ("HF_TOKEN",))
"""Keys beside ``<NAME>_API_KEY`` that a ``.env`` may give. Those of a group come from one place: the environment, where
it sets any of them."""


def key_names(provider: str) -> tuple[str, ...]:
    """Return the variables that a key for this provider may be in."""
    return _KEYS.get(provider) or (f"{_prefix(provider)}_API_KEY",)


def address_name(provider: str) -> str:
    """Return the variable that may set another address for this provider."""
    return _ADDRESSES.get(provider) or f"{_prefix(provider)}_BASE_URL"


def _prefix(provider: str) -> str:
    return provider.upper().replace("-", "_")


@dataclass(frozen=True, slots=True)
class Settings:
    """A snapshot of the environment. Values stay out of the repr because some of them are secrets."""

    cwd: Path
    _values: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The environment, and the keys and addresses that the ``.env`` gives."""
    _file: Mapping[str, str] = field(default_factory=dict, repr=False)
    """The whole ``.env``."""
    read_from_file: tuple[str, ...] = ()
    """Names of the keys and addresses that the ``.env`` gives."""
    only_below: Path | None = None
    """The one folder below which sources may be read: that of a stranger's bundle. None: wherever a manifest says."""

    @classmethod
    def from_environment(cls, environ: Mapping[str, str], cwd: Path) -> Settings:
        """Take the given environment, and from ``cwd/.env`` what a stranger's file may say.

        Raises DataError for a ``.env`` that cannot be read, ManifestError for one that says where runs are.
        """
        values, file = _not_blank(environ), _not_blank(_dotenv(cwd / ".env"))
        for name in _PLACES_OF_RUNS:
            if name in file and name not in values:
                raise ManifestError(
                    f"{name} is not read from {cwd / '.env'}, which may be a stranger's: set it in the environment, or "
                    "take it out of the file; nothing was sent"
                )
        names = _names_given(file, values)
        return cls(cwd, {**values, **{name: file[name] for name in names}}, file, names)

    @classmethod
    def from_process(cls) -> Settings:
        """This process's environment and working folder. Raises ManifestError where that folder is gone."""
        try:
            folder = Path.cwd()
        except FileNotFoundError as error:
            raise ManifestError("the working folder was moved or deleted: change to a folder that is there") from error
        return cls.from_environment(os.environ, folder)

    def get(self, name: str) -> str | None:
        """A variable without surrounding blanks; None where it is unset or blank."""
        return self._values.get(name)

    def has_key(self, provider: str) -> bool:
        """Tell whether a key for this provider is set."""
        return self.key_variable(provider) is not None

    def access(self, provider: str) -> Credentials:
        """The provider's key and address. Raises MissingKeyError naming the variable to set."""
        key = self.key_variable(provider)
        if key is None:
            variables = " or ".join(key_names(provider))
            raise MissingKeyError(
                f"{provider} needs an API key: set {variables} in the environment or in {self.env_file}"
            )
        if (trouble := self.key_trouble(provider)) is not None:
            raise MissingKeyError(trouble)
        return Credentials(key.value, self.address(provider))

    def key_trouble(self, provider: str) -> str | None:
        """Say why the key that is set for the provider cannot be its key, naming the variable; None: it can be."""
        variable = self.key_variable(provider)
        if variable is None:
            return None
        key = variable.value
        if not key.isascii() or not key.isprintable():  # no HTTP header can hold it
            return f"{variable}: the value has characters that no API key has; copy the key again"
        owner = next((name for prefix, name in _KEY_PREFIXES.items() if key.startswith(prefix)), provider)
        if owner == provider or self.is_elsewhere(provider):  # a gateway may take any key
            return None
        return (
            f"{variable}: the value begins as a key of {owner}, and it would go to {provider}; set {variable.name} to "
            f"a key of {provider}"
        )

    def api_version(self, provider: str) -> str | None:
        """The version of the provider's API that the environment asks for; None: the usual one. Raises ManifestError
        naming the variable for what is no version."""
        version = self.get(_VERSION) if provider == "gemini" else None  # the addresses of others say it
        version = "v1beta" if version == "beta" else version  # as Google's SDK reads it
        if version is not None and _API_VERSION.fullmatch(version) is None:
            raise ManifestError(f"{provider}: {_VERSION} is no version of an API: write v1 or v1beta; nothing was sent")
        return version

    def address_trouble(self, provider: str) -> str | None:
        """Say why the address that is set for the provider cannot be called, naming its variable; None: it can be."""
        variable = self.address_variable(provider)
        problem = None if variable is None else address_problem(variable.value)
        return None if variable is None or problem is None else f"{provider}: {variable.name} {problem}"

    def check_address(self, provider: str) -> None:
        """Raises ManifestError naming the variable where the environment sets an address that cannot be called, or a
        version of the API that is none."""
        self.api_version(provider)
        if (trouble := self.address_trouble(provider)) is not None:
            raise ManifestError(f"{trouble}; nothing was sent")

    def secrets(self) -> tuple[str, ...]:
        """Return the values that must never be shown: the keys that this program reads, and the database's password."""
        pairs = (*self._values.items(), *self._file.items())
        names = set(chain.from_iterable(_KEY_GROUPS))
        secrets = [value for name, value in pairs if name in names or name.endswith("_API_KEY")]
        try:
            password = urlsplit(self.state_url or "").password or ""
        except ValueError:
            password = ""
        return tuple(value for value in {*secrets, password, unquote(password)} if value)

    def address(self, provider: str) -> str | None:
        """Return the address that is set for the provider's key; None: none is set."""
        return self.get(address_name(provider))

    def with_addresses(self, addresses: Mapping[str, str]) -> Settings:
        """Return these settings with addresses of providers for which none is set."""
        return replace(self, _values={**{address_name(name): url for name, url in addresses.items()}, **self._values})

    def is_elsewhere(self, provider: str) -> bool:
        """Return whether an address is set for this provider, if only its own."""
        return self.address(provider) is not None

    def key_variable(self, provider: str) -> Variable | None:
        """Return the variable that sets the provider's key; None: none does."""
        return next(filter(None, map(self._variable, key_names(provider))), None)

    def address_variable(self, provider: str) -> Variable | None:
        """Return the variable that sets the provider's address; None: none does."""
        return self._variable(address_name(provider))

    @property
    def env_file(self) -> Path:
        """The place of the ``.env``, which need not exist."""
        return self.cwd / ".env"

    @property
    def left_in_file(self) -> tuple[str, ...]:
        """Names in the ``.env`` that would mean something in the environment, which does not set them. An address
        would where its provider's key is set."""
        addresses = set(map(_address_of, self._values))
        return tuple(
            name
            for name in self._file
            if (_NOT_IN_FILES.fullmatch(name) or name in addresses) and name not in self._values
        )

    @property
    def state_url(self) -> str | None:
        """Database URL of the state store; None = SQLite in the folder of runs."""
        return self.get("LAYTON_BATCH_STATE")

    def without_state_url(self) -> Settings:
        """Return the settings for a copy of a workspace, whose rows are in a file of its own."""
        return replace(self, _values={name: v for name, v in self._values.items() if name != "LAYTON_BATCH_STATE"})

    @property
    def engine(self) -> str:
        """Return the name of the engine that makes the tables of jobs (``runs/job_engine.py``)."""
        return self.get("LAYTON_BATCH_ENGINE") or "threads"

    def with_engine(self, name: str | None) -> Settings:
        """Return these settings with another engine; None: unchanged."""
        return self if name is None else replace(self, _values={**self._values, "LAYTON_BATCH_ENGINE": name})

    @property
    def user_state(self) -> Path | None:
        """Return the folder for this user's persistent state; None if the environment names none."""
        for name, below in (("XDG_STATE_HOME", ""), ("HOME", ".local/state")):
            if (folder := self.get(name) or "").startswith("/"):  # a relative one counts for nothing
                return Path(folder) / below
        return None

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

    def lasting_key(self, provider: str) -> str | None:
        """Return the provider's key, by which its account is known; None where keys are tokens that soon end."""
        key = None if provider == "vertex" else self.key_variable(provider)
        return None if key is None else key.value

    def account_names(self, provider: str) -> tuple[str, ...]:
        """Return the organisation and the project that the environment names beside the provider's key."""
        names = (f"{_prefix(provider)}_{part}_ID" for part in ("ORG", "PROJECT"))  # as OpenAI's SDK reads them
        return tuple(f"{name}={value}" for name in names if (value := self.get(name)) is not None)

    def is_on_this_machine(self, provider: str) -> bool:
        """Tell whether the provider's address is on this machine: a sandbox, which costs nothing."""
        url = self.address(provider)
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
        """Return the address from which ``hf://`` sources are fetched, without a trailing slash."""
        return (self.get("HF_ENDPOINT") or HUB).rstrip("/")

    def _variable(self, name: str) -> Variable | None:
        place = str(self.env_file) if name in self.read_from_file else "the environment"
        return None if (value := self.get(name)) is None else Variable(name, value, place)


def address_problem(url: str) -> str | None:
    """Return why no API can be at this address, or None. The reason does not repeat the address: it may hold a key."""
    try:
        parts = urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError:
        return "is not a URL: its host or its port cannot be read; write it as https://HOST/PATH"
    if parts.scheme not in ("http", "https") or not host or port == 0 or not url.isprintable() or " " in url:
        return "is not the URL of an API: write it as https://HOST/PATH"
    return None


def _is_loopback(url: str) -> bool:
    try:
        host = urlsplit(url).hostname or ""
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _not_blank(values: Mapping[str, str]) -> dict[str, str]:
    return {name: value.strip() for name, value in values.items() if value.strip()}


def _names_given(file: Mapping[str, str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """Return the names that a ``.env`` gives: keys that the environment lacks, and addresses to which those go."""
    groups = {name: group for group in _KEY_GROUPS for name in group}
    keys = [
        name
        for name in file
        if (name in groups or _API_KEY.fullmatch(name)) and environment.keys().isdisjoint(groups.get(name, (name,)))
    ]
    addresses = [url for url in map(_address_of, keys) if url in file and url not in environment]
    return tuple(dict.fromkeys([*keys, *addresses]))


def _address_of(key: str) -> str:
    """Return the variable of the address to which the key of this variable goes; empty if that is no provider's key."""
    if provider := next((name for name, keys in _KEYS.items() if key in keys), None):
        return _ADDRESSES[provider]
    address = f"{key.removesuffix('_API_KEY')}_BASE_URL"
    return address if _API_KEY.fullmatch(key) and address not in _ADDRESSES.values() else ""


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
"""The name of a variable, as shells write it; python-dotenv takes any text."""


def _dotenv(path: Path) -> dict[str, str]:
    if not path.is_file():
        return {}
    from dotenv.parser import parse_stream

    values: dict[str, str] = {}
    try:
        # No interpolation: it would read the process's environment behind our back, and change keys that hold a dollar.
        with path.open(encoding="utf-8") as stream:
            for binding in parse_stream(stream):
                is_line = binding.key is None or (_NAME.fullmatch(binding.key) and binding.value is not None)
                if binding.error or not is_line:
                    text = binding.original.string
                    blank = text[: len(text) - len(text.lstrip())]
                    _warn_of_line(path, binding.original.line + blank.count("\n"))
                elif binding.key is not None and binding.value is not None:
                    values[binding.key] = binding.value
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 (byte {error.start + 1}); save it as UTF-8") from error
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror or error})") from error
    return values


_KEY_PREFIXES = {
    "sk-ant-": "anthropic",
    "sk-proj-": "openai",
    "gsk_": "groq",
    "AIza": "gemini",
    "sk-or-": "openrouter",
    "xai-": "xai",
}
"""Beginnings of keys by which their provider is known."""


@functools.cache
def _warn_of_line(path: Path, line: int) -> None:
    """Warn of a line that is not read, once a process: settings are read several times."""
    words = "%s, line %d: is no NAME=VALUE, such as OPENAI_API_KEY=…, and is not read"
    logging.getLogger(__name__).warning(words, path, line)
