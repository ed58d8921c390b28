"""How an S3 store is reached: Paimon's ``s3.*`` options and the standard variables of AWS.

An option beats a variable. Without keys from either, the client asks where it runs: a web identity,
a container's or an instance's role. What is read here goes to executors with the table, so that
they need no variables of their own.

Source: Paimon `s3/S3FileIO.java`, whose names are those of Hadoop's S3A without ``fs.s3a.``.
"""

from __future__ import annotations

import difflib
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from stream_app.errors import UsageError

_PREFIXES = ("s3.", "s3a.", "fs.s3a.")
_NAMES: Mapping[str, str] = {
    "endpoint": "endpoint",
    "region": "region",
    "endpoint.region": "region",
    "access-key": "access_key",
    "access.key": "access_key",
    "secret-key": "secret_key",
    "secret.key": "secret_key",
    "session-token": "session_token",
    "session.token": "session_token",
    "path.style.access": "path_style",
    "path-style-access": "path_style",
    "create-lock-file": "create_lock_file",
}
_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "access_key": ("AWS_ACCESS_KEY_ID",),
    "secret_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN",),
}
_KEYS = ("access_key", "secret_key", "session_token")
S3_OPTION_NAMES = (
    "s3.endpoint",
    "s3.region",
    "s3.access-key",
    "s3.secret-key",
    "s3.session.token",
    "s3.path.style.access",
    "s3.create-lock-file",
)
"""As they are best written; other writings of theirs are known too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Options:
    """Where the store is and who asks; its text holds no secret.

    Attributes:
        endpoint: URL of the service; None: that of AWS in the region.
        path_style: the bucket stands in the path of a URL and not in its host's name; None: as
            the endpoint needs it.
        create_lock_file: held by who creates an object, where the store does not mind conditions.
    """

    endpoint: str | None = None
    region: str = "us-east-1"
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    path_style: bool | None = None
    create_lock_file: str | None = None

    @property
    def secrets(self) -> tuple[str, ...]:
        """What must not be told."""
        return tuple(
            each for each in (self.access_key, self.secret_key, self.session_token) if each
        )

    def store_settings(self, bucket: str) -> dict[str, Any]:
        """Keywords of obstore's ``S3Store`` for a bucket."""
        url = self._endpoint_of(bucket)
        settings = {
            "region": self.region,
            "endpoint": url,
            "access_key_id": self.access_key,
            "secret_access_key": self.secret_key,
            "session_token": self.session_token,
        }
        given: dict[str, Any] = {key: value for key, value in settings.items() if value}
        given["virtual_hosted_style_request"] = not self._uses_path_style
        given["client_options"] = {"allow_http": bool(url and url.startswith("http:"))}
        return given

    @property
    def _uses_path_style(self) -> bool:
        if self.path_style is not None:
            return self.path_style
        if self.endpoint is None:
            return False
        # Such hosts have no names below them.
        host = urlsplit(_with_scheme(self.endpoint)).hostname or ""
        return "." not in host or _is_address(host)

    def _endpoint_of(self, bucket: str) -> str | None:
        if self.endpoint is None:
            return None
        url = _with_scheme(self.endpoint).rstrip("/")
        if self._uses_path_style:
            return url
        scheme, _, rest = url.partition("://")
        return f"{scheme}://{bucket}.{rest}"


def is_s3_option(key: str) -> bool:
    """Whether an option is about S3."""
    return key.startswith(_PREFIXES)


def s3_options(options: Mapping[str, str], environ: Mapping[str, str]) -> S3Options:
    """What options say, and variables where they say nothing.

    Args:
        options: may hold others than ``s3.*``, which do not matter here.

    Raises:
        UsageError: an unknown option or a wrong value; values are not told.
    """
    given: dict[str, Any] = {}
    for key, value in options.items():
        if is_s3_option(key):
            name = _name(key)
            given[name] = _boolean(key, value) if name == "path_style" else value
    # Keys belong together: half of a pair from elsewhere would be a riddle.
    has_keys = not given.keys().isdisjoint(_KEYS)
    for name, variables in _VARIABLES.items():
        found = next((environ[each] for each in variables if environ.get(each)), None)
        if found and name not in given and not (has_keys and name in _KEYS):
            given[name] = found
    if ("access_key" in given) != ("secret_key" in given):
        missing = "s3.secret-key" if "access_key" in given else "s3.access-key"
        raise UsageError(
            f"{missing} is missing: one key is given without the other",
            fix="give s3.access-key and s3.secret-key, or neither",
        )
    return S3Options(**given)


def _name(key: str) -> str:
    prefix = next(each for each in _PREFIXES if key.startswith(each))
    short = key.removeprefix(prefix)
    if short in _NAMES:
        return _NAMES[short]
    near = difflib.get_close_matches(short, _NAMES, n=1)
    hint = f"; did you mean {prefix + near[0]!r}?" if near else ""
    raise UsageError(f"unknown option {key!r}{hint}", fix=f"known: {', '.join(S3_OPTION_NAMES)}")


def _boolean(key: str, value: str) -> bool:
    if value.strip().lower() not in ("true", "false"):
        raise UsageError(f"{key} must be true or false, is {value!r}", fix=f"write {key} = true")
    return value.strip().lower() == "true"


def _with_scheme(endpoint: str) -> str:
    return endpoint if "://" in endpoint else f"https://{endpoint}"


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
