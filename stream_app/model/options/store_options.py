"""Declares the options of stores.

A store's folder in `fileio` reads its options, and knows their other spellings. Those of HDFS are
Hadoop's settings, which this module does not list.
"""

from __future__ import annotations

from typing import Any

from stream_app.model.options.option import TEXT, Option, declared_options

S3_ENDPOINT = Option(
    "s3.endpoint",
    TEXT,
    "",
    "URL of a store with S3's protocol; absent: Amazon's in the region, or the variable "
    "`AWS_ENDPOINT_URL`.",
)
S3_REGION = Option(
    "s3.region", TEXT, "", "The region; absent: the variable `AWS_REGION`, or `us-east-1`."
)
S3_ACCESS_KEY = Option(
    "s3.access-key",
    TEXT,
    "",
    "The access key; absent: the variable `AWS_ACCESS_KEY_ID`, a profile, or the role of the "
    "machine. A running job reads a key written as `${file:PATH}` again when it changes.",
)
S3_SECRET_KEY = Option(
    "s3.secret-key",
    TEXT,
    "",
    "The secret of the access key; absent: the variable `AWS_SECRET_ACCESS_KEY`, a profile, or the "
    "role of the machine. Best written as `${env:NAME}` or `${file:PATH}`.",
)
S3_SESSION_TOKEN = Option(
    "s3.session.token",
    TEXT,
    "",
    "Token of keys that expire; absent: the variable `AWS_SESSION_TOKEN`.",
)
S3_PATH_STYLE = Option(
    "s3.path.style.access",
    TEXT,
    "",
    "Whether URLs have the bucket in the path instead of the host; absent: as the endpoint's host "
    "needs it.",
)
S3_TLS = Option(
    "s3.connection.ssl.enabled", TEXT, "", "`false`: no TLS for an endpoint without `https://`."
)
S3_REQUESTER_PAYS = Option(
    "s3.requester.pays.enabled",
    TEXT,
    "",
    "`true`: the reader of another account's bucket pays for its requests.",
)
S3_ENCRYPTION = Option(
    "s3.encryption.algorithm",
    TEXT,
    "",
    "How the store encrypts new files: `SSE-S3` (or `AES256`), `SSE-KMS`, `DSSE-KMS`; absent: the "
    "bucket's default.",
)
S3_ENCRYPTION_KEY = Option(
    "s3.encryption.key",
    TEXT,
    "",
    "The KMS key by which the store encrypts new files; absent: the bucket's or the account's key.",
)

S3_OPTIONS = declared_options(globals())
"""The options in their usual spelling."""
S3_KEYS = (S3_ACCESS_KEY.key, S3_SECRET_KEY.key, S3_SESSION_TOKEN.key)
"""The keys of the options whose values are secret."""

STORE_OPTIONS_OF_READS: tuple[Option[Any], ...] = (S3_ENDPOINT, S3_REGION, S3_PATH_STYLE)
"""The options that a read of Spark may set; its plan shows them."""
SECRETS_FOR_READS = dict.fromkeys(
    S3_KEYS,
    "set AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_SESSION_TOKEN in the environment of the "
    "driver",
)
"""The secret options by key, with the way in which a read gets them instead."""
