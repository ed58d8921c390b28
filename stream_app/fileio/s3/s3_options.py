"""Reads the options of an S3 client: Paimon's ``s3.*`` options and the standard variables of AWS.

An option overrides a variable, which overrides a profile of ``~/.aws``. If none of them has keys,
the client uses a role: of a web identity, a container or an instance. The settings go to executors
with the table, so executors need no variables.

Source: Paimon `s3/S3FileIO.java`, whose names are those of Hadoop's S3A without ``fs.s3a.``.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stream_app.errors import UsageError
from stream_app.fileio.s3.s3_keys import KeyFileSource, KeySource, S3Keys, aws_profile
from stream_app.fileio.setting_references import MissingValueError, names_file, resolve_references
from stream_app.model.near_names import unknown_name
from stream_app.model.options.option import parse_boolean
from stream_app.model.options.store_options import S3_OPTIONS

OPTION_PREFIXES = ("s3.", "s3a.", "fs.s3a.")
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
    "path.style.access": "wants_path_style",
    "path-style-access": "wants_path_style",
    "connection.ssl.enabled": "tls",
    "requester.pays.enabled": "requester_pays",
    "encryption.algorithm": "encryption",
    "server-side-encryption-algorithm": "encryption",
    "encryption.key": "encryption_key",
    "server-side-encryption.key": "encryption_key",
}
_BOOLEANS = ("wants_path_style", "tls", "requester_pays")
_VARIABLES: Mapping[str, tuple[str, ...]] = {
    "endpoint": ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
    "region": ("AWS_REGION", "AWS_DEFAULT_REGION"),
    "access_key": ("AWS_ACCESS_KEY_ID",),
    "secret_key": ("AWS_SECRET_ACCESS_KEY",),
    "session_token": ("AWS_SESSION_TOKEN",),
}
_KEYS = ("access_key", "secret_key", "session_token")
_ENCRYPTIONS: Mapping[str, str] = {
    "AES256": "AES256",
    "SSE-S3": "AES256",
    "SSE-KMS": "aws:kms",
    "DSSE-KMS": "aws:kms:dsse",
}
_REFUSED_PREFIXES: tuple[tuple[str, str], ...] = (
    (
        "aws.credentials.provider",
        "leave it out: keys are those of s3.access-key and s3.secret-key, else of AWS's "
        "variables, else of a profile (AWS_PROFILE), else of the machine's role",
    ),
    ("assumed.role.", "name a profile with role_arn in the variable AWS_PROFILE"),
    ("security.credential.", "give ${env:NAME} or ${file:PATH} as the key"),
    ("create-lock-file", "use a store that respects If-None-Match: a lock protects too little"),
    ("sign", "leave it out: requests are signed by AWS's version 4"),
    ("proxy.", "set the variables HTTPS_PROXY and NO_PROXY on the driver and the executors"),
    *(
        (name, "leave it out: it tunes Hadoop's client, which is not used here")
        for name in (
            *("attempts.", "retry.", "connection.", "threads.", "executor.", "max.total.tasks"),
            *("multipart.", "fast.upload", "block.size", "readahead.", "input.", "experimental."),
            *("paging.", "buffer.", "committer.", "change.detection.", "bulk.delete.", "audit."),
            *("vectored.", "prefetch.", "socket.", "impl", "performance.", "etag.", "user.agent"),
        )
    ),
)
"""Prefixes of Hadoop's options that this client lacks, and what to do instead."""


