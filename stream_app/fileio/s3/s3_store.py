"""Declares Amazon S3 and compatible stores as a store.

Source: Hadoop's S3A settings.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from stream_app.errors import StorageError, StreamAppError, UsageError
from stream_app.fileio.s3.s3_file_io import S3FileIO
from stream_app.fileio.s3.s3_keys import S3Keys
from stream_app.fileio.s3.s3_options import OPTION_PREFIXES, s3_options
from stream_app.fileio.setting_references import MissingValueError
from stream_app.fileio.store import OptionSource, SparkAccess, Store
from stream_app.model.options.store_options import S3_OPTIONS

_SCHEMES = ("s3", "s3a", "s3n")
_S3A = "spark.hadoop.fs.s3a."
_S3A_ENCRYPTIONS = {"AES256": "AES256", "aws:kms": "SSE-KMS", "aws:kms:dsse": "DSSE-KMS"}


@dataclass(frozen=True, slots=True)
class _OptionKeySource:
    """A `KeySource` that reads keys from renewed options."""

    source: OptionSource

    @property
    def age_max_s(self) -> float:
        return self.source.age_max_s

    def keys(self) -> S3Keys:
        try:
            keys = s3_options(self.source.options(), {}).keys
        except StreamAppError as error:
            raise MissingValueError(error.problem) from None
        if keys is None:
            raise MissingValueError("the login for the table's files has no keys of S3")
        return keys


def _open(
    location: str, options: Mapping[str, str], source: OptionSource | None
) -> tuple[str, S3FileIO]:
    """Return a location without its last slash, and its file system.

    Raises:
        UsageError: the location has keys, or names no folder of a bucket.
    """
    bucket, _, key = location.partition("://")[2].partition("/")
    if "@" in bucket:
        raise UsageError(
            "the location holds keys before an @, which every message would show",
            fix="write s3://BUCKET/PATH, and give s3.access-key and s3.secret-key",
        )
    # Other names are invalid in a URL and make the client panic.
    if not re.fullmatch(r"[\w.:-]+", bucket, re.ASCII) or not key.strip("/"):
        raise UsageError(
            f"{location!r} names no folder of a bucket",
            fix="write s3://BUCKET/PATH; a table is s3://BUCKET/warehouse/db.db/table",
        )
    resolved_options = s3_options(options, os.environ, bucket)
    if source is not None:
        resolved_options = replace(resolved_options, source=_OptionKeySource(source))
    return location.rstrip("/"), S3FileIO(resolved_options)


def _check_options(options: Mapping[str, str], location: str) -> None:
    s3_options(options, {}, bucket=urlsplit(location).netloc)


def _is_same(location: str, other: str) -> bool:
    """Return whether two locations are equal; endpoints are not compared."""
    path, other_path = (re.sub("/+$", "", text.partition("://")[2]) for text in (location, other))
    return path == other_path


def _spark_settings(
    location: str, options: Mapping[str, str], environ: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings by which Spark's S3A client reaches a location, with the current keys."""
    s3 = s3_options(options, environ, urlsplit(location).netloc)
    try:
        keys = s3.current_keys()
    except MissingValueError as error:
        raise StorageError(
            f"there are no keys for the checkpoint: {error}",
            where=location,
            fix="check that the file or the profile provides them when the job starts",
        ) from None
    settings = {
        "endpoint": s3.endpoint,
        "endpoint.region": s3.region,
        "path.style.access": str(s3.uses_path_style).lower(),
        "access.key": keys.access_key if keys else None,
        "secret.key": keys.secret_key if keys else None,
        "session.token": keys.session_token if keys else None,
        "encryption.algorithm": _S3A_ENCRYPTIONS.get(s3.encryption or ""),
        "encryption.key": s3.encryption_key,
        "requester.pays.enabled": "true" if s3.requester_pays else None,
    }
    return {_S3A + name: value for name, value in settings.items() if value is not None}


S3 = Store(
    schemes=_SCHEMES,
    location_forms=("s3://BUCKET/PATH",),
    option_prefixes=OPTION_PREFIXES,
    option_names=tuple(S3_OPTIONS),
    open=_open,
    check_options=_check_options,
    is_same=_is_same,
    path_beside=lambda _root, location: location,
    spark=SparkAccess(
        # Hadoop's scheme for S3
        location_of=lambda location: f"s3a://{location.partition('://')[2]}",
        settings_of=_spark_settings,
        jars="s3a",
    ),
    needs_lock=True,
    advice=(
        "check that the store can be reached from here (s3.endpoint, s3.region) and that its keys "
        "(s3.access-key, s3.secret-key, or AWS's variables) may read and write there; then start "
        "again, and the job continues where it was"
    ),
)
