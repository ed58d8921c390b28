"""Provides the keys of an S3 client, which are fixed or renewed while a job runs.

Expiring keys come from files (``${file:PATH}``) that another program rewrites, or from an AWS
profile. The client reads them again periodically, and at once when the store refuses them.
obstore's client itself renews the keys of roles (of a machine, a container or a web identity).

Source: AWS SDKs' standard chain of credential providers; `botocore/credentials.py`.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from stream_app.clock import Clock
from stream_app.errors import UsageError
from stream_app.fileio.setting_references import MissingValueError, resolve_references
from stream_app.model.options.store_options import S3_KEYS
from stream_app.version import install_command

if TYPE_CHECKING:
    from obstore.store import S3Credential  # it does not exist at run time

_FILES_AGE_MAX_S = 5.0
_PROFILE_AGE_MAX_S = 300.0
"""The ages after which the next request reads changeable keys again. Reading a profile may call a
service of AWS, whose keys are valid for longer than that."""
_REPORTED_LIFETIME = timedelta(minutes=1)
"""The lifetime that obstore gets, so short that it asks for the keys again before each request.

It asks again for keys that expire within five minutes.
"""
_READS_MAX = 10
"""The maximum number of reads of key files until two in a row are equal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Keys:
    """A store's access keys; their text shows no secret.

    Raises:
        UsageError: a key contains an impossible character, such as a blank.
    """

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        keys = (self.access_key, self.secret_key, self.session_token)
        for name, value in zip(S3_KEYS, keys, strict=True):
            # The key becomes a request header, and an invalid character there makes the client
            # panic.
            if value and not (value.isascii() and value.isprintable() and " " not in value):
                raise UsageError(
                    f"{name} holds a blank, a line feed or another character that no key has",
                    fix="check that the variable or file holds only the key",
                )

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts that must stay secret."""
        return tuple(
            text for text in (self.access_key, self.secret_key, self.session_token) if text
        )


class KeySource(Protocol):
    """The source of renewed keys; can be pickled, and its text holds no secret."""

    @property
    def age_max_s(self) -> float:
        """The age at which keys are read again, in seconds."""
        ...

    def keys(self) -> S3Keys:
        """Return the current keys.

        Raises:
            MissingValueError: the keys are unavailable; the error says why.
        """
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class KeyFileSource:
    """The source of keys whose options refer to files. Implements `KeySource`."""

    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    session_token: str | None = field(default=None, repr=False)

    @property
    def age_max_s(self) -> float:
        """A short age, because reading files costs little."""
        return _FILES_AGE_MAX_S

    def keys(self) -> S3Keys:
        """Return the keys in the files."""
        keys = self._read()
        for _ in range(_READS_MAX):
            reread_keys = self._read()
            # Files are replaced one after another, so keys read between replacements do not match.
            if reread_keys == keys:
                break
            keys = reread_keys
        return keys

    def _read(self) -> S3Keys:
        token = self.session_token
        return S3Keys(
            access_key=resolve_references(self.access_key, os.environ),
            secret_key=resolve_references(self.secret_key, os.environ),
            session_token=None if token is None else resolve_references(token, os.environ),
        )


@dataclass(frozen=True, slots=True)
class AwsProfile:
    """The profile of AWS's own library, from ``AWS_PROFILE`` and the files in ``~/.aws``.

    Implements `KeySource`.
    """

    @property
    def age_max_s(self) -> float:
        """The age at which keys are read again, in seconds."""
        return _PROFILE_AGE_MAX_S

    def keys(self) -> S3Keys:
        """Return static keys, or those of `credential_process`, SSO or an assumed role."""
        try:
            credentials = _session().get_credentials()
            keys = None if credentials is None else credentials.get_frozen_credentials()
        except Exception as error:
            # botocore fails, its credential process fails, or a task's machine lacks the profile.
            raise MissingValueError(f"AWS's profile: {error}") from None
        if keys is None or not keys.access_key or not keys.secret_key:
            raise MissingValueError("AWS's profile has no keys, and there is no role")
        return S3Keys(
            access_key=keys.access_key,
            secret_key=keys.secret_key,
            session_token=keys.token or None,
        )

    def settings(self) -> dict[str, str]:
        """Return the profile's region and endpoint, if it has them."""
        try:
            profile = _session().get_scoped_config()
        except Exception:
            return {}  # reading the keys raises the error
        values = {"region": profile.get("region"), "endpoint": profile.get("endpoint_url")}
        return {name: value for name, value in values.items() if isinstance(value, str)}