@dataclass(frozen=True, slots=True, kw_only=True)
class S3Options:
    """The store's address and the client's keys; its text holds no secret.

    Attributes:
        endpoint: the URL of the service; None: AWS's endpoint of the region.
        keys: the keys; None: those of `source`, or else of the client's role.
        source: renews the keys; None if they are fixed.
        wants_path_style: whether the bucket is in a URL's path rather than its host name; None: as
            the endpoint requires.
        encryption: the encryption of new objects; None: the store's default.
        certificates: PEM texts of authorities that are trusted besides the system's.
        max_attempts: the attempts of a request, including the first; None: as many as in a job.
    """

    endpoint: str | None = None
    region: str = "us-east-1"
    keys: S3Keys | None = None
    source: KeySource | None = None
    wants_path_style: bool | None = None
    requester_pays: bool = False
    encryption: str | None = None
    encryption_key: str | None = None
    certificates: bytes | None = field(default=None, repr=False)
    max_attempts: int | None = None

    def settings_of_bucket(self, bucket: str) -> dict[str, Any]:
        """Return the arguments of obstore's ``S3Store`` for a bucket, without the keys."""
        url = self._endpoint_of(bucket)
        settings = {
            "region": self.region,
            # Always set it, because the client would prefer the variable of this name to
            # `endpoint`.
            "aws_endpoint_url_s3": url,
            "server_side_encryption": self.encryption,
            "sse_kms_key_id": self.encryption_key,
            "request_payer": self.requester_pays,
        }
        arguments: dict[str, Any] = {key: value for key, value in settings.items() if value}
        arguments["virtual_hosted_style_request"] = not self.uses_path_style
        client: dict[str, Any] = {"allow_http": bool(url and url.startswith("http:"))}
        if self.certificates is not None:
            client["root_certificate"] = self.certificates
        arguments["client_options"] = client
        return arguments

    def current_keys(self) -> S3Keys | None:
        """Return the current keys; None if a role provides them.

        Raises:
            MissingValueError: no source has keys now.
        """
        return self.keys if self.source is None else self.source.keys()

    @property
    def uses_path_style(self) -> bool:
        """Whether a URL's path contains the bucket."""
        if self.wants_path_style is not None:
            return self.wants_path_style
        if self.endpoint is None:
            return False
        # Such hosts have no subdomains.
        host = urlsplit(self.endpoint).hostname or ""
        return "." not in host or _is_address(host)

    def _endpoint_of(self, bucket: str) -> str | None:
        if self.endpoint is None or self.uses_path_style:
            return self.endpoint
        scheme, _, host_and_path = self.endpoint.partition("://")
        return f"{scheme}://{bucket}.{host_and_path}"


def s3_options(
    options: Mapping[str, str], environ: Mapping[str, str], bucket: str = ""
) -> S3Options:
    """Read the settings from options, then variables, then an AWS profile.

    Args:
        options: options, of which others than ``s3.*`` are ignored.
        bucket: the bucket, whose options (``s3.bucket.NAME.…``) override the general ones.

    Raises:
        UsageError: an option is unknown or a value is wrong; the message hides secrets.
    """
    fields = _option_values(options, environ, bucket)
    # Both keys come from one source, never half of a pair from another.
    has_keys = not fields.keys().isdisjoint(_KEYS)
    for name, variables in _VARIABLES.items():
        value = next((environ[variable] for variable in variables if environ.get(variable)), None)
        if value and name not in fields and not (has_keys and name in _KEYS):
            fields[name] = value
    texts = {name: fields.pop(name) for name in _KEYS if name in fields}
    fields = _keys_or_source(texts, environ) | fields
    if bundle := environ.get("AWS_CA_BUNDLE"):
        fields["certificates"] = _certificates(bundle)
    if attempts := environ.get("AWS_MAX_ATTEMPTS"):
        fields["max_attempts"] = _attempts(attempts)
    has_tls = fields.pop("tls", True)
    if "endpoint" in fields:
        fields["endpoint"] = _endpoint(fields["endpoint"], has_tls=has_tls)
    return S3Options(**fields)