def aws_profile(environ: Mapping[str, str]) -> AwsProfile | None:
    """Return the profile that variables and files select; None without one.

    Raises:
        UsageError: a profile is requested, and botocore is not installed.
    """
    home = environ.get("HOME")
    files = [environ.get("AWS_SHARED_CREDENTIALS_FILE"), environ.get("AWS_CONFIG_FILE")]
    if home:
        files += [f"{home}/.aws/credentials", f"{home}/.aws/config"]
    name = environ.get("AWS_PROFILE") or environ.get("AWS_DEFAULT_PROFILE")
    if not name and not any(file and Path(file).is_file() for file in files):
        return None
    try:
        import botocore.session  # noqa: F401, PLC0415 - an extra: few installations have profiles
    except ModuleNotFoundError:
        if not name:
            return None
        raise UsageError(
            f"AWS_PROFILE = {name} names a profile, which needs botocore, and botocore is not "
            "installed",
            fix=f"{install_command('aws')}, or give keys (s3.access-key and s3.secret-key, or "
            "AWS's variables)",
        ) from None
    return AwsProfile()


def _session() -> Any:
    """Return a new session, because a session never rereads its files."""
    import botocore.session  # noqa: PLC0415

    return botocore.session.Session()


class KeyProvider:
    """A provider of keys for obstore; all threads of a process may share it.

    Args:
        keys: the current keys; None if the source must provide them.
        source: renews the keys; None if they never change.
    """

    def __init__(self, keys: S3Keys | None, source: KeySource | None, clock: Clock) -> None:
        self._keys = keys
        self._source = source
        self._clock = clock
        self._loaded_at_s = None if keys is None else clock.steady_seconds()
        self._lock = threading.Lock()
        self._secrets: set[str] = set(keys.texts if keys else ())
        self.problem = ""
        """The reason why the source's last read returned no keys; empty if it returned keys."""

    def __call__(self) -> S3Credential:
        """Return the keys in obstore's form."""
        keys = self.current_keys()
        expires_at = datetime.fromtimestamp(self._clock.now_ms() / 1000, UTC) + _REPORTED_LIFETIME
        return {
            "access_key_id": keys.access_key,
            "secret_access_key": keys.secret_key,
            "token": keys.session_token,
            "expires_at": None if self._source is None else expires_at,
        }

    @property
    def can_change(self) -> bool:
        """Whether the keys can be renewed."""
        return self._source is not None

    def secrets(self) -> list[str]:
        """Return all keys so far, the longest first, because one may contain another."""
        return sorted(self._secrets, key=len, reverse=True)

    def current_keys(self) -> S3Keys:
        """Return the keys, renewed if they are old.

        Raises:
            MissingValueError: no keys are available.
        """
        with self._lock:
            if self._source is not None and self._is_old(self._source):
                self._reload()
            if self._keys is None:
                raise MissingValueError(self.problem)
            return self._keys

    def renew(self) -> bool:
        """Renew the keys at once, and return whether they have changed."""
        with self._lock:
            old_keys = self._keys
            self._reload()
            return self._keys != old_keys

    def _is_old(self, source: KeySource) -> bool:
        if self._loaded_at_s is None:
            return True
        return self._clock.steady_seconds() - self._loaded_at_s > source.age_max_s

    def _reload(self) -> None:
        if self._source is None:
            return
        self._loaded_at_s = self._clock.steady_seconds()
        try:
            self._keys = self._source.keys()
        except (MissingValueError, UsageError) as error:
            # If a task's machine lacks the file, the task continues with the driver's keys.
            self.problem = error.problem if isinstance(error, UsageError) else str(error)
            return
        self.problem = ""
        self._secrets |= set(self._keys.texts)