def _keys_or_source(texts: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the keys or their source, with a profile's settings of the lowest priority."""
    if not texts:
        profile = aws_profile(environ)
        return {} if profile is None else {**profile.settings(), "source": profile}
    if missing_names := [name for name in _KEYS[:2] if name not in texts]:
        option = "s3." + missing_names[0].replace("_", "-")
        raise UsageError(
            f"{option} is missing: one key is given without the other",
            fix="give s3.access-key and s3.secret-key, or neither",
        )
    if any(map(names_file, texts.values())):
        return {"source": KeyFileSource(**texts)}
    return {"keys": S3Keys(**texts)}


def _option_values(
    options: Mapping[str, str], environ: Mapping[str, str], bucket: str
) -> dict[str, Any]:
    """Return the options by field name; the bucket's options override the others."""
    fields: dict[str, Any] = {}
    bucket_fields: dict[str, Any] = {}
    for key, value in options.items():
        if not key.startswith(OPTION_PREFIXES):
            continue
        prefix = next(prefix for prefix in OPTION_PREFIXES if key.startswith(prefix))
        option_name = key.removeprefix(prefix)
        target_fields = fields
        if option_name.startswith("bucket."):
            if not bucket or not option_name.startswith(f"bucket.{bucket}."):
                continue  # another bucket's
            option_name = option_name.removeprefix(f"bucket.{bucket}.")
            target_fields = bucket_fields
        field_name = _field_name(key, option_name)
        target_fields[field_name] = _value(key, field_name, value, environ)
    if not bucket_fields.keys().isdisjoint(_KEYS):
        fields = {name: value for name, value in fields.items() if name not in _KEYS}
    return fields | bucket_fields


def _field_name(key: str, option_name: str) -> str:
    if option_name in _NAMES:
        return _NAMES[option_name]
    for prefix, advice in _REFUSED_PREFIXES:
        if option_name.startswith(prefix):
            raise UsageError(f"option {key!r} is not supported", fix=advice)
    key_prefix = key.removesuffix(option_name)
    problem = unknown_name("option", key, [key_prefix + name for name in _NAMES])
    raise UsageError(problem, fix=f"known: {', '.join(S3_OPTIONS)}")


def _value(key: str, name: str, text: str, environ: Mapping[str, str]) -> object:
    """Return an option's value; keys keep their references to files."""
    if name in _KEYS and names_file(text):
        return text
    try:
        value = resolve_references(text, environ)
    except MissingValueError as error:
        raise UsageError(f"{key}: {error}", fix="set the variable or create the file") from None
    if name in _BOOLEANS:
        return _boolean(key, value)
    if name == "encryption":
        if value not in _ENCRYPTIONS:
            raise UsageError(
                f"{key} = {value!r} is not a known encryption",
                fix=f"write one of {', '.join(_ENCRYPTIONS)}",
            )
        return _ENCRYPTIONS[value]
    return value


def _endpoint(text: str, *, has_tls: bool) -> str:
    """Return the endpoint's URL after a check, because the client panics at an invalid one."""
    url = text.strip().rstrip("/")
    if "://" not in url:
        url = f"{'https' if has_tls else 'http'}://{url}"
    try:
        parts = urlsplit(url)
        has_secret, host = "@" in parts.netloc, parts.hostname
        is_url = parts.scheme in ("http", "https") and not (parts.query or parts.fragment)
        is_url = (
            is_url and re.fullmatch(r"[a-z0-9_.:-]+", host or "") is not None and parts.port != 0
        )
    except ValueError:
        has_secret = "@" in url
        is_url = False
    if has_secret:
        raise UsageError(
            "s3.endpoint holds a user or a password, which every message would show",
            fix="write https://HOST:PORT, and give s3.access-key and s3.secret-key",
        )
    if not is_url:
        raise UsageError(f"s3.endpoint = {text!r} is not a URL", fix="write https://HOST:PORT")
    return url


def _boolean(key: str, value: str) -> bool:
    try:
        return parse_boolean(value.strip())
    except ValueError:
        problem = f"{key} must be true or false, and is {value!r}"
        raise UsageError(problem, fix=f"write {key} = true") from None


def _certificates(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise UsageError(
            f"the certificates in {path} cannot be read: {error.strerror}",
            where="AWS_CA_BUNDLE",
            fix="name a PEM file that exists",
        ) from None


def _attempts(text: str) -> int:
    if not re.fullmatch(r"[1-9][0-9]{0,3}", text):
        raise UsageError(
            f"{text!r} is not a number of attempts",
            where="AWS_MAX_ATTEMPTS",
            fix="set it to 1 (no request is sent again) or more, or unset it",
        )
    return int(text)


def _is_address(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
